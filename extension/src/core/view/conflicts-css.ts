/** Style rules of the list of conflicts. */

export const CONFLICT_STYLES = `
.jp-MaxLab-conflicts { display: flex; flex-direction: column; flex: 0 1 auto; max-height: 38%; min-height: 0; border-top: 1px solid var(--mx-differs); background: var(--mx-surface); font-size: 12px; }
.jp-MaxLab-conflicts[hidden] { display: none; }
.jp-MaxLab-conflictsHead { flex: none; padding: 7px 12px; border-bottom: 1px solid var(--mx-line); font-weight: 600; }
.jp-MaxLab-conflictRows { flex: 1 1 auto; min-height: 0; overflow: auto; margin: 0; padding: 0; list-style: none; }
.jp-MaxLab-conflict { display: flex; flex-wrap: wrap; align-items: flex-start; gap: 6px 8px; padding: 6px 12px; border-bottom: 1px solid var(--mx-line); }
.jp-MaxLab-conflictSays { flex: 1 1 260px; min-width: 0; }
.jp-MaxLab-view .jp-MaxLab-conflictName { display: inline-flex; align-items: center; gap: 7px; max-width: 100%; padding: 2px 4px; border: 0; border-radius: 4px; background: none; color: var(--mx-text); font: inherit; font-weight: 600; text-align: left; cursor: pointer; overflow-wrap: anywhere; }
.jp-MaxLab-view .jp-MaxLab-conflictName:hover { background: var(--mx-bg); }
.jp-MaxLab-view .jp-MaxLab-conflictName:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: 1px; }
.jp-MaxLab-conflictSign { display: inline-flex; align-items: center; justify-content: center; flex: none; width: 16px; height: 16px; border-radius: 50%; background: var(--mx-differs); color: var(--mx-bg); font-weight: 700; line-height: 1; }
.jp-MaxLab-conflictPart { display: grid; grid-template-columns: minmax(70px, auto) repeat(3, auto minmax(0, 1fr)); gap: 2px 8px; padding: 2px 4px 2px 27px; }
.jp-MaxLab-conflictSide { color: var(--mx-muted); }
.jp-MaxLab-conflictWhat, .jp-MaxLab-conflictText { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.jp-MaxLab-conflictText { font-family: var(--mx-font-mono); font-size: 11.5px; }
.jp-mod-narrow .jp-MaxLab-conflictPart { grid-template-columns: auto minmax(0, 1fr); }
.jp-mod-narrow .jp-MaxLab-conflictWhat { grid-column: 1 / -1; }
`;
