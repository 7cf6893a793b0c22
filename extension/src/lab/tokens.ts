/** Names that the plugins share with each other and with tests. */

import { Token } from '@lumino/coreutils';

import type { MonitorFeed } from './dashboard-feed';
import type { IFileKinds } from './file-kinds';
import type { ILiveGraphs } from './live';
import type { IViewRegistry } from './views';

export const EXTENSION = 'maxlab-extension';

/** The version of this extension and of the Python package: one wheel carries both. */
export const VERSION = '0.1.0';

/** Saved snapshot of one graph in a cell's output: a document, or one packed as `unpack` reads it. */
export const GRAPH_MIME = 'application/vnd.maxlab.graph+json';

/** Marks an output whose HTML is drawn where its widget has no model: in a notebook of another day. */
export const STILL_MIME = 'application/vnd.maxlab.still+json';

export const WIDGET_MIME = 'application/vnd.jupyter.widget-view+json';

export const TUTORIAL = 'notebooks/01_first_graph.ipynb';

/** Class of the tabs whose id says which graph they were made for. */
export const GRAPH_TAB = 'jp-MaxLab-graphTab';

export const CommandIDs = {
  newNotebook: 'maxlab:new-notebook',
  openTutorial: 'maxlab:open-tutorial',
  newGraph: 'maxlab:new-graph',
  newFromTemplate: 'maxlab:new-from-template',
  compareGraphs: 'maxlab:compare-graphs',
  compareWithSaved: 'maxlab:compare-with-saved',
  compareWithHead: 'maxlab:compare-with-head',
  compareWithRunBefore: 'maxlab:compare-with-run-before',
  trustGraph: 'maxlab:trust-graph',
  changeKernel: 'maxlab:change-kernel',
  restartKernel: 'maxlab:restart-kernel',
  interruptKernel: 'maxlab:interrupt-kernel',
  reconnectKernel: 'maxlab:reconnect-kernel',
  shutDownKernel: 'maxlab:shut-down-kernel',
  runDocument: 'maxlab:run-document',
  undoDocument: 'maxlab:undo-document',
  redoDocument: 'maxlab:redo-document',
  showGraphs: 'maxlab:show-graphs',
  refreshGraphs: 'maxlab:refresh-graphs',
  openGraph: 'maxlab:open-graph',
  movePanel: 'maxlab:move-panel',
  putPanelBack: 'maxlab:put-panel-back',
  openMenu: 'maxlab:open-menu',
  foldAll: 'maxlab:fold-all',
  unfoldAll: 'maxlab:unfold-all',
  profile: 'maxlab:profile',
  toggleDirection: 'maxlab:toggle-direction',
  toggleHeat: 'maxlab:toggle-heat',
  search: 'maxlab:search',
  loadOverlay: 'maxlab:load-overlay',
  nextColouring: 'maxlab:next-colouring',
  exportHtml: 'maxlab:export-html',
  exportSvg: 'maxlab:export-svg',
  exportPng: 'maxlab:export-png',
  exportSvgView: 'maxlab:export-svg-view',
  exportPngView: 'maxlab:export-png-view',
  copyPython: 'maxlab:copy-python',
  openDiagnostics: 'maxlab:open-diagnostics',
  openChart: 'maxlab:open-chart',
  moveChart: 'maxlab:move-chart',
  closeCharts: 'maxlab:close-charts',
  toggleHints: 'maxlab:toggle-hints',
  showLine: 'maxlab:show-line'
} as const;

/** All graph views of this page, whoever mounted them, and which one commands act on. */
export const IViews = new Token<IViewRegistry>(
  `${EXTENSION}:IViews`,
  'The graph views of this page and the one that commands act on.'
);

/** The recording of this session, as the server has it. */
export const IMonitor = new Token<MonitorFeed>(
  `${EXTENSION}:IMonitor`,
  'The recording of the session, asked of the server once for all views of it.'
);

/** The graphs and models in the kernel of the notebook that the user is in. */
export const ILive = new Token<ILiveGraphs>(
  `${EXTENSION}:ILive`,
  'The graphs and models that live in the kernel of the current notebook.'
);

/** The kinds of files that open in a tab of their own; other extensions add theirs. */
export const IKinds = new Token<IFileKinds>(
  `${EXTENSION}:IKinds`,
  'The kinds of files that maxlab opens, to which more can be added.'
);

/** The description of a command that takes no arguments. */
export const NO_ARGUMENTS = { args: { type: 'object', properties: {} } };
