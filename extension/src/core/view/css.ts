/** The style sheet of the view: all names start with `jp-MaxLab-`, all colours are theme variables. */

import { BESIDE_STYLES } from './beside-css';
import { COMMENT_STYLES } from './comments-css';
import { CONFLICT_STYLES } from './conflicts-css';
import { COPYING_STYLES } from './copying-css';
import { EDITING_STYLES } from './editing-css';
import { PORT_STYLES } from './ports-css';
import { STRONG_STYLES } from './strong-css';
import { WRITING_STYLES } from './writing-css';
import { WORK_STYLES } from './working-css';

export const STYLES = `${WORK_STYLES}${STRONG_STYLES}${COPYING_STYLES}${BESIDE_STYLES}${CONFLICT_STYLES}${EDITING_STYLES}${COMMENT_STYLES}${PORT_STYLES}${WRITING_STYLES}
.jp-MaxLab-view {
  box-sizing: border-box;
  display: flex;
  flex-direction: column;
  position: relative;
  width: 100%;
  min-height: 160px;
  overflow: hidden;
  color: var(--mx-text);
  background: var(--mx-bg);
  border: 1px solid var(--mx-line);
  border-radius: 8px;
  font: 13px/1.45 var(--mx-font-ui);
  text-align: left;
  contain: layout paint;
}
.jp-MaxLab-view *, .jp-MaxLab-view *::before { box-sizing: border-box; }
.jp-MaxLab-view [hidden] { display: none !important; }
.jp-MaxLab-view button { font: inherit; color: inherit; cursor: pointer; }
.jp-MaxLab-view button:focus-visible, .jp-MaxLab-view input:focus-visible,
.jp-MaxLab-codeScroll:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: 1px; }
.jp-MaxLab-icon { width: 15px; height: 15px; fill: none; stroke: currentColor; stroke-width: 1.5;
  stroke-linecap: round; stroke-linejoin: round; flex: none; }

.jp-MaxLab-bar { display: flex; align-items: center; gap: 8px; padding: 6px 8px 6px 14px; flex: none;
  border-bottom: 1px solid var(--mx-line); background: var(--mx-surface); min-height: 42px; }
.jp-MaxLab-titles { display: flex; align-items: baseline; gap: 8px; min-width: 72px; margin-right: auto; overflow: hidden; flex: 0 1 auto; }
.jp-MaxLab-title { font-weight: 650; font-size: 14px; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; min-width: 60px; }
.jp-MaxLab-subtitle { color: var(--mx-muted); font-size: 12px; white-space: nowrap; }
.jp-MaxLab-group { display: flex; gap: 2px; padding-left: 6px; border-left: 1px solid var(--mx-line); }
.jp-MaxLab-view .jp-MaxLab-iconButton { display: inline-flex; align-items: center; justify-content: center; min-width: 28px;
  height: 28px; padding: 0 5px; border: 0; border-radius: 6px; background: none; color: var(--mx-muted); font-size: 11px; font-weight: 600; }
.jp-MaxLab-view .jp-MaxLab-iconButton:hover { background: var(--mx-accent-soft); color: var(--mx-text); }
.jp-MaxLab-view .jp-MaxLab-iconButton[aria-pressed='true'] { color: var(--mx-accent); background: var(--mx-accent-soft); }
.jp-MaxLab-view .jp-MaxLab-button { display: inline-flex; align-items: center; gap: 5px; height: 28px; padding: 0 11px 0 8px;
  border: 0; border-radius: 6px; background: var(--mx-accent); color: var(--mx-surface); font-size: 12.5px; font-weight: 600; }
.jp-MaxLab-button .jp-MaxLab-icon { fill: currentColor; width: 12px; height: 12px; }
.jp-MaxLab-view [aria-disabled='true'] { opacity: 0.45; cursor: not-allowed; }
.jp-MaxLab-view .jp-MaxLab-button[aria-disabled='true'] { background: none; color: var(--mx-muted); opacity: 0.75;
  box-shadow: inset 0 0 0 1px var(--mx-line); }
.jp-mod-busy .jp-MaxLab-icon { animation: mx-pulse 0.9s ease-in-out infinite alternate; }
@keyframes mx-pulse { from { opacity: 1; } to { opacity: 0.25; } }

.jp-MaxLab-search { position: relative; display: flex; align-items: center; flex: 0 1 250px; min-width: 110px; height: 28px; }
.jp-MaxLab-search .jp-MaxLab-icon { position: absolute; left: 8px; color: var(--mx-muted); width: 13px; height: 13px; }
.jp-MaxLab-view .jp-MaxLab-searchInput { width: 100%; height: 28px; padding: 0 54px 0 27px; border: 1px solid var(--mx-line); border-radius: 6px;
  background: var(--mx-bg); color: var(--mx-text); font: 12.5px var(--mx-font-ui); appearance: none; }
.jp-MaxLab-view .jp-MaxLab-searchInput::placeholder { color: var(--mx-muted) !important; opacity: 0.85; }
.jp-MaxLab-searchInput::-webkit-search-cancel-button { display: none; }
.jp-MaxLab-searchCount { position: absolute; right: 8px; color: var(--mx-muted); font-size: 11px; font-variant-numeric: tabular-nums; pointer-events: none; }
.jp-MaxLab-view .jp-MaxLab-searchInput[aria-invalid='true'] { border-color: var(--mx-error); }
.jp-MaxLab-found { position: absolute; right: 8px; top: 8px; z-index: 4; width: min(560px, calc(100% - 16px)); max-height: calc(100% - 16px); display: flex; flex-direction: column;
  border-radius: 9px; background: var(--mx-surface); border: 1px solid var(--mx-line); box-shadow: 0 8px 30px rgba(0, 0, 0, 0.18); font-size: 12px; cursor: default; overflow: hidden; }
.jp-MaxLab-foundHints { display: flex; flex-wrap: wrap; gap: 4px; padding: 7px 10px; border-bottom: 1px solid var(--mx-line); }
.jp-MaxLab-view .jp-MaxLab-foundHint { display: inline-flex; align-items: center; gap: 5px; padding: 1px 8px; border: 1px solid var(--mx-line); border-radius: 5px; background: var(--mx-bg); font: 11.5px/1.6 var(--mx-font-mono); }
.jp-MaxLab-view .jp-MaxLab-foundHint:hover { border-color: var(--mx-accent); }
.jp-MaxLab-foundNote { display: flex; flex-direction: column; gap: 5px; padding: 10px 12px; color: var(--mx-muted); overflow-wrap: anywhere; }
.jp-MaxLab-view .jp-MaxLab-foundQuery { white-space: pre-wrap; color: var(--mx-text); }
.jp-MaxLab-foundWrong { color: inherit; background: var(--mx-error-fill); border-bottom: 2px solid var(--mx-error); }
.jp-MaxLab-foundGrid { display: flex; flex-direction: column; min-height: 0; }
.jp-MaxLab-foundScroll { position: relative; flex: 0 1 auto; min-height: 0; overflow-y: auto; scrollbar-gutter: stable; }
.jp-MaxLab-foundRows { position: relative; }
.jp-MaxLab-foundRow { display: grid; grid-template-columns: minmax(0, 1.2fr) minmax(0, 1.3fr) minmax(0, 1.2fr) 78px; gap: 10px; align-items: center; height: 26px; padding: 0 12px; }
.jp-MaxLab-foundRows .jp-MaxLab-foundRow { position: absolute; left: 0; right: 0; cursor: pointer; }
.jp-MaxLab-foundRows .jp-MaxLab-foundRow:hover { background: var(--mx-bg); }
.jp-MaxLab-foundRows .jp-MaxLab-foundRow[aria-selected='true'] { background: var(--mx-accent-soft); box-shadow: inset 3px 0 0 var(--mx-accent); }
.jp-MaxLab-foundHead { flex: none; border-bottom: 1px solid var(--mx-line); overflow-y: scroll; scrollbar-gutter: stable; }
.jp-MaxLab-foundCell { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; color: var(--mx-muted); }
.jp-MaxLab-foundRows .jp-mod-what { color: var(--mx-text); font-weight: 600; }
.jp-MaxLab-foundRows .jp-mod-shape { font-family: var(--mx-font-mono); font-size: 11px; }
.jp-MaxLab-foundCell.jp-mod-ns { text-align: right; font-variant-numeric: tabular-nums; color: var(--mx-text); }
.jp-MaxLab-view .jp-MaxLab-foundSort { padding: 0; border: 0; background: none; color: var(--mx-muted); font-size: 11px; font-weight: 600; }
.jp-MaxLab-view .jp-MaxLab-foundSort:hover { color: var(--mx-text); }

.jp-MaxLab-body { position: relative; display: flex; flex: 1 1 auto; min-height: 0; }
.jp-MaxLab-drawing { display: flex; flex-direction: column; flex: 1 1 auto; min-width: 0; min-height: 0; }
.jp-MaxLab-stage { position: relative; flex: 1 1 auto; min-width: 0; min-height: 0; overflow: hidden; touch-action: none; user-select: none; cursor: grab; }
.jp-MaxLab-canvas { position: absolute; inset: 0; width: 100%; height: 100%; display: block; }
.jp-MaxLab-tree { position: absolute; inset: 0; margin: 0; padding: 0; overflow: clip; opacity: 0; pointer-events: none; list-style: none; }
.jp-MaxLab-treeItem { position: absolute; left: 0; top: 0; overflow: hidden; white-space: nowrap; }
.jp-MaxLab-live { position: absolute; left: 0; top: 0; width: 1px; height: 1px; margin: 0; padding: 0; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; list-style: none; }
.jp-MaxLab-treeItem:focus { outline: none; }

.jp-MaxLab-stage.jp-mod-area { cursor: crosshair !important; }
.jp-MaxLab-area { position: absolute; z-index: 1; box-sizing: border-box; pointer-events: none; border: 1.5px dashed var(--mx-accent); background: color-mix(in srgb, var(--mx-accent) 12%, transparent); }
.jp-MaxLab-zoom { position: absolute; right: 10px; bottom: 10px; z-index: 3; max-height: calc(100% - 20px); display: flex; flex-direction: column; overflow: hidden auto; scrollbar-width: thin; padding: 2px; border-radius: 8px;
  background: var(--mx-surface); border: 1px solid var(--mx-line); }
.jp-MaxLab-zoom > * { flex: none; }
.jp-MaxLab-crumbs { position: absolute; left: 10px; top: 10px; max-width: calc(100% - 20px); display: flex; align-items: center; flex-wrap: wrap;
  padding: 1px 4px; border-radius: 7px; background: var(--mx-surface); border: 1px solid var(--mx-line); font-size: 12px; }
.jp-MaxLab-view .jp-MaxLab-crumb { padding: 2px 5px; border: 0; border-radius: 5px; background: none; color: var(--mx-muted); }
.jp-MaxLab-view .jp-MaxLab-crumb:last-child { color: var(--mx-text); font-weight: 600; }
.jp-MaxLab-view .jp-MaxLab-crumb:hover { background: var(--mx-accent-soft); }
.jp-MaxLab-crumbSep { color: var(--mx-muted); }

.jp-MaxLab-minimap { position: absolute; left: 10px; bottom: 10px; padding: 4px; border-radius: 8px; background: var(--mx-surface); border: 1px solid var(--mx-line);
  opacity: 0.94; touch-action: none; cursor: crosshair; line-height: 0; overflow: hidden; }
.jp-MaxLab-minimap:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: 1px; }
.jp-MaxLab-minimapFrame { position: absolute; left: 4px; top: 4px; border: 1.5px solid var(--mx-accent); border-radius: 2px; background: var(--mx-accent-soft); opacity: 0.6; pointer-events: none; }
.jp-MaxLab-apart { position: absolute; left: 50%; top: 10px; transform: translateX(-50%); width: max-content; max-width: calc(100% - 20px); display: flex; align-items: center; flex-wrap: wrap; gap: 2px 8px;
  padding: 4px 12px; border-radius: 8px; background: var(--mx-surface); border: 1px solid var(--mx-accent); font-size: 12px; cursor: default; }
.jp-MaxLab-view .jp-MaxLab-apartStep { min-width: 24px; height: 22px; padding: 0 6px; border: 1px solid var(--mx-line); border-radius: 5px; background: var(--mx-bg); font-weight: 600; }
.jp-MaxLab-legend { flex: none; display: grid; grid-template-columns: auto minmax(120px, 260px) 1fr; align-items: center; gap: 0 16px; padding: 6px 14px 3px;
  background: var(--mx-surface); border-top: 1px solid var(--mx-line); font-size: 11px; color: var(--mx-muted); }
.jp-MaxLab-view .jp-MaxLab-colouring { display: block; max-width: 190px; margin: 0 0 2px -4px; padding: 0 2px; border: 1px solid var(--mx-line); border-radius: 5px; background: var(--mx-bg); color: var(--mx-text); font: 600 11px/1.6 var(--mx-font-ui); }
.jp-MaxLab-legendTitle, .jp-MaxLab-legendNote { grid-row: 1 / 3; grid-column: 1; }
.jp-MaxLab-legendNote { grid-column: 3; }
.jp-MaxLab-legendBar, .jp-MaxLab-legendTicks { grid-column: 2; }
.jp-MaxLab-legendBar { height: 9px; border-radius: 3px; box-shadow: inset 0 0 0 1px var(--mx-line); }
.jp-MaxLab-legendTicks { position: relative; height: 30px; font-variant-numeric: tabular-nums; }
.jp-MaxLab-legendTicks span { position: absolute; top: 3px; transform: translateX(-50%); text-align: center; line-height: 1.25; }
.jp-MaxLab-legendTicks span:first-child { transform: none; }
.jp-MaxLab-legendTicks span:last-child { transform: translateX(-100%); text-align: right; }
.jp-MaxLab-legendTicks b { display: block; color: var(--mx-text); font-weight: 600; }
.jp-MaxLab-legendNote { display: flex; align-items: center; gap: 6px; }
.jp-MaxLab-legendHatch { width: 18px; height: 10px; border-radius: 2px; border: 1px solid var(--mx-line);
  background: repeating-linear-gradient(-45deg, transparent 0 2.5px, var(--mx-muted) 2.5px 3.5px); }
.jp-MaxLab-view .jp-MaxLab-changes { position: absolute; right: 10px; top: 10px; display: flex; align-items: center; gap: 7px; max-width: calc(100% - 20px);
  padding: 4px 10px; border-radius: 8px; background: var(--mx-surface); border: 1px solid var(--mx-line); font: inherit; font-size: 11.5px; color: var(--mx-text); cursor: pointer; }
.jp-MaxLab-view .jp-MaxLab-changes[hidden] { display: none; }
.jp-MaxLab-view .jp-MaxLab-changes:hover { border-color: var(--mx-change); }
.jp-MaxLab-view .jp-MaxLab-changes:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: 1px; }
.jp-MaxLab-changesSwatch { flex: none; width: 14px; height: 11px; border-radius: 3px; border: 2px solid var(--mx-change); }
.jp-MaxLab-changes[aria-pressed="false"] .jp-MaxLab-changesSwatch { border-style: dotted; border-color: var(--mx-muted); }
.jp-MaxLab-changesDetails { color: var(--mx-muted); }

.jp-MaxLab-tooltip { position: absolute; left: 0; top: 0; z-index: 3; max-width: 420px; padding: 6px 10px; border-radius: 7px; pointer-events: none;
  display: flex; flex-direction: column; background: var(--mx-text); color: var(--mx-bg); font-size: 11.5px; line-height: 1.5;
  box-shadow: 0 4px 18px rgba(0, 0, 0, 0.22); overflow-wrap: anywhere; }
.jp-MaxLab-hint { position: absolute; left: 50%; bottom: 16px; transform: translateX(-50%); z-index: 3; padding: 5px 12px; border-radius: 7px; pointer-events: none;
  background: var(--mx-text); color: var(--mx-bg); font-size: 12px; white-space: nowrap; }

.jp-MaxLab-working { position: absolute; left: 50%; top: 10px; transform: translateX(-50%); z-index: 4; display: flex; flex-direction: column; gap: 4px; width: max-content; max-width: calc(100% - 24px); pointer-events: none; }
.jp-MaxLab-fault { position: absolute; left: 50%; top: 12px; transform: translateX(-50%); z-index: 4; box-sizing: border-box; width: max-content; max-width: min(560px, calc(100% - 24px)); max-height: calc(100% - 24px); overflow: auto;
  padding: 9px 8px 11px 14px; border-radius: 9px; border: 1px solid var(--mx-error); border-left-width: 4px; background: var(--mx-surface); color: var(--mx-text); font-size: 12.5px; line-height: 1.5;
  overflow-wrap: anywhere; box-shadow: 0 6px 24px rgba(0, 0, 0, 0.2); }
.jp-MaxLab-view .jp-MaxLab-fault[hidden] { display: none; }
.jp-MaxLab-faultHead { display: flex; align-items: center; gap: 8px; }
.jp-MaxLab-faultHead strong { color: var(--mx-error); }
.jp-MaxLab-faultHead code { color: var(--mx-muted); font: 11.5px var(--mx-font-mono); }
.jp-MaxLab-view .jp-MaxLab-faultClose { margin-left: auto; font-size: 17px; line-height: 1; }
.jp-MaxLab-view .jp-MaxLab-fault p { margin: 2px 8px 0 0; }
.jp-MaxLab-view .jp-MaxLab-faultWhy { color: var(--mx-muted); }
.jp-MaxLab-view .jp-MaxLab-fault .jp-MaxLab-faultFix { margin-top: 6px; font-weight: 600; }

.jp-MaxLab-dock { position: relative; display: flex; flex-direction: column; flex: 0 0 240px; min-height: 0; border-top: 1px solid var(--mx-line); background: var(--mx-surface); }
.jp-MaxLab-splitter { position: absolute; left: 0; right: 0; top: -4px; height: 8px; z-index: 2; cursor: row-resize; touch-action: none; }
.jp-MaxLab-splitter:hover, .jp-MaxLab-splitter:focus-visible { background: var(--mx-accent-soft); outline: none; }
.jp-MaxLab-splitter:focus-visible { box-shadow: inset 0 0 0 2px var(--mx-accent); }
.jp-MaxLab-dockHead { display: flex; align-items: center; flex: none; border-bottom: 1px solid var(--mx-line); padding-right: 8px; }
.jp-MaxLab-dockHead .jp-MaxLab-dockTabs { flex: 0 0 auto; border-bottom: 0; }
.jp-MaxLab-dockHead > .jp-MaxLab-dockOut, .jp-MaxLab-dockHead > [hidden] + .jp-MaxLab-iconButton:last-child { margin-left: auto; }
.jp-MaxLab-view .jp-MaxLab-tab.jp-mod-out { font-style: italic; }
.jp-MaxLab-moved { height: 100%; min-height: 0; border: 0; border-radius: 0; background: var(--mx-surface); }
.jp-MaxLab-movedHead { display: flex; flex-wrap: wrap; align-items: center; gap: 12px; flex: none; min-height: 34px; padding: 2px 8px 2px 14px; border-bottom: 1px solid var(--mx-line); }
.jp-MaxLab-movedHead .jp-MaxLab-title { font-size: 13px; flex: 0 1 auto; }
.jp-MaxLab-movedNote { order: 1; flex: 1 0 100%; padding: 0 0 5px; color: var(--mx-error); font-size: 12px; }
.jp-MaxLab-movedNote:empty { display: none; }
.jp-MaxLab-movedHead .jp-MaxLab-iconButton { margin-left: auto; flex: none; }
.jp-MaxLab-view .jp-mod-overflown, .jp-MaxLab-view .jp-MaxLab-more[hidden] { display: none; }
.jp-MaxLab-view .jp-MaxLab-more .jp-MaxLab-icon { stroke-width: 2.4; }
.jp-MaxLab-menu { position: absolute; z-index: 6; display: flex; flex-direction: column; min-width: 170px; max-width: calc(100% - 8px); max-height: 320px; overflow: auto; padding: 4px; border-radius: 8px;
  border: 1px solid var(--mx-line); background: var(--mx-surface); box-shadow: 0 6px 24px rgba(0, 0, 0, 0.2); }
.jp-MaxLab-view .jp-MaxLab-menuItem { padding: 6px 10px 6px 24px; border: 0; border-radius: 5px; background: none; color: var(--mx-text); font: 12.5px var(--mx-font-ui); text-align: left; cursor: pointer; }
.jp-MaxLab-view .jp-MaxLab-menuItem:hover, .jp-MaxLab-view .jp-MaxLab-menuItem:focus-visible { background: var(--mx-accent-soft); outline: none; }
.jp-MaxLab-menuItem.jp-mod-on::before { content: '✓'; float: left; margin-left: -16px; }
.jp-MaxLab-dockTabs .jp-MaxLab-tab { flex: none; }
.jp-MaxLab-dockBody { position: relative; flex: 1 1 auto; min-height: 0; overflow: hidden; }
.jp-MaxLab-view .jp-MaxLab-dockNotice { flex: 1 1 auto; padding: 18px; color: var(--mx-muted); text-align: center; }
.jp-MaxLab-view tbody th { font-weight: inherit; }
.jp-MaxLab-panel { display: flex; flex-direction: column; flex: 0 0 min(348px, 46%); min-height: 0; min-width: 0; border-left: 1px solid var(--mx-line); background: var(--mx-surface); }
.jp-MaxLab-tabs { display: flex; align-items: center; gap: 2px; padding: 5px 8px; border-bottom: 1px solid var(--mx-line); flex: none; }
.jp-MaxLab-sideHead { display: flex; align-items: center; flex: none; padding-right: 8px; border-bottom: 1px solid var(--mx-line); }
.jp-MaxLab-sideHead .jp-MaxLab-tabs { flex: 1 1 auto; border-bottom: 0; }
.jp-MaxLab-view .jp-MaxLab-tab { padding: 3px 10px; border: 0; border-radius: 6px; background: none; color: var(--mx-muted); font-size: 12.5px; }
.jp-MaxLab-view .jp-MaxLab-tab[aria-selected='true'] { color: var(--mx-text); font-weight: 600; background: var(--mx-accent-soft); }
.jp-MaxLab-inspector, .jp-MaxLab-hottest { flex: 1 1 auto; min-height: 0; overflow: auto; padding: 12px 14px 18px; user-select: text; }
.jp-MaxLab-view h2, .jp-MaxLab-view h3, .jp-MaxLab-view p, .jp-MaxLab-view dl, .jp-MaxLab-view ul, .jp-MaxLab-view ol, .jp-MaxLab-view pre { margin: 0; padding: 0; }
.jp-MaxLab-inspectorHead h2 { display: flex; align-items: center; gap: 8px; font-size: 17px; font-weight: 650; line-height: 1.3; overflow-wrap: anywhere; color: var(--mx-text); }
.jp-MaxLab-inspectorHead p { color: var(--mx-muted); font-size: 12px; overflow-wrap: anywhere; }
.jp-MaxLab-dot { width: 10px; height: 10px; border-radius: 3px; flex: none; }
.jp-MaxLab-section { margin-top: 16px; }
.jp-MaxLab-section h3 { margin-bottom: 5px; font-size: 11px; font-weight: 650; letter-spacing: 0.03em; color: var(--mx-muted); overflow-wrap: anywhere; }
.jp-MaxLab-sub, .jp-MaxLab-note { color: var(--mx-muted); font-size: 12px; overflow-wrap: anywhere; }
.jp-MaxLab-view .jp-MaxLab-facts { display: grid; grid-template-columns: minmax(min-content, max-content) minmax(8ch, 1fr); gap: 2px 14px; font-size: 12.5px; }
.jp-MaxLab-view .jp-MaxLab-facts dt { width: auto; float: none; color: var(--mx-muted); font-weight: 400; }
.jp-MaxLab-view .jp-MaxLab-facts dd { margin: 0; width: auto; float: none; min-width: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.jp-MaxLab-view code, .jp-MaxLab-source { font-family: var(--mx-font-mono); font-size: 12px; background: none; color: inherit; padding: 0; }
.jp-MaxLab-view .jp-MaxLab-link { padding: 0; border: 0; background: none; color: var(--mx-accent); text-align: left; font-size: inherit; }
.jp-MaxLab-view .jp-MaxLab-link:hover { text-decoration: underline; }
.jp-MaxLab-values { list-style: none; display: flex; flex-direction: column; gap: 5px; font-size: 12.5px; }
.jp-MaxLab-values li { display: flex; flex-direction: column; }
.jp-MaxLab-values li .jp-MaxLab-sub:empty { display: none; }
.jp-MaxLab-source { margin-top: 3px !important; padding: 7px 10px !important; border-radius: 6px; border: 1px solid var(--mx-line); background: var(--mx-bg); overflow-x: auto; white-space: pre; color: var(--mx-text); }
.jp-MaxLab-source mark { color: inherit; background: var(--mx-accent-soft); border-bottom: 2px solid var(--mx-accent); }
.jp-MaxLab-meterText { display: flex; justify-content: space-between; align-items: baseline; font-variant-numeric: tabular-nums; }
.jp-MaxLab-meterText strong { font-size: 19px; font-weight: 650; }
.jp-MaxLab-meterText span { color: var(--mx-muted); font-size: 12px; }
.jp-MaxLab-meterTrack { height: 5px; margin: 3px 0 6px; border-radius: 3px; background: var(--mx-line); overflow: hidden; }
.jp-MaxLab-meterBar { height: 100%; background: var(--mx-hot); }
.jp-MaxLab-members { display: flex; flex-wrap: wrap; gap: 4px; margin: 4px 0 7px !important; }
.jp-MaxLab-members .jp-MaxLab-link, .jp-MaxLab-opCounts span { padding: 1px 8px; border-radius: 5px; border: 1px solid var(--mx-line); font-size: 12px; background: var(--mx-bg); }
.jp-MaxLab-members .jp-mod-current { border-color: var(--mx-accent); background: var(--mx-accent-soft); font-weight: 600; }
.jp-MaxLab-opCounts { display: flex; flex-wrap: wrap; gap: 4px; margin-top: 7px !important; }
.jp-MaxLab-kernels { list-style: none; display: flex; flex-direction: column; gap: 3px; font-size: 12.5px; }
.jp-MaxLab-kernels li { display: flex; justify-content: space-between; gap: 10px; font-variant-numeric: tabular-nums; }
.jp-MaxLab-kernels .jp-MaxLab-sub { white-space: nowrap; }
.jp-MaxLab-error { margin-top: 10px; padding: 9px 12px; border-radius: 6px; border: 1px solid var(--mx-error); background: var(--mx-error-fill); font-size: 12.5px; overflow-wrap: anywhere; }
.jp-MaxLab-error strong { color: var(--mx-error); }
.jp-MaxLab-fix { margin-top: 4px !important; font-weight: 600; }

.jp-MaxLab-code { position: relative; margin-top: 9px; border: 1px solid var(--mx-line); border-radius: 6px; overflow: hidden; background: var(--mx-bg); }
.jp-MaxLab-codeScroll { position: relative; max-height: 380px; overflow: auto; }
.jp-MaxLab-codeLines { min-width: max-content; padding: 6px 0; font: 11.5px/1.55 var(--mx-font-mono); }
.jp-MaxLab-codeLine { display: flex; white-space: pre; padding-right: 14px; }
.jp-MaxLab-codeLine.jp-mod-marked { background: var(--mx-accent-soft); box-shadow: inset 3px 0 0 var(--mx-accent); }
.jp-MaxLab-codeNumber { width: 36px; padding-right: 10px; flex: none; text-align: right; color: var(--mx-muted); opacity: 0.75; user-select: none; }
.jp-MaxLab-codeHead { display: flex; align-items: center; justify-content: space-between; padding: 1px 3px 1px 10px; border-bottom: 1px solid var(--mx-line); background: var(--mx-surface); color: var(--mx-muted); font-size: 11px; }
.jp-MaxLab-copy.jp-mod-done { color: var(--mx-accent) !important; }
.jp-MaxLab-tok-comment { color: var(--mx-muted); font-style: italic; }
.jp-MaxLab-tok-keyword { color: #8a3fb0; }
.jp-MaxLab-tok-type { color: #1a648f; }
.jp-MaxLab-tok-number { color: #905500; }
.jp-MaxLab-tok-string { color: #2a6e37; }
.jp-MaxLab-tok-macro { color: #a0442c; }
.jp-MaxLab-tok-call { color: #2d5bb8; }
.jp-mod-dark .jp-MaxLab-tok-keyword { color: #cf9cec; }
.jp-mod-dark .jp-MaxLab-tok-type { color: #82c4ea; }
.jp-mod-dark .jp-MaxLab-tok-number { color: #e5b56e; }
.jp-mod-dark .jp-MaxLab-tok-string { color: #93d19d; }
.jp-mod-dark .jp-MaxLab-tok-macro { color: #eba28c; }
.jp-mod-dark .jp-MaxLab-tok-call { color: #9dbcf5; }

.jp-MaxLab-hottest { padding: 8px; }
.jp-MaxLab-hotRows { list-style: none; display: flex; flex-direction: column; gap: 2px; }
.jp-MaxLab-view .jp-MaxLab-hotRow { position: relative; display: grid; grid-template-columns: 1fr auto; gap: 0 10px; width: 100%; padding: 5px 9px 7px; border: 0; border-radius: 6px; background: none; text-align: left; font-size: 12.5px; }
.jp-MaxLab-view .jp-MaxLab-hotRow:hover { background: var(--mx-bg); }
.jp-MaxLab-view .jp-MaxLab-hotRow[aria-pressed='true'] { background: var(--mx-accent-soft); }
.jp-MaxLab-hotBar { position: absolute; left: 9px; bottom: 3px; height: 3px; max-width: calc(100% - 18px); border-radius: 2px; background: var(--mx-hot); }
.jp-MaxLab-hotName { font-weight: 600; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.jp-MaxLab-hotTime { font-variant-numeric: tabular-nums; white-space: nowrap; }
.jp-MaxLab-hotWhere { grid-column: 1 / -1; color: var(--mx-muted); font-size: 11px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }

.jp-MaxLab-help { position: absolute; z-index: 4; right: 12px; top: 12px; max-height: calc(100% - 24px); overflow: auto; padding: 12px 16px; border-radius: 9px; background: var(--mx-surface); border: 1px solid var(--mx-line); box-shadow: 0 8px 30px rgba(0, 0, 0, 0.18); cursor: default; }
.jp-MaxLab-help h2 { font-size: 14px; margin-bottom: 8px; color: var(--mx-text); }
.jp-MaxLab-help .jp-MaxLab-iconButton { position: absolute !important; right: 8px; top: 8px; }
.jp-MaxLab-view kbd { padding: 0 5px; border: 1px solid var(--mx-line); border-radius: 4px; background: var(--mx-bg); color: var(--mx-text); font: 11px var(--mx-font-mono); box-shadow: none; }
.jp-MaxLab-message { position: absolute; inset: 0; z-index: 5; display: flex; align-items: center; justify-content: center; padding: 20px; background: var(--mx-bg); cursor: default; user-select: text; overflow: auto; }
.jp-MaxLab-problem { max-width: 560px; padding: 14px 18px; border-radius: 8px; border: 1px solid var(--mx-error); background: var(--mx-error-fill); }
.jp-MaxLab-problem h2 { font-size: 15px; margin-bottom: 6px; color: var(--mx-error); }
.jp-MaxLab-problem ul { padding-left: 18px; font-size: 12.5px; overflow-wrap: anywhere; }

.jp-mod-narrow .jp-MaxLab-panel { position: absolute; right: 0; top: 0; bottom: 0; z-index: 4; width: min(348px, 92%); box-shadow: -6px 0 24px rgba(0, 0, 0, 0.16); }
.jp-mod-narrow .jp-MaxLab-subtitle { display: none; }
.jp-mod-narrow .jp-MaxLab-legend { grid-template-columns: minmax(0, 1fr); gap: 2px 10px; }
.jp-mod-narrow .jp-MaxLab-legendTitle, .jp-mod-narrow .jp-MaxLab-legendNote { grid-row: auto; grid-column: 1; }
.jp-mod-narrow .jp-MaxLab-legendBar, .jp-mod-narrow .jp-MaxLab-legendTicks { grid-column: 1; }
@media (prefers-reduced-motion: reduce) { .jp-mod-busy .jp-MaxLab-icon { animation: none; } }
`;
