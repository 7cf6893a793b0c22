/** Styles of the advice panel. */

import { PARTS_STYLES } from '../parts/css';

export const ADVICE_STYLES = `${PARTS_STYLES}
.jp-MaxLab-advice .jp-MaxLab-sideColumn { flex: 0 0 min(340px, 42%); }
.jp-MaxLab-view .jp-MaxLab-adviceList { margin: 0; padding: 0; list-style: none; counter-reset: advice; }
.jp-MaxLab-adviceCard { padding: 10px 14px; border-bottom: 1px solid var(--mx-line); font-size: 12.5px; overflow-wrap: anywhere; }
.jp-MaxLab-adviceCard.jp-mod-selected { box-shadow: inset 3px 0 0 var(--mx-accent); }
.jp-MaxLab-sideColumn .jp-MaxLab-adviceCard { padding: 10px 0 10px 8px; }
.jp-MaxLab-adviceHead { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 14px; }
.jp-MaxLab-view .jp-MaxLab-adviceTitle { flex: 1 1 auto; padding: 0; border: 0; background: none; color: var(--mx-text); font-size: 13px; font-weight: 650; text-align: left; }
.jp-MaxLab-view .jp-MaxLab-adviceTitle:hover { text-decoration: underline; text-underline-offset: 3px; }
ol.jp-MaxLab-adviceList .jp-MaxLab-adviceTitle::before { counter-increment: advice; content: counter(advice) '. '; color: var(--mx-muted); font-weight: 500; }
.jp-MaxLab-adviceSaving { display: inline-flex; align-items: center; gap: 7px; font-variant-numeric: tabular-nums; white-space: nowrap; }
.jp-MaxLab-adviceInterval { color: var(--mx-muted); font-size: 11.5px; }
.jp-MaxLab-view .jp-MaxLab-adviceWithheld { border-bottom: 1px solid var(--mx-line); }
.jp-MaxLab-adviceGauge { display: inline-block; width: 72px; height: 8px; border-radius: 4px; background: var(--mx-line); overflow: hidden; }
.jp-MaxLab-adviceGauge > span { display: block; height: 100%; background: var(--mx-accent); }
.jp-MaxLab-adviceGauge > .jp-mod-worse { background: var(--mx-muted); }
.jp-MaxLab-view .jp-MaxLab-adviceWhy { margin: 4px 0 6px; color: var(--mx-muted); line-height: 1.45; }
.jp-MaxLab-adviceHow { margin: 0 0 7px; }
.jp-MaxLab-adviceHow summary { width: max-content; cursor: pointer; color: var(--mx-muted); font-size: 12px; }
.jp-MaxLab-adviceHow summary:focus-visible, .jp-MaxLab-adviceCode:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: 1px; }
.jp-MaxLab-view .jp-MaxLab-adviceCode { margin: 5px 0 0; padding: 7px 9px; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); color: var(--mx-text); font: 11.5px/1.5 var(--mx-font-mono); overflow-x: auto; white-space: pre; }
.jp-MaxLab-adviceTools { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 10px; }
.jp-MaxLab-adviceOutcome:empty { display: none; }
.jp-MaxLab-adviceOutcome { margin-top: 9px; }
.jp-MaxLab-adviceResult { padding: 9px 11px; border: 1px solid var(--mx-line); border-radius: 7px; background: var(--mx-bg); }
.jp-MaxLab-adviceResult p { margin: 5px 0 0; }
.jp-MaxLab-adviceResult > .jp-mod-good::before { content: '✓ '; }
.jp-MaxLab-adviceProblem { margin: 0; white-space: pre-wrap; color: var(--mx-text); }
.jp-MaxLab-adviceChart { margin: 7px 0; }
.jp-MaxLab-adviceRow { display: grid; grid-template-columns: 62px minmax(40px, 1fr) 74px; align-items: center; gap: 8px; font-size: 11.5px; color: var(--mx-muted); }
.jp-MaxLab-adviceValue { color: var(--mx-text); font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
.jp-MaxLab-adviceTrack { position: relative; height: 18px; }
.jp-MaxLab-adviceBar { position: absolute; top: 4px; bottom: 4px; min-width: 1px; border-radius: 2px; box-sizing: border-box; }
.jp-MaxLab-adviceBar.jp-mod-predicted { border: 1px dashed var(--mx-accent); background: var(--mx-accent-soft); }
.jp-MaxLab-adviceBar.jp-mod-measured { background: var(--mx-accent); }
.jp-MaxLab-adviceBar.jp-mod-worse { background: var(--mx-muted); }
.jp-MaxLab-adviceSpread { position: absolute; top: 50%; height: 0; border-top: 2px solid var(--mx-text); transform: translateY(-1px); }
.jp-MaxLab-adviceSpread::before, .jp-MaxLab-adviceSpread::after { content: ''; position: absolute; top: -6px; height: 10px; border-left: 2px solid var(--mx-text); }
.jp-MaxLab-adviceSpread::before { left: 0; }
.jp-MaxLab-adviceSpread::after { right: 0; }
.jp-MaxLab-adviceZero { position: absolute; top: 0; bottom: 0; border-left: 1px solid var(--mx-muted); }
.jp-MaxLab-view .jp-MaxLab-adviceTable { width: 100%; border-collapse: collapse; font-size: 11.5px; font-variant-numeric: tabular-nums; color: var(--mx-text); }
.jp-MaxLab-view .jp-MaxLab-adviceTable th, .jp-MaxLab-view .jp-MaxLab-adviceTable td { padding: 2px 6px 2px 0; border: 0; background: none; text-align: right; font-weight: 400; color: inherit; }
.jp-MaxLab-view .jp-MaxLab-adviceTable th[scope='row'] { text-align: left; color: var(--mx-muted); }
.jp-MaxLab-view .jp-MaxLab-adviceTable thead th { color: var(--mx-muted); }
.jp-MaxLab-view .jp-MaxLab-adviceTable tr { background: none; }
`;
