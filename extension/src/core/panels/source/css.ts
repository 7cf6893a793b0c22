/** Styles of the source panel. */

import { PARTS_STYLES } from '../parts/css';

export const SOURCE_STYLES = `${PARTS_STYLES}
.jp-MaxLab-sourcePanel { display: flex; flex-direction: column; height: 100%; min-height: 0; overflow: hidden; }
.jp-MaxLab-sourceSides { display: grid; grid-template: minmax(0, 1fr) / minmax(0, 2fr) minmax(0, 3fr); flex: 1 1 auto; min-height: 0; border-top: 1px solid var(--mx-line); }
.jp-MaxLab-cellSide { overflow: auto; min-height: 0; border-right: 1px solid var(--mx-line); background: var(--mx-bg); }
.jp-MaxLab-sourceMain { display: flex; flex-direction: column; min-height: 0; min-width: 0; }
.jp-MaxLab-sourceRight { flex: 1 1 auto; min-height: 60px; position: relative; background: var(--mx-bg); }
.jp-MaxLab-textSide { position: absolute; inset: 0; overflow: auto; }
.jp-MaxLab-textSide:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: -2px; }
.jp-MaxLab-sourceHead { display: flex; justify-content: space-between; gap: 10px; padding: 3px 12px; color: var(--mx-muted); font-size: 11px; border-bottom: 1px solid var(--mx-line); background: var(--mx-surface); overflow-wrap: anywhere; }
.jp-MaxLab-sourceSides .jp-MaxLab-codeNumber { opacity: 1; }
.jp-MaxLab-sourceSides .jp-mod-marked .jp-MaxLab-codeNumber, .jp-MaxLab-sourceSides .jp-mod-pointed .jp-MaxLab-codeNumber { color: var(--mx-text); }
.jp-MaxLab-codeGap { padding-left: 20px; color: var(--mx-muted); line-height: 1; }
.jp-MaxLab-view .jp-MaxLab-cellLine { display: flex; flex: 1; padding: 0; border: 0; background: none; font: inherit; text-align: left; white-space: pre; }
.jp-MaxLab-codeLine.jp-mod-pointed { background: var(--mx-accent-soft); }
.jp-MaxLab-codeLine.jp-mod-caret { outline: 1px dashed var(--mx-accent); outline-offset: -1px; }

.jp-MaxLab-editor { position: absolute; inset: 0; display: flex; font: 11.5px/1.55 var(--mx-font-mono); }
.jp-MaxLab-editorGutter { flex: 0 0 56px; padding: 6px 0; overflow: hidden; text-align: right; color: var(--mx-muted); background: var(--mx-surface); user-select: none; }
.jp-MaxLab-editorLine { padding-right: 8px; border-right: 3px solid transparent; }
.jp-MaxLab-editorLine.jp-mod-changed { border-right-color: var(--mx-accent); }
.jp-MaxLab-editorLine.jp-mod-bad { color: var(--mx-error); font-weight: 700; }
.jp-MaxLab-editorBody { position: relative; flex: 1 1 auto; min-width: 0; overflow: hidden; background: var(--mx-bg); }
.jp-MaxLab-editorColors { position: absolute; left: 0; top: 0; padding: 6px 10px; white-space: pre; tab-size: 2; color: var(--mx-text); pointer-events: none; }
.jp-MaxLab-view .jp-MaxLab-editorText::selection { background: var(--mx-accent-soft); color: transparent; }
.jp-MaxLab-view .jp-mod-plain .jp-MaxLab-editorText { color: var(--mx-text); }
.jp-MaxLab-view .jp-MaxLab-editorText { position: relative; width: 100%; height: 100%; margin: 0; padding: 6px 10px; border: 0; border-radius: 0; resize: none; background: transparent; color: transparent; caret-color: var(--mx-text);
  font: 11.5px/1.55 var(--mx-font-mono); tab-size: 2; white-space: pre; overflow: auto; box-shadow: none; }

.jp-MaxLab-trialBox { flex: 0 1 auto; max-height: 55%; overflow: auto; }
.jp-MaxLab-trialBox:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: -2px; }
.jp-MaxLab-staleNote { margin: 0 !important; padding: 6px 12px; font-weight: 600; }
.jp-MaxLab-trialBox.jp-mod-stale .jp-MaxLab-trial { border-left-color: var(--mx-line); background: none; color: var(--mx-muted); }
.jp-MaxLab-trialBox:empty { display: none; }
.jp-MaxLab-trial { padding: 7px 12px 9px; border-bottom: 1px solid var(--mx-line); border-left: 3px solid var(--mx-accent); font-size: 12.5px; overflow-wrap: anywhere; }
.jp-MaxLab-trial.jp-mod-bad { border-left-color: var(--mx-error); background: var(--mx-error-fill); }
.jp-MaxLab-diagnostics { margin: 4px 0 0 !important; padding: 0 !important; list-style: none; }
.jp-MaxLab-diagnostics li { display: flex; gap: 10px; font-family: var(--mx-font-mono); font-size: 11.5px; }
.jp-MaxLab-diagnostics .jp-MaxLab-link { flex: none; }
.jp-MaxLab-log summary { margin-top: 4px; cursor: pointer; color: var(--mx-muted); font-size: 12px; }
.jp-MaxLab-view .jp-MaxLab-bars { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 3px 12px; margin-top: 6px; font-size: 12px; }
.jp-MaxLab-view .jp-MaxLab-bars dt { float: none; width: auto; color: var(--mx-muted); font-weight: 400; }
.jp-MaxLab-view .jp-MaxLab-bars dd { display: flex; align-items: center; gap: 10px; margin: 0; width: auto; float: none; font-variant-numeric: tabular-nums; white-space: nowrap; }
.jp-MaxLab-barTrack { position: relative; flex: 0 1 260px; height: 9px; border-radius: 3px; background: var(--mx-line); }
.jp-MaxLab-barFill { position: absolute; inset: 0 auto 0 0; border-radius: 3px; background: var(--mx-hot); }
.jp-MaxLab-barSpread { position: absolute; top: 3px; height: 3px; min-width: 2px; background: var(--mx-text); }
.jp-mod-narrow .jp-MaxLab-sourceSides { grid-template: minmax(60px, 1fr) minmax(0, 2fr) / minmax(0, 1fr); }
.jp-mod-narrow .jp-MaxLab-cellSide { border-right: 0; border-bottom: 1px solid var(--mx-line); }
@media (forced-colors: active) { .jp-MaxLab-editorColors { display: none; } .jp-MaxLab-view .jp-MaxLab-editorText { color: CanvasText; } }
`;
