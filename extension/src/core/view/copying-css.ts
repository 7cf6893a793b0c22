/** The look of the button that copies a table, in views, dashboards and files. */

export const COPYING_STYLES = `
.jp-MaxLab-copyCsv { position: relative; display: inline-block; margin-left: 4px; vertical-align: middle; }
.jp-MaxLab-copyCsv > button.jp-MaxLab-iconButton { display: inline-flex; align-items: center; justify-content: center; min-width: 20px; width: 20px; height: 20px; padding: 0; border: 0; border-radius: 4px; background: none; color: var(--mx-muted); cursor: pointer; }
.jp-MaxLab-copyCsv > button.jp-MaxLab-iconButton:hover { background: var(--mx-accent-soft); color: var(--mx-text); }
.jp-MaxLab-copyCsv .jp-MaxLab-icon { width: 12px; height: 12px; fill: none; stroke: currentColor; stroke-width: 1.4; }
.jp-MaxLab-copied { position: absolute; right: 100%; top: 50%; transform: translateY(-50%); padding: 0 6px; border-radius: 4px; background: var(--mx-text); color: var(--mx-surface); font-size: 11px; font-weight: 400; line-height: 18px; white-space: nowrap; pointer-events: none; }
.jp-MaxLab-copied:empty { display: none; }
`;
