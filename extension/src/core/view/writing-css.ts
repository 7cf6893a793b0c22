/** The look of the difference that is shown before it is written to a cell. */

export const WRITING_STYLES = `
.jp-MaxLab-writing { display: flex; flex-direction: column; gap: 6px; padding: 8px 10px 9px 14px; border-top: 1px solid var(--mx-line); font-size: 12px; }
.jp-MaxLab-writingTitle { font-size: 12.5px; }
.jp-MaxLab-writingSays { color: var(--mx-text); overflow-wrap: anywhere; }
.jp-MaxLab-writingCheck, .jp-MaxLab-writingFix { color: var(--mx-muted); }
.jp-MaxLab-writingLines { max-height: 220px; overflow: auto; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); font: 12px/1.5 var(--mx-font-mono); }
.jp-MaxLab-writingLines:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: 1px; }
.jp-MaxLab-writingRow { display: flex; width: max-content; min-width: 100%; white-space: pre; padding-right: 10px; }
.jp-MaxLab-writingNumber { flex: none; width: 40px; padding-right: 8px; text-align: right; color: var(--mx-muted); user-select: none; }
.jp-MaxLab-writingSign { flex: none; width: 18px; font-weight: 700; user-select: none; }
.jp-MaxLab-writing-removed { background: color-mix(in srgb, var(--mx-error) 11%, transparent); }
.jp-MaxLab-writing-added { background: color-mix(in srgb, var(--mx-accent) 13%, transparent); }
.jp-MaxLab-view .jp-MaxLab-writingMark { color: inherit; border-radius: 2px; background: color-mix(in srgb, var(--mx-accent) 26%, transparent); }
.jp-MaxLab-view .jp-MaxLab-writing-removed .jp-MaxLab-writingMark { background: color-mix(in srgb, var(--mx-error) 24%, transparent); text-decoration: line-through; }
.jp-MaxLab-writingEnd { display: flex; flex-wrap: wrap; gap: 6px; }
.jp-MaxLab-writing .jp-MaxLab-button { padding: 0 12px; height: 26px; }
@media (forced-colors: active) { .jp-MaxLab-writing-removed { text-decoration: line-through; } .jp-MaxLab-writing-added { text-decoration: underline; } }
`;
