/** Styles that these panels share: columns, notes, tables, figures. */

export const PARTS_STYLES = `
.jp-MaxLab-view .jp-MaxLab-panelNote { display: flex; flex-direction: column; align-items: flex-start; gap: 4px; padding: 14px 16px; font-size: 12.5px; overflow-wrap: anywhere; }
.jp-MaxLab-columns { display: flex; height: 100%; min-height: 0; }
.jp-MaxLab-mainColumn { display: flex; flex-direction: column; flex: 1 1 auto; min-width: 0; min-height: 0; }
.jp-MaxLab-sideColumn { flex: 0 0 min(280px, 36%); min-width: 0; overflow: auto; padding: 8px 14px 14px; border-left: 1px solid var(--mx-line); }
.jp-MaxLab-sideColumn .jp-MaxLab-section:first-child { margin-top: 0; }
.jp-MaxLab-sideColumn:focus-visible, .jp-MaxLab-scroll:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: -2px; }
.jp-MaxLab-scroll { flex: 1 1 auto; min-height: 0; overflow: auto; }
.jp-MaxLab-tools { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 12px; flex: none; padding: 5px 12px; font-size: 12px; color: var(--mx-muted); }
.jp-MaxLab-tools strong { color: var(--mx-text); font-weight: 600; }
.jp-MaxLab-choice { display: inline-flex; padding: 2px; border: 1px solid var(--mx-line); border-radius: 7px; background: var(--mx-bg); }
.jp-MaxLab-view .jp-MaxLab-choice button { height: 22px; padding: 0 9px; border: 0; border-radius: 5px; background: none; color: var(--mx-muted); font-size: 11.5px; }
.jp-MaxLab-view .jp-MaxLab-choice button[aria-pressed='true'] { background: var(--mx-accent-soft); color: var(--mx-text); font-weight: 600; }
.jp-MaxLab-view .jp-MaxLab-plainButton { height: 26px; padding: 0 10px; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); font-size: 12px; }
.jp-MaxLab-view .jp-MaxLab-plainButton:hover { border-color: var(--mx-muted); }
.jp-MaxLab-view .jp-MaxLab-plainButton.jp-mod-primary { border-color: transparent; background: var(--mx-accent); color: var(--mx-surface); font-weight: 600; }
.jp-MaxLab-view .jp-MaxLab-plainButton:disabled { opacity: 0.5; cursor: not-allowed; }
.jp-MaxLab-tools label { display: inline-flex; align-items: center; gap: 6px; }
.jp-MaxLab-view select { max-width: 320px; height: 26px; padding: 0 6px; border: 1px solid var(--mx-line); border-radius: 6px; background: var(--mx-bg); color: var(--mx-text); font: 12px var(--mx-font-ui); }
.jp-MaxLab-view select:focus-visible, .jp-MaxLab-view textarea:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: -1px; }

.jp-MaxLab-view .jp-MaxLab-table { width: 100%; border-collapse: collapse; font-size: 12px; font-variant-numeric: tabular-nums; color: var(--mx-text); }
.jp-MaxLab-view .jp-MaxLab-table caption { caption-side: bottom; padding: 6px 12px; text-align: left; }
.jp-MaxLab-view .jp-MaxLab-table th, .jp-MaxLab-view .jp-MaxLab-table td { padding: 3px 12px; text-align: left; vertical-align: top; background: none; border: 0; max-width: none; }
.jp-MaxLab-view .jp-MaxLab-table thead th { position: sticky; top: 0; z-index: 1; background: var(--mx-surface); color: var(--mx-muted); font-weight: 600; font-size: 11px; box-shadow: inset 0 -1px 0 var(--mx-line); white-space: nowrap; }
.jp-MaxLab-view .jp-MaxLab-table .jp-mod-number { text-align: right; white-space: nowrap; }
.jp-MaxLab-view .jp-MaxLab-table tbody tr { background: none; }
.jp-MaxLab-view .jp-MaxLab-table tbody tr:hover { background: var(--mx-bg); cursor: pointer; }
.jp-MaxLab-view .jp-MaxLab-table tbody tr.jp-mod-selected { background: var(--mx-accent-soft); box-shadow: inset 3px 0 0 var(--mx-accent); }
.jp-MaxLab-view .jp-MaxLab-rowName { padding: 0; border: 0; background: none; color: var(--mx-text); font-weight: 600; text-align: left; min-width: 72px; overflow-wrap: anywhere; }
.jp-MaxLab-view .jp-MaxLab-sort { padding: 0; border: 0; background: none; color: inherit; font-weight: inherit; }
.jp-MaxLab-view .jp-MaxLab-sort:hover { color: var(--mx-text); }
.jp-MaxLab-table [aria-sort='ascending'] .jp-MaxLab-sort::after { content: ' ↑'; }
.jp-MaxLab-table [aria-sort='descending'] .jp-MaxLab-sort::after { content: ' ↓'; }

.jp-MaxLab-keys { display: flex; flex-wrap: wrap; gap: 3px 12px; list-style: none; font-size: 11.5px; color: var(--mx-text); }
.jp-MaxLab-keys li { display: inline-flex; align-items: center; gap: 6px; }
.jp-MaxLab-keys small { color: var(--mx-muted); font-size: 11px; }
.jp-MaxLab-swatchBox { display: inline-flex; align-items: center; justify-content: center; width: 16px; height: 14px; flex: none; border: 1px solid var(--mx-line); border-radius: 3px; font-size: 10px; line-height: 1; }
.jp-mod-narrow .jp-MaxLab-columns { flex-direction: column; overflow: auto; }
.jp-mod-narrow .jp-MaxLab-mainColumn { flex: 1 0 220px; }
.jp-mod-narrow .jp-MaxLab-sideColumn { flex: none; border-left: 0; border-top: 1px solid var(--mx-line); overflow: visible; }
`;
