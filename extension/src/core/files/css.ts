/** The style rules of the view of weight files; the rest is that of the graph view and of its tables. */

import { PARTS_STYLES } from '../panels/parts/css';
import { PANEL_STYLES } from '../panels/styles';

export const WEIGHTS_STYLES = `${PANEL_STYLES}${PARTS_STYLES}
.jp-MaxLab-view.jp-MaxLab-weights { height: 100%; border: 0; border-radius: 0; container-type: inline-size; }
.jp-MaxLab-weights-head { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 14px; flex: none; padding: 7px 14px; border-bottom: 1px solid var(--mx-line); background: var(--mx-surface); }
.jp-MaxLab-weights-head h2 { margin: 0; font-size: 14px; font-weight: 650; overflow-wrap: anywhere; }
.jp-MaxLab-weights-head .jp-MaxLab-note { margin-right: auto; }
.jp-MaxLab-view .jp-MaxLab-weights-filter { width: 230px; height: 28px; padding: 0 9px; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); color: var(--mx-text); font: 12.5px var(--mx-font-ui); }
.jp-MaxLab-view .jp-MaxLab-weights-filter::placeholder { color: var(--mx-muted); opacity: 1; }
.jp-MaxLab-weights-problem { display: flex; flex-direction: column; gap: 3px; flex: none; margin: 0; padding: 8px 14px; border-left: 3px solid var(--mx-error); background: var(--mx-error-fill); color: var(--mx-text); font-size: 12.5px; overflow-wrap: anywhere; white-space: pre-line; }
.jp-MaxLab-weights-problem b { font-weight: 600; }
.jp-MaxLab-weights-body { display: grid; grid-template-columns: minmax(0, 1fr) minmax(320px, 44%); grid-template-rows: minmax(0, 1fr); flex: 1 1 auto; min-height: 0; }
.jp-MaxLab-weights-body.jp-mod-alone { grid-template-columns: minmax(0, 1fr); }
.jp-MaxLab-weights-list, .jp-MaxLab-weights-side { min-width: 0; min-height: 0; overflow: auto; }
.jp-MaxLab-weights-list:focus-visible, .jp-MaxLab-weights-side:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: -2px; }
.jp-MaxLab-weights-side { border-left: 1px solid var(--mx-line); padding: 12px 16px 20px; background: var(--mx-surface); }
@container (max-width: 760px) {
  .jp-MaxLab-weights-body { grid-template-columns: minmax(0, 1fr); grid-template-rows: minmax(160px, 2fr) minmax(220px, 3fr); }
  .jp-MaxLab-weights-body.jp-mod-alone { grid-template-rows: minmax(0, 1fr); }
  .jp-MaxLab-weights-side { border-left: 0; border-top: 1px solid var(--mx-line); }
}
.jp-MaxLab-view .jp-MaxLab-weights-list .jp-MaxLab-table td { white-space: nowrap; }
.jp-MaxLab-view .jp-MaxLab-weights-list .jp-MaxLab-rowName { font: 12px var(--mx-font-mono); font-weight: 500; }
.jp-MaxLab-weights-metadata { border-bottom: 1px solid var(--mx-line); font-size: 12px; }
.jp-MaxLab-weights-metadata summary { padding: 6px 14px; cursor: pointer; color: var(--mx-muted); }
.jp-MaxLab-weights-metadata dl { display: grid; grid-template-columns: minmax(120px, auto) minmax(0, 1fr); gap: 2px 14px; max-height: 220px; overflow: auto; margin: 0; padding: 2px 14px 10px; }
.jp-MaxLab-weights-metadata dt { color: var(--mx-muted); overflow-wrap: anywhere; }
.jp-MaxLab-weights-metadata dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
.jp-MaxLab-weights-name { margin: 0 0 2px; font: 600 13px var(--mx-font-mono); overflow-wrap: anywhere; color: var(--mx-text); }
.jp-MaxLab-weights-card > .jp-MaxLab-note { margin: 0 0 10px; }
.jp-MaxLab-weights-refused { margin: 10px 0; }
.jp-MaxLab-weights-controls { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 8px; margin-bottom: 8px; font-size: 12px; }
.jp-MaxLab-weights-controls .jp-MaxLab-plainButton { min-width: 28px; }
.jp-MaxLab-weights-places { display: contents; }
.jp-MaxLab-weights-axis { display: inline-flex; align-items: center; gap: 5px; white-space: nowrap; }
.jp-MaxLab-view .jp-MaxLab-weights-axis input { width: 74px; height: 26px; padding: 0 6px; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); color: var(--mx-text); font: 12px var(--mx-font-ui); }
.jp-MaxLab-weights-canvasRoom { position: relative; width: max-content; max-width: 100%; line-height: 0; }
.jp-MaxLab-weights-picture canvas { display: block; cursor: crosshair; border-radius: 2px; box-shadow: 0 0 0 1px var(--mx-line); }
.jp-MaxLab-weights-picture canvas:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: 2px; }
.jp-MaxLab-weights-cursor { position: absolute; pointer-events: none; box-shadow: 0 0 0 1px var(--mx-bg), 0 0 0 2.5px var(--mx-text); }
.jp-MaxLab-weights-legend { display: flex; align-items: flex-start; gap: 16px; margin-top: 8px; font-size: 11px; color: var(--mx-muted); }
.jp-MaxLab-weights-scaleBox { display: inline-flex; flex-direction: column; gap: 2px; width: 220px; max-width: 100%; }
.jp-MaxLab-weights-scale { height: 9px; border-radius: 2px; box-shadow: 0 0 0 1px var(--mx-line); forced-color-adjust: none; }
.jp-MaxLab-weights-scaleWords { display: flex; justify-content: space-between; font-variant-numeric: tabular-nums; }
.jp-MaxLab-weights-none { display: inline-flex; align-items: center; gap: 5px; }
.jp-MaxLab-weights-value { display: block; min-height: 20px; margin-top: 6px; font: 12.5px var(--mx-font-mono); color: var(--mx-text); overflow-wrap: anywhere; }
.jp-MaxLab-weights-histogram { height: 96px; margin-top: 8px; background: none; }
.jp-MaxLab-model-graph { position: relative; min-width: 0; min-height: 0; }
.jp-MaxLab-model-graph > .jp-MaxLab-view { height: 100%; border: 0; border-radius: 0; }
.jp-MaxLab-model p { margin: 0 0 6px; overflow-wrap: anywhere; }
.jp-MaxLab-model-trust b { padding: 1px 6px; border: 1px solid var(--mx-line); border-radius: 6px; font-weight: 600; }
.jp-MaxLab-model-digest { display: block; overflow-wrap: anywhere; }
.jp-MaxLab-model-copy { display: flex; align-items: center; gap: 8px; margin-top: 6px; }
.jp-MaxLab-model-sizes { display: grid; gap: 7px; margin: 0; padding: 0; list-style: none; }
.jp-MaxLab-model-sizes li { display: grid; grid-template-columns: 1fr auto; gap: 2px 12px; font-size: 12.5px; font-variant-numeric: tabular-nums; }
.jp-MaxLab-model-bar { grid-column: 1 / -1; height: 5px; min-width: 2px; border-radius: 2.5px; background: var(--mx-accent); forced-color-adjust: none; }
.jp-MaxLab-model-list { margin-top: 10px; font-size: 12.5px; }
.jp-MaxLab-model-list summary { padding: 3px 0; cursor: pointer; font-weight: 600; }
.jp-MaxLab-model-table { max-height: 320px; overflow: auto; }
.jp-MaxLab-model-table td { white-space: nowrap; }
.jp-MaxLab-model-table:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: -2px; }
.jp-MaxLab-model .jp-MaxLab-table th[scope="row"] { font: 500 12px var(--mx-font-mono); text-align: left; }
.jp-MaxLab-weights-empty { padding: 18px 14px; color: var(--mx-muted); }
`;
