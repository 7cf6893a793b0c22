/** Styles of a row that says how far something is, in views and below cells. */

export const WORK_STYLES = `
.jp-MaxLab-workingRow { position: relative; display: flex; align-items: center; gap: 10px; min-width: min(280px, 100%); box-sizing: border-box; padding: 5px 5px 7px 12px; border: 1px solid var(--mx-line); border-radius: 8px; overflow: hidden; background: var(--mx-surface); box-shadow: 0 4px 16px rgba(0, 0, 0, 0.14); font-size: 12.5px; pointer-events: auto; cursor: default; }
.jp-MaxLab-workingText { flex: 1 1 auto; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-variant-numeric: tabular-nums; }
.jp-MaxLab-workingTime { flex: none; min-width: 40px; color: var(--mx-muted); text-align: right; font-variant-numeric: tabular-nums; }
.jp-MaxLab-workingRow .jp-MaxLab-workingCancel { flex: none; padding: 2px 9px; border: 1px solid var(--mx-line); border-radius: 5px; background: var(--mx-bg); font-size: 12px; }
.jp-MaxLab-workingRow .jp-MaxLab-workingCancel:hover { border-color: var(--mx-muted); }
.jp-MaxLab-workingTrack { position: absolute; left: 0; right: 0; bottom: 0; height: 3px; background: var(--mx-line); }
.jp-MaxLab-workingBar { height: 100%; width: 0; background: var(--mx-accent); transition: width 0.1s linear; }
.jp-MaxLab-workingBar.jp-mod-unknown { width: 30%; animation: jp-MaxLab-working 1.2s ease-in-out infinite alternate; }
@keyframes jp-MaxLab-working { from { margin-left: 0; } to { margin-left: 70%; } }
@media (prefers-reduced-motion: reduce) { .jp-MaxLab-workingBar.jp-mod-unknown { width: 100%; opacity: 0.4; animation: none; } .jp-MaxLab-workingBar { transition: none; } }
@media (forced-colors: active) { .jp-MaxLab-workingTrack { background: Canvas; outline: 1px solid CanvasText; outline-offset: -1px; } .jp-MaxLab-workingBar { forced-color-adjust: none; background: Highlight; } }
`;
