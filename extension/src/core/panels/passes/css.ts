/** Styles of the passes panel. */

import { PARTS_STYLES } from '../parts/css';

export const PASSES_STYLES = `${PARTS_STYLES}
.jp-MaxLab-passes { height: 100%; min-height: 0; }
.jp-MaxLab-stages { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 8px; flex: none; padding: 7px 12px 3px; }
.jp-MaxLab-stageSlider { flex: 1 1 140px; max-width: 420px; min-width: 90px; margin: 0; accent-color: var(--mx-accent); }
.jp-MaxLab-stageName { flex: 1 1 200px; font-size: 12px; color: var(--mx-muted); font-variant-numeric: tabular-nums; }
.jp-MaxLab-stageName strong { color: var(--mx-text); font-size: 13px; }
.jp-MaxLab-stageLegend { flex: none; padding: 2px 12px 6px; }
.jp-MaxLab-stageList { list-style: none; display: flex; flex-direction: column; gap: 1px; }
.jp-MaxLab-view .jp-MaxLab-stage { display: flex; justify-content: space-between; gap: 10px; width: 100%; padding: 2px 7px; border: 0; border-radius: 5px; background: none; text-align: left; font-size: 12px; }
.jp-MaxLab-view .jp-MaxLab-stage small { color: var(--mx-muted); font-size: 11px; text-align: right; }
.jp-MaxLab-view .jp-MaxLab-stage:hover { background: var(--mx-bg); }
.jp-MaxLab-view .jp-MaxLab-stage[aria-current] { background: var(--mx-accent-soft); font-weight: 600; }
.jp-MaxLab-why { font-size: 12.5px; }
.jp-MaxLab-verdict { margin-top: 6px; padding: 7px 10px; border: 1px solid var(--mx-line); border-left-width: 3px; border-radius: 6px; background: var(--mx-bg); overflow-wrap: anywhere; }
.jp-MaxLab-verdict.jp-mod-together { border-left-color: var(--mx-accent); }
.jp-MaxLab-verdict.jp-mod-apart { border-left-color: var(--mx-error); }
.jp-MaxLab-verdict p { margin-top: 3px; }
`;
