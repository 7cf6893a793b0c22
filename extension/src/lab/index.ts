/** The JupyterLab extension of maxlab: several small plugins, each of which can be disabled alone. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { cellProgressPlugin } from './cell-progress-plugin';
import { chartsPlugin } from './chart-plugin';
import { codePlugin } from './code/plugin';
import { commandsPlugin } from './commands-plugin';
import { comparePlugin } from './compare-plugin';
import { corePlugin } from './core-plugin';
import { diagnosticsPlugin, monitorPlugin } from './dashboard-plugin';
import { editorPlugin } from './editor/plugin';
import { filesPlugin } from './files-plugin';
import { hintsPlugin } from './hints/plugin';
import { insertPlugin } from './insert-plugin';
import { keysPlugin } from './keys-plugin';
import { launcherPlugin } from './launcher-plugin';
import { graphsPlugin } from './live-plugin';
import { menuPlugin } from './menu-plugin';
import { mimePlugin } from './mime-plugin';
import { panelsPlugin } from './panel-plugin';
import { revealPlugin } from './reveal-plugin';
import { settingsPlugin } from './settings-plugin';
import { showCellPlugin } from './show-cell-plugin';
import { statusPlugin } from './status-plugin';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  corePlugin,
  settingsPlugin,
  commandsPlugin,
  keysPlugin,
  menuPlugin,
  launcherPlugin,
  graphsPlugin,
  panelsPlugin,
  mimePlugin,
  monitorPlugin,
  diagnosticsPlugin,
  chartsPlugin,
  statusPlugin,
  showCellPlugin,
  cellProgressPlugin,
  revealPlugin,
  insertPlugin,
  codePlugin,
  filesPlugin,
  editorPlugin,
  hintsPlugin,
  comparePlugin
];

export default plugins;
