/** The plugin `diagnostics`: the tab with the dashboard, and how to get there. */

import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { addTab, showTab } from './beside';
import { MonitorFeed } from './dashboard-feed';
import { MonitorServer } from './dashboard-server';
import { DashboardTab } from './dashboard-tab';
import { dashboardIcon } from './icons';
import { markCells } from './probe';
import { CommandIDs, EXTENSION, IMonitor } from './tokens';

export const monitorPlugin: JupyterFrontEndPlugin<MonitorFeed> = {
  id: `${EXTENSION}:monitor`,
  description: 'What the server knows of the recording of the session.',
  autoStart: true,
  provides: IMonitor,
  activate: (app: JupyterFrontEnd): MonitorFeed =>
    new MonitorFeed(new MonitorServer(app.serviceManager.serverSettings))
};

export const diagnosticsPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:diagnostics`,
  description: 'A tab with CPU, memory and GPUs of the session over time.',
  autoStart: true,
  requires: [IMonitor],
  optional: [ITranslator, ILauncher, ICommandPalette, ILayoutRestorer, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    feed: MonitorFeed,
    translator: ITranslator | null,
    launcher: ILauncher | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    notebooks: INotebookTracker | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('maxlab');
    const tracker = new WidgetTracker<MainAreaWidget<DashboardTab>>({
      namespace: 'maxlab-diagnostics'
    });
    const command = CommandIDs.openDiagnostics;

    app.commands.addCommand(command, {
      label: args => (args.isLauncher ? trans.__('Diagnostics') : trans.__('Open the diagnostics')),
      caption: trans.__('CPU, memory and GPUs of this session over time (maxlab)'),
      icon: dashboardIcon,
      describedBy: {
        args: { type: 'object', properties: { isLauncher: { type: 'boolean' } } }
      },
      execute: () => {
        let tab = tracker.find(() => true);
        if (!tab) {
          tab = new MainAreaWidget({ content: new DashboardTab(feed, trans) });
          tab.id = 'maxlab-diagnostics-tab';
          void tracker.add(tab);
          addTab(app.shell, tab, { mode: 'split-right' });
        }
        showTab(app.shell, tab);
        // Cells of the notebook that the user comes from belong on the time axis.
        const kernel = notebooks?.currentWidget?.sessionContext.session?.kernel;
        if (kernel) {
          void markCells(kernel);
        }
        return tab;
      }
    });
    notebooks?.currentChanged.connect((_, panel) => {
      const kernel = panel?.sessionContext.session?.kernel;
      if (kernel && tracker.size > 0) {
        void markCells(kernel);
      }
    });
    void restorer?.restore(tracker, { command, name: () => 'diagnostics' });
    launcher?.add({ command, args: { isLauncher: true }, category: 'maxlab', rank: 2 });
    palette?.addItem({ command, category: 'maxlab' });
  }
};
