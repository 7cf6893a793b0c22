/** The look of what is said at a port, of the list of ports, and of a palette over the drawing. */

export const PORT_STYLES = `
.jp-MaxLab-portLabel { position: absolute; left: 0; top: 0; z-index: 5; pointer-events: none; max-width: min(340px, calc(100% - 12px)); padding: 3px 8px; border-radius: 6px; border: 1px solid var(--mx-line); background: var(--mx-surface); color: var(--mx-text);
  font-size: 12px; line-height: 1.35; overflow-wrap: anywhere; box-shadow: 0 2px 10px rgba(0, 0, 0, 0.16); }
.jp-MaxLab-portLabel span { font: 11.5px var(--mx-font-mono); color: var(--mx-muted); }
.jp-MaxLab-portLabel.jp-mod-wrong { border-color: var(--mx-error); box-shadow: inset 3px 0 0 var(--mx-error), 0 2px 10px rgba(0, 0, 0, 0.16); padding-left: 11px; }
.jp-MaxLab-portLabel.jp-mod-wrong span { color: var(--mx-error); font-family: var(--mx-font-ui); font-size: 12px; }
.jp-MaxLab-palette.jp-mod-floating { position: absolute; left: 0; top: 0; z-index: 8; max-width: none; }
.jp-MaxLab-palette.jp-mod-floating .jp-MaxLab-paletteDrop { width: 100%; }
.jp-MaxLab-palette.jp-mod-floating .jp-MaxLab-paletteList { max-height: 180px; }
.jp-MaxLab-palette.jp-mod-floating .jp-mod-wide > .jp-MaxLab-paletteBody { grid-template-rows: minmax(0, 230px); }
.jp-MaxLab-palette.jp-mod-floating .jp-mod-wide .jp-MaxLab-paletteList { max-height: none; }
.jp-MaxLab-picker { position: absolute; left: 50%; top: 14px; z-index: 8; transform: translateX(-50%); width: min(520px, calc(100% - 20px)); display: flex; flex-direction: column; border-radius: 9px; border: 1px solid var(--mx-line);
  background: var(--mx-surface); box-shadow: 0 8px 30px rgba(0, 0, 0, 0.2); font-size: 12px; overflow: hidden; cursor: default; }
.jp-MaxLab-view .jp-MaxLab-picker .jp-MaxLab-paletteInput { margin: 8px; width: calc(100% - 16px); }
.jp-MaxLab-pickerRow { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 0 10px; padding: 4px 12px; cursor: pointer; }
.jp-MaxLab-pickerRow:hover { background: var(--mx-bg); }
.jp-MaxLab-pickerRow[aria-selected='true'] { background: var(--mx-accent-soft); box-shadow: inset 3px 0 0 var(--mx-accent); }
.jp-MaxLab-pickerSays { color: var(--mx-muted); overflow-wrap: anywhere; }
`;
