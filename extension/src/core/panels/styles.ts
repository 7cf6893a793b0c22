/** Style rules that panels with a drawing share: a bar above, a canvas or table, a legend below. */

export const PANEL_STYLES = `
.jp-MaxLab-panelBar { display: flex; align-items: center; gap: 8px; padding: 4px 8px; flex: none; border-bottom: 1px solid var(--mx-line); background: var(--mx-surface); }
.jp-MaxLab-view .jp-MaxLab-panelBar .jp-MaxLab-iconButton[aria-pressed='true'] { color: var(--mx-text); }
.jp-MaxLab-panelStatus { margin-left: auto; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; color: var(--mx-muted); font-size: 11.5px; font-variant-numeric: tabular-nums; }
.jp-MaxLab-view .jp-MaxLab-select { flex: none; height: 26px; padding: 0 4px; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); color: var(--mx-text); font: 12px var(--mx-font-ui); }
.jp-MaxLab-view .jp-MaxLab-select:disabled { opacity: 0.55; }
.jp-MaxLab-check { display: inline-flex; align-items: center; gap: 5px; flex: none; font-size: 12px; color: var(--mx-text); white-space: nowrap; }
.jp-MaxLab-check input { margin: 0; accent-color: var(--mx-accent); }
.jp-MaxLab-check:has(input:disabled) { color: var(--mx-muted); }
.jp-MaxLab-surface { position: relative; overflow: hidden; touch-action: none; user-select: none; background: var(--mx-bg); }
.jp-MaxLab-surface:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: -2px; }
.jp-MaxLab-view .jp-MaxLab-panelProblem { flex: 1 1 auto; padding: 18px; color: var(--mx-muted); text-align: center; }
.jp-MaxLab-tableRoom { flex: 1 1 auto; min-height: 0; overflow: auto; background: var(--mx-surface); }
.jp-MaxLab-tableRoom:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: -2px; }
.jp-MaxLab-view .jp-MaxLab-dataTable { width: 100%; margin: 0; border: 0; border-collapse: collapse; font-size: 12px; color: var(--mx-text); background: none; }
.jp-MaxLab-view .jp-MaxLab-dataTable caption { padding: 6px 10px; caption-side: top; text-align: left; color: var(--mx-muted); font-size: 11.5px; }
.jp-MaxLab-view .jp-MaxLab-dataTable tr { background: none; }
.jp-MaxLab-view .jp-MaxLab-dataTable th, .jp-MaxLab-view .jp-MaxLab-dataTable td { padding: 3px 10px; border: 0; border-bottom: 1px solid var(--mx-line); text-align: left; font-weight: 400; white-space: nowrap; color: inherit; background: none; }
.jp-MaxLab-view .jp-MaxLab-dataTable thead th { position: sticky; top: 0; font-size: 11px; font-weight: 650; color: var(--mx-muted); background: var(--mx-surface); }
.jp-MaxLab-view .jp-MaxLab-dataTable .jp-mod-number { text-align: right; font-variant-numeric: tabular-nums; }
.jp-MaxLab-view .jp-MaxLab-dataTable tr.jp-mod-selected { background: var(--mx-accent-soft); }
.jp-MaxLab-view .jp-MaxLab-panelLegend { display: flex; flex: none; gap: 2px 14px; margin: 0; padding: 4px 10px; overflow: hidden; max-height: 24px; flex-wrap: wrap; list-style: none; border-top: 1px solid var(--mx-line); background: var(--mx-surface); color: var(--mx-muted); font-size: 11px; }
.jp-MaxLab-panelLegend:empty { display: none; }
.jp-MaxLab-panelLegend li { display: inline-flex; align-items: center; gap: 5px; white-space: nowrap; }
.jp-MaxLab-swatch { width: 16px; height: 10px; border-radius: 2px; flex: none; }
.jp-mod-narrow .jp-MaxLab-panelBar .jp-MaxLab-select, .jp-mod-narrow .jp-MaxLab-panelBar .jp-MaxLab-panelStatus { display: none; }
`;
