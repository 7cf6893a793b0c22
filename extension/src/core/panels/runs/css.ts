/** Styles of the panel of runs. */

import { PANEL_STYLES } from '../styles';
import { PARTS_STYLES } from '../parts/css';

export const RUNS_STYLES = `${PARTS_STYLES}${PANEL_STYLES}
.jp-MaxLab-runs { height: 100%; min-height: 0; }
.jp-MaxLab-runs > .jp-MaxLab-mainColumn { height: 100%; }
.jp-MaxLab-runsHead { padding: 2px 12px 8px; border-bottom: 1px solid var(--mx-line); }
.jp-MaxLab-view .jp-MaxLab-runsLine { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 10px; margin: 2px 0; font-size: 12.5px; font-variant-numeric: tabular-nums; }
.jp-MaxLab-runsLine > .jp-MaxLab-sub:first-child { min-width: 68px; }
.jp-MaxLab-view .jp-MaxLab-runsNotes { margin: 0; padding: 0 0 0 14px; font-size: 12px; overflow-wrap: anywhere; }
.jp-MaxLab-runsNotes li { margin: 0 0 4px; }
.jp-MaxLab-runs .jp-MaxLab-check, .jp-MaxLab-runs .jp-MaxLab-tools input[type='checkbox'] { margin: 0; accent-color: var(--mx-accent); }
.jp-MaxLab-verdict { white-space: nowrap; color: var(--mx-muted); }
.jp-MaxLab-verdict.jp-mod-slower, .jp-MaxLab-verdict.jp-mod-faster, .jp-MaxLab-verdict.jp-mod-new, .jp-MaxLab-verdict.jp-mod-gone { color: var(--mx-text); font-weight: 600; }
.jp-MaxLab-interval { display: inline-flex; align-items: center; gap: 8px; white-space: nowrap; color: var(--mx-muted); font-size: 11.5px; }
.jp-MaxLab-forest { position: relative; flex: none; width: 96px; height: 14px; border-radius: 3px; background: var(--mx-bg); }
.jp-MaxLab-forest i { position: absolute; }
.jp-MaxLab-forest .jp-mod-zero { top: 0; bottom: 0; border-left: 1px dashed var(--mx-muted); opacity: 0.7; }
.jp-MaxLab-forest .jp-mod-range { top: 5px; height: 4px; min-width: 2px; border-radius: 2px; background: var(--mx-muted); }
.jp-MaxLab-forest .jp-mod-at { top: 2px; width: 0; height: 10px; margin-left: -1px; border-left: 2px solid var(--mx-text); }
.jp-MaxLab-forest.jp-mod-slower .jp-mod-range { background: oklch(0.62 0.17 25); }
.jp-MaxLab-forest.jp-mod-faster .jp-mod-range { background: oklch(0.62 0.14 150); }
.jp-MaxLab-curves { flex: 1 1 auto; min-height: 120px; touch-action: pan-y; }
.jp-MaxLab-runs .jp-MaxLab-scroll:has(> .jp-MaxLab-curves) { display: flex; flex-direction: column; overflow: hidden; }
.jp-MaxLab-view .jp-MaxLab-curvesNote { flex: none; margin: 0; padding: 3px 12px 5px; font-size: 11px; }
.jp-MaxLab-view .jp-MaxLab-sizesInput { width: 190px; height: 26px; padding: 0 8px; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); color: var(--mx-text); font: 12px var(--mx-font-mono); }
.jp-MaxLab-view .jp-MaxLab-sizesInput:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: -1px; }
.jp-MaxLab-sizesProblem { color: var(--mx-error); }
.jp-MaxLab-sizesProblem:empty { display: none; }
`;
