/** The plugin `editor`: documents of graphs, opened with a kernel, made from the launcher and the menus. */

import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  Dialog,
  ICommandPalette,
  ISessionContextDialogs,
  SessionContextDialogs,
  showDialog,
  WidgetTracker
} from '@jupyterlab/apputils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { fits } from '../../core';
import { isText, record } from '../../proto/shape';
import { FileServer } from '../file-server';
import { graphIcon } from '../icons';
import { CommandIDs, EXTENSION, NO_ARGUMENTS } from '../tokens';
import { emptyDocument, nameOf } from './empty';
import { type GraphDocument, GraphFactory, GraphModelFactory, MODEL } from './factory';
import { newFromTemplate } from './gallery';
import { addKernelCommands, addToMenus, type IMenuHost } from './kernel-menu';
import type { DocumentSession } from './session';

const FILE_TYPE = 'maxlab-graph';
const EXT = 'mlgraph';

const hasPath = record({ path: isText });

export const editorPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:editor`,
  description: 'Opens documents of graphs in an editor with a kernel, and makes new ones.',
  autoStart: true,
  optional: [
    ITranslator,
    ILauncher,
    ICommandPalette,
    ILayoutRestorer,
    ISessionContextDialogs,
    IDefaultFileBrowser,
    IMainMenu
  ],
  activate: (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    launcher: ILauncher | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    sessionDialogs: ISessionContextDialogs | null,
    browser: IDefaultFileBrowser | null,
    menu: IMainMenu | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('maxlab');
    const { commands, docRegistry, serviceManager, shell } = app;
    const dialogs =
      sessionDialogs ?? new SessionContextDialogs({ translator: translator ?? nullTranslator });
    const tracker = new WidgetTracker<GraphDocument>({ namespace: 'maxlab-graph-documents' });
    const factoryName = trans.__('Graph');
    const current = (): GraphDocument | null =>
      tracker.currentWidget === shell.currentWidget ? tracker.currentWidget : null;
    const menus: IMenuHost = { commands, dialogs, trans, current, has: widget => tracker.has(widget) };
    const ofKernels = addKernelCommands(menus);
    if (menu !== null) {
      addToMenus(menu, menus);
    }

    const askForTrust = async (session: DocumentSession): Promise<void> => {
      const { kernels, sources, trusted } = session.trust;
      if (trusted) {
        return;
      }
      const body = new Widget();
      body.addClass('jp-MaxLab-trusting');
      const words = document.createElement('p');
      words.textContent = trans.__(
        'This document brings kernels of its own: %1. Trusted, they are compiled and run on this machine, as a program of whoever wrote them. Read them first:',
        kernels.join(', ')
      );
      const text = document.createElement('pre');
      text.tabIndex = 0;
      text.textContent = sources.join('\n\n');
      body.node.append(words, text);
      const result = await showDialog({
        title: trans.__('Trust this graph?'),
        body,
        buttons: [
          Dialog.cancelButton({ label: trans.__('Cancel') }),
          Dialog.warnButton({ label: trans.__('Trust') })
        ],
        defaultButton: 0
      });
      if (result.button.accept) {
        session.giveTrust();
      }
    };

    docRegistry.addModelFactory(new GraphModelFactory());
    docRegistry.addFileType({
      name: FILE_TYPE,
      displayName: trans.__('Graph'),
      extensions: [`.${EXT}`],
      mimeTypes: ['application/json'],
      contentType: 'file',
      fileFormat: 'text',
      icon: graphIcon
    });
    const factory = new GraphFactory({
      name: 'maxlab-graph-editor',
      label: factoryName,
      modelName: MODEL,
      fileTypes: [FILE_TYPE],
      defaultFor: [FILE_TYPE],
      preferKernel: true,
      canStartKernel: true,
      commands,
      dialogs,
      askForTrust,
      trans,
      serverOf: ({ path }) =>
        new FileServer(serviceManager.serverSettings, serviceManager.contents.localPath(path))
    });
    factory.widgetCreated.connect((_, widget) => {
      void tracker.add(widget);
      widget.context.pathChanged.connect(() => void tracker.save(widget));
      // JupyterLab asks again whether there is something to save when it is told to.
      widget.context.model.stateChanged.connect(() => commands.notifyCommandChanged('docmanager:save'));
      widget.session.changed.connect(() => {
        for (const id of [CommandIDs.trustGraph, ...ofKernels]) {
          commands.notifyCommandChanged(id);
        }
      });
    });
    docRegistry.addWidgetFactory(factory);
    void restorer?.restore(tracker, {
      command: 'docmanager:open',
      args: ({ context }) => ({ path: context.path, factory: 'maxlab-graph-editor' }),
      name: ({ context }) => context.path
    });

    // ------------------------------------------------------------------------------ commands
    commands.addCommand(CommandIDs.newGraph, {
      label: args =>
        args.isPalette === true
          ? trans.__('New graph')
          : args.isContextMenu === true
            ? trans.__('New Graph')
            : trans.__('Graph'),
      caption: trans.__('A new document, in which a graph is built by hand (maxlab)'),
      icon: args => (args.isPalette === true ? undefined : graphIcon),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            cwd: { type: 'string', description: trans.__('The folder of the new document') },
            isPalette: { type: 'boolean' },
            isContextMenu: { type: 'boolean' }
          }
        }
      },
      execute: async args => {
        const path = typeof args.cwd === 'string' ? args.cwd : (browser?.model.path ?? '');
        const made: unknown = await commands.execute('docmanager:new-untitled', {
          path,
          type: 'file',
          ext: EXT
        });
        if (fits(hasPath, made)) {
          // A file of no bytes is no document: what reads it elsewhere gets a whole one at once.
          const content = emptyDocument(nameOf(made.path));
          await serviceManager.contents.save(made.path, { type: 'file', format: 'text', content });
          await commands.execute('docmanager:open', { path: made.path });
        }
      }
    });
    commands.addCommand(CommandIDs.newFromTemplate, {
      label: args =>
        args.isLauncher === true
          ? trans.__('Graph from template')
          : args.isPalette === true
            ? trans.__('New graph from a template or lesson…')
            : trans.__('New from template…'),
      caption: trans.__('A new document that begins as a template or a lesson (maxlab)'),
      icon: args => (args.isPalette === true ? undefined : graphIcon),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            cwd: { type: 'string', description: trans.__('The folder of the new document') },
            name: { type: 'string', description: trans.__('The template; asked for when left out') },
            isPalette: { type: 'boolean' },
            isLauncher: { type: 'boolean' }
          }
        }
      },
      execute: async args => {
        const folder = typeof args.cwd === 'string' ? args.cwd : (browser?.model.path ?? '');
        const name = typeof args.name === 'string' ? args.name : '';
        const { serverSettings, contents } = serviceManager;
        const path = await newFromTemplate(serverSettings, contents, folder, name, trans);
        if (path !== null) {
          await commands.execute('docmanager:open', { path });
        }
      }
    });
    commands.addCommand(CommandIDs.trustGraph, {
      label: trans.__('Trust graph'),
      caption: trans.__('Let the custom kernels of the document be compiled and run'),
      describedBy: NO_ARGUMENTS,
      isEnabled: () => current()?.session.trust.trusted === false,
      execute: () => {
        const session = current()?.session;
        return session && askForTrust(session);
      }
    });
    shell.currentChanged?.connect(() => {
      for (const id of [CommandIDs.trustGraph, ...ofKernels]) {
        commands.notifyCommandChanged(id);
      }
    });

    launcher?.add({ command: CommandIDs.newGraph, category: 'maxlab', rank: -1 });
    launcher?.add({
      command: CommandIDs.newFromTemplate,
      args: { isLauncher: true },
      category: 'maxlab',
      rank: -0.5
    });
    for (const command of [CommandIDs.newGraph, CommandIDs.newFromTemplate]) {
      palette?.addItem({ command, category: 'maxlab', args: { isPalette: true } });
    }
    palette?.addItem({ command: CommandIDs.trustGraph, category: 'maxlab' });
    for (const command of ofKernels) {
      palette?.addItem({ command, category: 'maxlab', args: { isPalette: true } });
    }
  }
};
