/** The plugin `graphs`: follows the current notebook, shows the side panel, opens graphs in tabs. */

import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { fits, isLook } from '../core';
import { isText, optional, record } from '../proto/shape';
import { GraphTabs } from './graph-tab';
import { graphIcon } from './icons';
import { type ILiveGraphs, LiveGraphs } from './live';
import { GraphsPanel } from './panel';
import { CommandIDs, EXTENSION, ILive, NO_ARGUMENTS } from './tokens';

/** Whether arguments of a command say which graph to open. */
const isGraphPlace = record({
  id: isText,
  name: optional(isText),
  path: optional(isText),
  kernel: optional(isText),
  first: optional(isText),
  look: optional(isLook)
});

export const graphsPlugin: JupyterFrontEndPlugin<ILiveGraphs> = {
  id: `${EXTENSION}:graphs`,
  description: 'Lists the graphs and models that live in the kernel of the current notebook.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ITranslator, ICommandPalette, ILayoutRestorer],
  provides: ILive,
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null
  ): ILiveGraphs => {
    const trans = (translator ?? nullTranslator).load('maxlab');
    const live = new LiveGraphs();
    const follow = (panel: NotebookPanel | null): void => {
      live.follow(panel?.sessionContext ?? null, panel?.title.label ?? '');
    };
    tracker.currentChanged.connect((_, panel) => follow(panel));
    follow(tracker.currentWidget);

    const tabs = new GraphTabs(app.shell, live, tracker, trans);
    const panel = new GraphsPanel(live, app.commands, trans);
    app.shell.add(panel, 'right', { rank: 700, type: 'maxlab graphs' });
    restorer?.add(panel, panel.id);

    app.commands.addCommand(CommandIDs.showGraphs, {
      label: trans.__('Show the graphs in the kernel'),
      caption: trans.__('The side panel with the graphs and models of the current notebook'),
      icon: graphIcon,
      describedBy: NO_ARGUMENTS,
      execute: () => app.shell.activateById(panel.id)
    });
    app.commands.addCommand(CommandIDs.refreshGraphs, {
      label: trans.__('Ask the kernel for its graphs again'),
      describedBy: NO_ARGUMENTS,
      isEnabled: () => live.kernel !== null,
      execute: () => live.refresh()
    });
    app.commands.addCommand(CommandIDs.openGraph, {
      label: trans.__('Open a view of a graph in the kernel'),
      describedBy: {
        args: {
          type: 'object',
          required: ['id'],
          properties: {
            id: { type: 'string', description: trans.__('The id of the graph') },
            name: { type: 'string', description: trans.__('Its name, where its tab is put back') },
            path: { type: 'string', description: trans.__('The notebook that it lives in') },
            kernel: { type: 'string', description: trans.__('The id of its kernel') },
            first: { type: 'string', description: trans.__('The id that its tab was made for') },
            look: { type: 'object', description: trans.__('How the graph was looked at') }
          }
        }
      },
      execute: args => {
        if (!fits(isGraphPlace, args)) {
          throw new Error(`${CommandIDs.openGraph} needs the id of a graph`);
        }
        return tabs.open(args);
      }
    });
    void restorer?.restore(tabs.tracker, {
      command: CommandIDs.openGraph,
      args: tab => tabs.placeOf(tab),
      name: tab => tab.id
    });
    for (const command of [CommandIDs.showGraphs, CommandIDs.refreshGraphs]) {
      palette?.addItem({ command, category: 'maxlab' });
    }
    return live;
  }
};
