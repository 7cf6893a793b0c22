/** The look of the strip that edits a graph, and of its palette, form and card. */

export const EDITING_STYLES = `
.jp-MaxLab-editing { flex: none; border-bottom: 1px solid var(--mx-line); background: var(--mx-surface); position: relative; z-index: 5; }
.jp-MaxLab-stripGauge { position: absolute; left: 0; right: 0; top: 0; height: 0; }
.jp-MaxLab-strip { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 6px; padding: 5px 8px 5px 14px; }
.jp-MaxLab-view .jp-MaxLab-plainButton { display: inline-flex; align-items: center; height: 26px; padding: 0 9px; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); color: var(--mx-text); font-size: 12px; }
.jp-MaxLab-view .jp-MaxLab-plainButton:hover { border-color: var(--mx-accent); }
.jp-MaxLab-stripSaid { flex: 1 1 120px; min-width: 0; color: var(--mx-muted); font-size: 12px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; text-align: right; }
.jp-MaxLab-beginning { position: absolute; left: 50%; top: 40%; z-index: 2; transform: translate(-50%, -50%); width: min(430px, calc(100% - 40px)); padding: 16px 20px; border: 1px dashed var(--mx-line); border-radius: 10px; background: var(--mx-surface); color: var(--mx-muted); font-size: 13px; text-align: center; cursor: default; }
.jp-MaxLab-beginning[hidden] { display: none; }
.jp-MaxLab-beginning p { margin: 0 0 10px; }
.jp-MaxLab-view .jp-MaxLab-beginning-title { color: var(--mx-text); font-size: 15px; font-weight: 600; }
.jp-MaxLab-view .jp-MaxLab-beginning-steps { display: flex; flex-wrap: wrap; align-items: center; justify-content: center; gap: 6px 12px; margin: 0; }
.jp-MaxLab-palette { position: relative; flex: 1 1 190px; max-width: 300px; }
.jp-MaxLab-view .jp-MaxLab-paletteInput, .jp-MaxLab-view .jp-MaxLab-changeInput { width: 100%; height: 26px; padding: 0 9px; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); color: var(--mx-text); font: 12.5px var(--mx-font-ui); }
.jp-MaxLab-view .jp-MaxLab-paletteInput::placeholder { color: var(--mx-muted) !important; opacity: 0.85; }
.jp-MaxLab-view .jp-MaxLab-changeInput { font-family: var(--mx-font-mono); font-size: 12px; }
.jp-MaxLab-view .jp-MaxLab-changeInput[aria-invalid='true'] { border-color: var(--mx-error); }
.jp-MaxLab-paletteDrop { position: absolute; left: 0; top: 30px; z-index: 7; width: min(560px, 86vw); display: flex; flex-direction: column; border-radius: 9px; border: 1px solid var(--mx-line);
  background: var(--mx-surface); box-shadow: 0 8px 30px rgba(0, 0, 0, 0.18); font-size: 12px; overflow: hidden; }
.jp-MaxLab-paletteDrop.jp-mod-wide { width: min(800px, 86vw); }
.jp-MaxLab-paletteDrop.jp-mod-dragged { opacity: 0; pointer-events: none; }
.jp-MaxLab-paletteBody { display: flex; flex-direction: column; flex: 0 1 auto; min-height: 0; }
.jp-mod-wide > .jp-MaxLab-paletteBody { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); grid-template-rows: minmax(0, 300px); }
.jp-MaxLab-paletteDrop:not(.jp-mod-wide) .jp-MaxLab-paletteList { max-height: 200px; }
.jp-MaxLab-detail { display: flex; flex: 0 4 auto; flex-direction: column; min-height: 0; overflow: hidden; max-height: 170px; border-top: 1px solid var(--mx-line); background: var(--mx-bg); user-select: text; cursor: default; }
.jp-mod-wide .jp-MaxLab-detail { max-height: none; border-top: none; border-left: 1px solid var(--mx-line); }
.jp-MaxLab-detail[hidden], .jp-mod-low:not(.jp-mod-wide) .jp-MaxLab-detail { display: none; }
.jp-MaxLab-detailText { flex: 1 1 auto; min-height: 0; overflow-y: auto; padding: 7px 12px; display: flex; flex-direction: column; gap: 5px; }
.jp-MaxLab-detailText > * { flex: none; }
.jp-MaxLab-detailTitle span { font: 11px var(--mx-font-mono); color: var(--mx-muted); overflow-wrap: anywhere; }
.jp-MaxLab-view .jp-MaxLab-detailParameters { margin: 0; display: grid; grid-template-columns: fit-content(150px) minmax(0, 1fr); gap: 1px 10px; }
.jp-MaxLab-view .jp-MaxLab-detailParameters dt { float: none; width: auto; margin: 0; padding: 0; border: none; overflow-wrap: break-word; font: 11px var(--mx-font-mono); color: var(--mx-text); }
.jp-MaxLab-view .jp-MaxLab-detailParameters dd { float: none; width: auto; margin: 0; padding: 0; color: var(--mx-muted); font-size: 11.5px; overflow-wrap: anywhere; }
.jp-MaxLab-view .jp-MaxLab-detailCode { flex: none; margin: 2px 0 0; padding: 6px 9px; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-surface); font: 11px/1.45 var(--mx-font-mono); color: var(--mx-text); white-space: pre-wrap; overflow-wrap: anywhere; }
.jp-MaxLab-detailButtons { flex: none; display: flex; flex-wrap: wrap; gap: 6px; padding: 6px 12px 8px; border-top: 1px solid var(--mx-line); }
.jp-MaxLab-detailButtons[hidden], .jp-MaxLab-view .jp-MaxLab-detailCode[hidden] { display: none; }
.jp-MaxLab-paletteNote { flex: none; padding: 6px 12px; border-bottom: 1px solid var(--mx-line); color: var(--mx-muted); overflow-wrap: anywhere; }
.jp-MaxLab-paletteList { flex: 0 1 auto; min-height: 60px; max-height: 300px; overflow-y: auto; }
.jp-MaxLab-paletteRow { display: grid; grid-template-columns: minmax(0, 1fr) auto minmax(0, 1fr); gap: 0 10px; padding: 4px 12px; cursor: pointer; }
.jp-MaxLab-paletteRow:hover { background: var(--mx-bg); }
.jp-MaxLab-paletteRow[aria-selected='true'] { background: var(--mx-accent-soft); box-shadow: inset 3px 0 0 var(--mx-accent); }
.jp-MaxLab-paletteName { font-weight: 600; overflow-wrap: anywhere; }
.jp-MaxLab-paletteFamily { color: var(--mx-muted); font-size: 11px; }
.jp-MaxLab-paletteResult { text-align: right; font: 11px var(--mx-font-mono); color: var(--mx-muted); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.jp-MaxLab-paletteSays { grid-column: 1 / 4; color: var(--mx-muted); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.jp-MaxLab-paletteNone { padding: 8px 12px; color: var(--mx-muted); }
.jp-MaxLab-changeForm { max-height: 60vh; overflow-y: auto; display: flex; flex-wrap: wrap; align-items: flex-end; gap: 8px 12px; margin: 0; padding: 7px 8px 9px 14px; border-top: 1px solid var(--mx-line); font-size: 12px; }
.jp-MaxLab-changeTitle { align-self: center; font-size: 12.5px; }
.jp-MaxLab-changeFields { display: flex; flex-wrap: wrap; gap: 8px 12px; }
.jp-MaxLab-changeRow { display: flex; flex-direction: column; gap: 2px; width: 150px; }
.jp-MaxLab-changeLabel { color: var(--mx-muted); font-size: 11px; }
.jp-MaxLab-changeNeeded { color: var(--mx-accent); }
.jp-MaxLab-changeEnd { display: flex; gap: 6px; }
.jp-MaxLab-changeForm .jp-MaxLab-button { padding: 0 12px; height: 26px; }
.jp-MaxLab-changeWrong { flex: 1 0 100%; color: var(--mx-error); white-space: pre-wrap; overflow-wrap: anywhere; }
.jp-MaxLab-ran { position: absolute; left: 0; top: 0; z-index: 3; width: max-content; min-width: 230px; max-width: min(440px, max(230px, 42%)); max-height: max(120px, 50%); display: flex; flex-direction: column; border-radius: 9px; border: 1px solid var(--mx-line);
  background: var(--mx-surface); box-shadow: 0 6px 24px rgba(0, 0, 0, 0.2); font-size: 12px; cursor: default; user-select: text; touch-action: auto; }
.jp-MaxLab-ranTop { display: flex; align-items: center; justify-content: space-between; gap: 8px; padding: 4px 6px 4px 12px; border-bottom: 1px solid var(--mx-line); }
.jp-MaxLab-ranHead { flex: 1 1 auto; font-weight: 600; }
.jp-MaxLab-ranBody { overflow: auto; padding: 6px 12px 10px; display: flex; flex-direction: column; gap: 8px; }
.jp-MaxLab-view .jp-MaxLab-ranNumbers { margin-top: 2px; padding: 6px 9px; max-height: 190px; overflow: auto; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); font: 11.5px/1.45 var(--mx-font-mono); color: var(--mx-text); white-space: pre; }
`;
