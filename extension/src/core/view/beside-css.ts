/** Style rules of two graphs side by side. */

export const BESIDE_STYLES = `
.jp-MaxLab-body.jp-mod-beside > .jp-MaxLab-besideRoom { display: flex; flex-direction: column; flex: 1 1 0; min-width: 0; min-height: 0; border-right: 1px solid var(--mx-line); }
.jp-MaxLab-body.jp-mod-beside > .jp-MaxLab-drawing { flex: 1 1 0; }
.jp-MaxLab-body.jp-mod-beside.jp-mod-stacked { flex-direction: column; }
.jp-MaxLab-body.jp-mod-beside.jp-mod-stacked > .jp-MaxLab-besideRoom { border-right: 0; border-bottom: 1px solid var(--mx-line); }
.jp-MaxLab-besideCaption { flex: none; padding: 3px 12px; border-bottom: 1px solid var(--mx-line); background: var(--mx-surface); color: var(--mx-muted); font-size: 12px; font-weight: 600;
  overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.jp-MaxLab-besideRoom > .jp-MaxLab-view { flex: 1 1 auto; min-height: 0; border: 0; border-radius: 0; }
.jp-MaxLab-besideRoom > .jp-MaxLab-view > .jp-MaxLab-bar, .jp-MaxLab-besideRoom > .jp-MaxLab-view > .jp-MaxLab-dock,
.jp-MaxLab-besideRoom > .jp-MaxLab-view .jp-MaxLab-panel, .jp-MaxLab-besideRoom .jp-MaxLab-zoom,
.jp-MaxLab-body.jp-mod-beside .jp-MaxLab-minimap { display: none; }
.jp-MaxLab-body.jp-mod-beside.jp-mod-one > .jp-MaxLab-besideRoom { display: none; }
.jp-MaxLab-body.jp-mod-beside.jp-mod-one .jp-MaxLab-minimap { display: revert; }
.jp-MaxLab-view .jp-MaxLab-besideToggle { flex: none; height: 24px; padding: 0 9px; border: 1px solid var(--mx-line); border-radius: 5px; background: var(--mx-bg); color: var(--mx-text); font: inherit; font-size: 12px; cursor: pointer; white-space: nowrap; }
.jp-MaxLab-view .jp-MaxLab-besideToggle[hidden] { display: none; }
.jp-MaxLab-view .jp-MaxLab-besideToggle:hover { border-color: var(--mx-accent); }
.jp-MaxLab-view .jp-MaxLab-besideToggle:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: 1px; }
.jp-MaxLab-differences { display: flex; flex-direction: column; flex: 0 0 148px; min-height: 0; border-top: 1px solid var(--mx-line); background: var(--mx-surface); }
.jp-MaxLab-differenceHead { display: flex; align-items: center; gap: 12px; flex: none; min-height: 34px; padding: 2px 8px 2px 12px; border-bottom: 1px solid var(--mx-line); font-size: 12px; }
.jp-MaxLab-differenceKey { display: inline-flex; align-items: center; gap: 6px; white-space: nowrap; }
.jp-MaxLab-differenceSpring { flex: 1 1 auto; }
.jp-MaxLab-differencePlace { color: var(--mx-muted); font-variant-numeric: tabular-nums; white-space: nowrap; }
.jp-MaxLab-differenceSign { display: inline-flex; align-items: center; justify-content: center; flex: none; width: 16px; height: 16px; border-radius: 50%; color: var(--mx-bg); font-size: 11.5px; font-weight: 700; line-height: 1; }
.jp-MaxLab-differenceSign.jp-mod-added { background: var(--mx-change); }
.jp-MaxLab-differenceSign.jp-mod-removed { background: var(--mx-error); }
.jp-MaxLab-differenceSign.jp-mod-changed, .jp-MaxLab-differenceSign.jp-mod-moved, .jp-MaxLab-differenceSign.jp-mod-renamed { background: var(--mx-differs); }
.jp-MaxLab-differenceRows { position: relative; flex: 1 1 auto; min-height: 0; overflow: auto; }
.jp-MaxLab-differenceRows:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: -2px; }
.jp-MaxLab-difference { display: grid; grid-template-columns: 16px minmax(90px, 0.7fr) minmax(0, 2.6fr) minmax(0, 0.9fr); gap: 10px; align-items: center; min-height: 26px; padding: 2px 12px; cursor: pointer; font-size: 12px; content-visibility: auto; contain-intrinsic-height: 26px; }
.jp-MaxLab-difference:hover { background: var(--mx-bg); }
.jp-MaxLab-difference[aria-selected='true'] { background: var(--mx-accent-soft); box-shadow: inset 3px 0 0 var(--mx-accent); }
.jp-MaxLab-differenceName { font-weight: 600; }
.jp-MaxLab-differenceName, .jp-MaxLab-differenceWhat, .jp-MaxLab-differenceScope { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.jp-MaxLab-differenceWhat { font-family: var(--mx-font-mono); font-size: 11.5px; white-space: pre; }
.jp-MaxLab-differenceScope { color: var(--mx-muted); }
.jp-MaxLab-differenceNote { padding: 8px 12px; color: var(--mx-muted); font-size: 12px; }
.jp-mod-narrow .jp-MaxLab-difference { grid-template-columns: 16px minmax(70px, 0.8fr) minmax(0, 2.2fr); }
.jp-mod-narrow .jp-MaxLab-differenceScope { display: none; }
`;
