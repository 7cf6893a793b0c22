/** The style sheet of the dashboard: names start with `jp-MaxLab-`, colours are theme variables. */

import { COPYING_STYLES } from '../view/copying-css';
import { STRONG_STYLES } from '../view/strong-css';

export const DASHBOARD_STYLES = `${STRONG_STYLES}${COPYING_STYLES}
.jp-MaxLab-dash { box-sizing: border-box; display: flex; flex-direction: column; width: 100%; overflow: hidden; color: var(--mx-text);
  background: var(--mx-bg); border: 1px solid var(--mx-line); border-radius: 8px; font: 13px/1.45 var(--mx-font-ui); text-align: left;
  container-type: inline-size; }
.jp-MaxLab-dash.jp-mod-fill { height: 100%; border: 0; border-radius: 0; }
.jp-MaxLab-dash:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: -2px; }
.jp-MaxLab-dash * { box-sizing: border-box; }
.jp-MaxLab-dash [hidden] { display: none !important; }
.jp-MaxLab-dash button, .jp-MaxLab-dash select, .jp-MaxLab-dash summary { font: inherit; color: inherit; cursor: pointer; }
.jp-MaxLab-dash button:focus-visible, .jp-MaxLab-dash select:focus-visible, .jp-MaxLab-dash summary:focus-visible {
  outline: 2px solid var(--mx-accent); outline-offset: 1px; }

.jp-MaxLab-dashBar { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 10px; padding: 7px 10px 7px 14px; flex: none;
  border-bottom: 1px solid var(--mx-line); background: var(--mx-surface); }
.jp-MaxLab-dashTitles { display: flex; align-items: baseline; gap: 8px; margin-right: auto; min-width: 0; }
.jp-MaxLab-dashTitle { font-weight: 650; font-size: 14px; white-space: nowrap; }
.jp-MaxLab-dashState { display: inline-flex; align-items: center; gap: 6px; color: var(--mx-muted); font-size: 12px; white-space: nowrap; }
.jp-MaxLab-dashState::before { content: ''; width: 8px; height: 8px; border-radius: 50%; background: var(--mx-muted); align-self: center; }
.jp-MaxLab-dashState.jp-mod-running::before { background: var(--mx-live); box-shadow: 0 0 0 3px var(--mx-live-soft); }
.jp-MaxLab-dashLabel { padding: 1px 7px; border-radius: 9px; border: 1px solid var(--mx-warn); color: var(--mx-warn); font-size: 11px;
  font-weight: 600; white-space: nowrap; }
.jp-MaxLab-dashSpans { display: inline-flex; padding: 2px; border-radius: 7px; background: var(--mx-bg); border: 1px solid var(--mx-line); }
.jp-MaxLab-dash .jp-MaxLab-dashSpans button { min-width: 32px; height: 22px; padding: 0 8px; border: 0; border-radius: 5px; background: none;
  color: var(--mx-muted); font-size: 11.5px; font-variant-numeric: tabular-nums; }
.jp-MaxLab-dash .jp-MaxLab-dashSpans button:hover { color: var(--mx-text); }
.jp-MaxLab-dash .jp-MaxLab-dashSpans button[aria-pressed='true'] { background: var(--mx-accent-soft); color: var(--mx-text); font-weight: 600; }
.jp-MaxLab-dash .jp-MaxLab-dashButton { display: inline-flex; align-items: center; justify-content: center; gap: 6px; height: 28px; padding: 0 10px;
  border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); font-size: 12px; white-space: nowrap; list-style: none; }
.jp-MaxLab-dash .jp-MaxLab-dashButton:hover { border-color: var(--mx-muted); }
.jp-MaxLab-dash .jp-MaxLab-dashButton::-webkit-details-marker { display: none; }
.jp-MaxLab-dash .jp-MaxLab-dashButton.jp-mod-primary { border-color: transparent; background: var(--mx-accent); color: var(--mx-on-accent); font-weight: 600; }
.jp-MaxLab-dash .jp-MaxLab-dashButton[aria-disabled='true'] { opacity: 0.55; cursor: not-allowed; }
.jp-MaxLab-dash .jp-MaxLab-icon { width: 11px; height: 11px; fill: none; stroke: currentColor; stroke-width: 2;
  stroke-linecap: round; stroke-linejoin: round; flex: none; }
.jp-MaxLab-dashMenu { position: relative; }
.jp-MaxLab-dashMenuBody { position: absolute; right: 0; top: 32px; z-index: 5; min-width: 210px; padding: 4px; border-radius: 8px;
  background: var(--mx-surface); border: 1px solid var(--mx-line); box-shadow: 0 8px 28px rgba(0, 0, 0, 0.22); }
.jp-MaxLab-dashMenuBody.jp-mod-right { right: auto; left: 0; }
.jp-MaxLab-dash .jp-MaxLab-dashMenuBody button { display: block; width: 100%; padding: 6px 10px; border: 0; border-radius: 5px; background: none; text-align: left; font-size: 12.5px; }
.jp-MaxLab-dash .jp-MaxLab-dashMenuBody button:hover { background: var(--mx-accent-soft); }
.jp-MaxLab-dashMenuBody small { display: block; color: var(--mx-muted); font-size: 11px; }
.jp-MaxLab-dash .jp-MaxLab-dashPeriod { height: 28px; padding: 0 4px; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); font-size: 12px; }

.jp-MaxLab-dashBody { flex: 1 1 auto; min-height: 0; overflow: auto; padding: 10px; }
.jp-MaxLab-dashNote { display: flex; gap: 8px; margin: 0 0 10px; padding: 8px 12px; border-radius: 7px; background: var(--mx-surface);
  border: 1px solid var(--mx-line); color: var(--mx-muted); font-size: 12px; overflow-wrap: anywhere; }
.jp-MaxLab-dashNote.jp-mod-error { border-color: var(--mx-error); color: var(--mx-text); background: var(--mx-error-fill); }
.jp-MaxLab-dashNote b { color: var(--mx-text); font-weight: 600; }
.jp-MaxLab-dashGpus { display: flex; flex-wrap: wrap; gap: 6px; margin: 0 0 10px; }
.jp-MaxLab-dash .jp-MaxLab-dashGpu { display: inline-flex; align-items: center; gap: 7px; height: 26px; padding: 0 10px; border-radius: 13px;
  border: 1px solid var(--mx-line); background: var(--mx-surface); font-size: 12px; }
.jp-MaxLab-dash .jp-MaxLab-dashGpu[aria-pressed='false'] { color: var(--mx-muted); text-decoration: line-through; background: none; }
.jp-MaxLab-dash .jp-MaxLab-dashGpu small { color: var(--mx-muted); font-size: 11px; }
.jp-MaxLab-swatch { width: 10px; height: 10px; border-radius: 3px; flex: none; }
.jp-MaxLab-dash .jp-MaxLab-dashGpu[aria-pressed='false'] .jp-MaxLab-swatch { opacity: 0.35; }
.jp-MaxLab-line { width: 14px; height: 0; border-top-width: 2.5px; flex: none; }
.jp-MaxLab-dashGrid { display: grid; grid-template-columns: minmax(0, 1fr); gap: 10px; }
@container (min-width: 760px) { .jp-MaxLab-dashGrid { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
@container (min-width: 1500px) { .jp-MaxLab-dashGrid { grid-template-columns: repeat(3, minmax(0, 1fr)); } }
.jp-MaxLab-card { display: flex; flex-direction: column; min-width: 0; padding: 9px 6px 4px 0; border: 1px solid var(--mx-line); border-radius: 8px; background: var(--mx-surface); }
.jp-MaxLab-card.jp-mod-wide { grid-column: 1 / -1; }
.jp-MaxLab-cardHead { display: flex; box-sizing: border-box; align-items: baseline; gap: 4px 12px; flex-wrap: wrap; min-height: 22px; padding: 0 8px 2px 14px; }
.jp-MaxLab-card h3 { margin: 0 auto 0 0; padding: 0; font-size: 12.5px; font-weight: 600; color: var(--mx-text); white-space: nowrap; }
.jp-MaxLab-readouts { display: flex; flex-wrap: wrap; gap: 0 12px; margin: 0; padding: 0; justify-content: flex-end; }
.jp-MaxLab-readout { display: inline-flex; align-items: center; gap: 5px; font-size: 11.5px; color: var(--mx-muted); white-space: nowrap; }
.jp-MaxLab-readout b { color: var(--mx-text); font-weight: 600; font-variant-numeric: tabular-nums; }
.jp-MaxLab-card.jp-mod-wide > .jp-MaxLab-cardHead { flex-wrap: nowrap; }
.jp-MaxLab-dashTime { min-width: 0; font-size: 11.5px; color: var(--mx-muted); font-variant-numeric: tabular-nums; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.jp-MaxLab-table { width: calc(100% - 22px); margin: 2px 8px 8px 14px; border-collapse: collapse; font-size: 12px; }
.jp-MaxLab-dash .jp-MaxLab-table th { padding: 2px 10px 2px 0; border: 0; text-align: left; color: var(--mx-muted); font-weight: 500; font-size: 11px; background: none; }
.jp-MaxLab-dash .jp-MaxLab-table td { padding: 3px 10px 3px 0; border: 0; border-top: 1px solid var(--mx-line); text-align: left; color: var(--mx-text); background: none; font-variant-numeric: tabular-nums; }
.jp-MaxLab-dash .jp-MaxLab-table tr { background: none; }
.jp-MaxLab-dash .jp-MaxLab-table .jp-mod-number { text-align: right; }
.jp-MaxLab-tableBox { max-height: 300px; overflow: auto; margin: 0 8px 6px 14px; }
.jp-MaxLab-tableBox .jp-MaxLab-table { width: 100%; margin: 0; }
.jp-MaxLab-tableBox .jp-MaxLab-table th { position: sticky; top: 0; z-index: 1; background: var(--mx-surface); white-space: nowrap; }
.jp-MaxLab-tableBox .jp-MaxLab-table td { max-width: 220px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.jp-MaxLab-card.jp-mod-noGpu th:last-child, .jp-MaxLab-card.jp-mod-noGpu td:last-child { display: none; }
@container (max-width: 460px) {
  .jp-MaxLab-tableBox .jp-MaxLab-table td { max-width: 96px; }
  .jp-MaxLab-dash .jp-MaxLab-tableBox .jp-MaxLab-table :is(th, td) { padding-right: 6px; }
}
@container (max-width: 340px) { .jp-MaxLab-tableBox :is(th, td):nth-child(2) { display: none; } }
.jp-MaxLab-dash .jp-MaxLab-sort, .jp-MaxLab-dash .jp-MaxLab-link { padding: 0; border: 0; background: none; font: inherit; color: inherit; }
.jp-MaxLab-dash .jp-MaxLab-sort:hover { color: var(--mx-text); }
.jp-MaxLab-dash .jp-MaxLab-sort::after { content: ' \\25BE'; visibility: hidden; }
.jp-MaxLab-dash th[aria-sort='ascending'] .jp-MaxLab-sort, .jp-MaxLab-dash th[aria-sort='descending'] .jp-MaxLab-sort { color: var(--mx-text); font-weight: 600; }
.jp-MaxLab-dash th[aria-sort='descending'] .jp-MaxLab-sort::after { visibility: visible; }
.jp-MaxLab-dash th[aria-sort='ascending'] .jp-MaxLab-sort::after { content: ' \\25B4'; visibility: visible; }
.jp-MaxLab-dash .jp-MaxLab-link { color: var(--mx-accent); text-decoration: underline; text-underline-offset: 2px; }
.jp-MaxLab-plot .u-over.jp-mod-onMark { cursor: pointer; }
.jp-MaxLab-dash.jp-mod-single { height: 100%; border: 0; border-radius: 0; }
.jp-mod-single .jp-MaxLab-dashBody { padding: 6px; overflow: hidden auto; }
.jp-mod-single .jp-MaxLab-dashGrid { grid-template-columns: minmax(0, 1fr); }
.jp-mod-single .jp-MaxLab-card { border: 0; background: none; }
.jp-mod-single .jp-MaxLab-tableBox { max-height: none; }
.jp-mod-single .jp-MaxLab-tableBox .jp-MaxLab-table th { background: var(--mx-bg); }
.jp-MaxLab-plot { position: relative; margin-top: auto; width: 100%; min-height: 24px; }
.jp-MaxLab-dashEmpty { display: flex; flex-direction: column; align-items: center; justify-content: center; gap: 12px; padding: 48px 24px; text-align: center; color: var(--mx-muted); }
.jp-MaxLab-dashEmpty strong { color: var(--mx-text); font-size: 15px; font-weight: 600; }
.jp-MaxLab-dashEmpty p { max-width: 460px; margin: 0; }
.jp-MaxLab-dashLive { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

.jp-MaxLab-plot .uplot { position: relative; width: min-content; line-height: 1.5; }
.jp-MaxLab-plot .u-wrap { position: relative; user-select: none; }
.jp-MaxLab-plot .u-over, .jp-MaxLab-plot .u-under { position: absolute; }
.jp-MaxLab-plot .u-under { overflow: hidden; }
.jp-MaxLab-plot .u-over { cursor: crosshair; }
.jp-MaxLab-plot canvas { display: block; position: relative; width: 100%; height: 100%; }
.jp-MaxLab-plot .u-axis { position: absolute; }
.jp-MaxLab-plot .u-select { position: absolute; pointer-events: none; background: var(--mx-accent-soft); border-left: 1px solid var(--mx-accent); border-right: 1px solid var(--mx-accent); }
.jp-MaxLab-plot .u-cursor-x { position: absolute; left: 0; top: 0; height: 100%; pointer-events: none; will-change: transform; border-right: 1px solid var(--mx-muted); opacity: 0.7; }
.jp-MaxLab-plot .u-cursor-pt { position: absolute; left: 0; top: 0; border: 0 solid; border-radius: 50%; pointer-events: none; will-change: transform; background-clip: padding-box !important; }
.jp-MaxLab-plot .u-off { display: none; }
`;
