/** The plugin `launcher`: a tile, and commands that open a starter notebook or the first tutorial. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { Contents, KernelSpec } from '@jupyterlab/services';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { fits } from '../core';
import { isText, list, record } from '../proto/shape';
import { graphIcon } from './icons';
import { CommandIDs, EXTENSION, NO_ARGUMENTS, TUTORIAL } from './tokens';

/** The first cell of a new notebook: a whole graph, small enough to read at once. */
export const STARTER = `from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

x_type = TensorType(DType.float32, ["batch", 16], device=DeviceRef.CPU())
with Graph("first", input_types=[x_type]) as graph:
    x = graph.inputs[0].tensor
    graph.output(ops.relu(x * 2 + 1))

graph  # as the last line of a cell, a graph is its interactive view
`;

/** The default kernel if it speaks Python, else the first that does; undefined lets JupyterLab ask. */
export function pythonKernel(specs: KernelSpec.ISpecModels | null): string | undefined {
  if (!specs) {
    return undefined;
  }
  const isPython = (name: string): boolean => specs.kernelspecs[name]?.language === 'python';
  return isPython(specs.default) ? specs.default : Object.keys(specs.kernelspecs).find(isPython);
}

/** What a folder holds, as far as it matters here. */
const isListing = list(record({ path: isText }));

/** Whether `path` exists, by listing folders from the root: asking for a missing file logs an error. */
export async function hasFile(contents: Contents.IManager, path: string): Promise<boolean> {
  const parts = path.split('/');
  try {
    for (let depth = 0; depth < parts.length; depth += 1) {
      const folder = await contents.get(parts.slice(0, depth).join('/'), { content: true });
      const wanted = parts.slice(0, depth + 1).join('/');
      const content: unknown = folder.content;
      const entries = fits(isListing, content) ? content : [];
      if (!entries.some(entry => entry.path === wanted)) {
        return false;
      }
    }
    return true;
  } catch {
    return false;
  }
}

export const launcherPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:launcher`,
  description: 'Opens a notebook that starts with a graph, or the first tutorial.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ITranslator, ILauncher, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    translator: ITranslator | null,
    launcher: ILauncher | null,
    palette: ICommandPalette | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('maxlab');
    const { commands, serviceManager } = app;
    let hasTutorial = false;

    commands.addCommand(CommandIDs.newNotebook, {
      label: args =>
        args.isLauncher ? trans.__('New graph notebook') : trans.__('New maxlab graph notebook'),
      caption: trans.__('A new notebook whose first cell builds and shows a graph (maxlab)'),
      icon: graphIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            cwd: { type: 'string', description: trans.__('The folder of the new notebook') },
            isLauncher: { type: 'boolean' }
          }
        }
      },
      execute: async args => {
        const made: unknown = await commands.execute('notebook:create-new', {
          cwd: typeof args.cwd === 'string' ? args.cwd : '',
          kernelName: pythonKernel(serviceManager.kernelspecs.specs),
          activate: true
        });
        const panel = notebooks.find(one => one === made);
        await panel?.context.ready;
        panel?.content.model?.sharedModel.getCell(0).setSource(STARTER);
        return panel;
      }
    });

    commands.addCommand(CommandIDs.openTutorial, {
      label: args =>
        args.isLauncher ? trans.__('First tutorial') : trans.__('Open the first maxlab tutorial'),
      icon: graphIcon,
      describedBy: NO_ARGUMENTS,
      isVisible: () => hasTutorial,
      isEnabled: () => hasTutorial,
      execute: () => commands.execute('docmanager:open', { path: TUTORIAL, factory: 'Notebook' })
    });

    // A server that was not started in a checkout has no tutorial at this place: then there is no command.
    void hasFile(serviceManager.contents, TUTORIAL).then(has => {
      hasTutorial = has;
      commands.notifyCommandChanged(CommandIDs.openTutorial);
      if (has) {
        launcher?.add({
          command: CommandIDs.openTutorial,
          args: { isLauncher: true },
          category: 'maxlab',
          rank: 1
        });
      }
    });

    launcher?.add({
      command: CommandIDs.newNotebook,
      args: { isLauncher: true },
      category: 'maxlab',
      rank: 0
    });
    for (const command of [CommandIDs.newNotebook, CommandIDs.openTutorial]) {
      palette?.addItem({ command, category: 'maxlab' });
    }
  }
};
