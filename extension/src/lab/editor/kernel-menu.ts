/**
 * What JupyterLab's menus do with a document of a graph that has the focus: the Kernel menu acts on its
 * kernel, *Run All* runs the graph, and *Undo* and *Redo* take its steps back and do them again.
 */

import type { ISessionContextDialogs, SemanticCommand } from '@jupyterlab/apputils';
import type { IMainMenu } from '@jupyterlab/mainmenu';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { Widget } from '@lumino/widgets';

import { CommandIDs } from '../tokens';
import { chooseKernel } from './ending';
import type { GraphDocument } from './factory';

export interface IMenuHost {
  commands: CommandRegistry;
  dialogs: ISessionContextDialogs;
  trans: TranslationBundle;
  /** The document that has the focus; null where it is something else. */
  current: () => GraphDocument | null;
  /** Whether `widget` is a document of a graph. */
  has: (widget: Widget) => boolean;
}

/** Adds the commands that act on the kernel of the document with the focus; returns their ids. */
export function addKernelCommands({ commands, dialogs, trans, current }: IMenuHost): string[] {
  const describedBy = { args: { type: 'object', properties: { isPalette: { type: 'boolean' } } } };
  const ids: string[] = [];
  const add = (
    id: string,
    /** In a menu, and among all commands. */
    [label, long]: [string, string],
    execute: (document: GraphDocument) => unknown,
    isEnabled: (document: GraphDocument) => boolean
  ): void => {
    ids.push(id);
    commands.addCommand(id, {
      label: args => (args.isPalette === true ? long : label),
      describedBy,
      isEnabled: () => {
        const document = current();
        return document !== null && isEnabled(document);
      },
      execute: () => {
        const document = current();
        return document === null ? undefined : execute(document);
      }
    });
  };
  const kernelOf = ({ context }: GraphDocument): Kernel.IKernelConnection | null =>
    context.sessionContext.session?.kernel ?? null;
  const hasKernel = (document: GraphDocument): boolean => kernelOf(document) !== null;
  const always = (): boolean => true;
  add(
    CommandIDs.changeKernel,
    [trans.__('Change Kernel…'), trans.__('Change the kernel of the graph…')],
    ({ context }) => chooseKernel(context.sessionContext, dialogs),
    always
  );
  add(
    CommandIDs.restartKernel,
    [trans.__('Restart Kernel…'), trans.__('Restart the kernel of the graph…')],
    ({ context }) => dialogs.restart(context.sessionContext),
    always
  );
  add(
    CommandIDs.interruptKernel,
    [trans.__('Interrupt Kernel'), trans.__('Interrupt the kernel of the graph')],
    document => kernelOf(document)?.interrupt(),
    hasKernel
  );
  add(
    CommandIDs.reconnectKernel,
    [trans.__('Reconnect to Kernel'), trans.__('Reconnect to the kernel of the graph')],
    document => kernelOf(document)?.reconnect(),
    hasKernel
  );
  add(
    CommandIDs.shutDownKernel,
    [trans.__('Shut Down Kernel'), trans.__('Shut down the kernel of the graph')],
    ({ context }) => context.sessionContext.shutdown(),
    hasKernel
  );
  add(
    CommandIDs.runDocument,
    [trans.__('Run the Graph'), trans.__('Run the graph of the document')],
    // A kernel that was just restarted opens the document first.
    async ({ content }) => (await content.whenLive())?.execute('run'),
    hasKernel
  );
  const can = (command: string) => (document: GraphDocument) =>
    document.content.view?.commands.get(command)?.isEnabled?.() ?? false;
  add(
    CommandIDs.undoDocument,
    [trans.__('Undo'), trans.__('Undo a step in the document of a graph')],
    ({ content }) => content.view?.execute('edit-undo'),
    can('edit-undo')
  );
  add(
    CommandIDs.redoDocument,
    [trans.__('Redo'), trans.__('Redo a step in the document of a graph')],
    ({ content }) => content.view?.execute('edit-redo'),
    can('edit-redo')
  );
  return ids;
}

/** Lets the entries of the main menu act on the documents of graphs. */
export function addToMenus(menu: IMainMenu, { has }: IMenuHost): void {
  const { kernelUsers } = menu.kernelMenu;
  const { codeRunners } = menu.runMenu;
  const { undoers } = menu.editMenu;
  const pairs: [SemanticCommand, string][] = [
    [kernelUsers.changeKernel, CommandIDs.changeKernel],
    [kernelUsers.restartKernel, CommandIDs.restartKernel],
    [kernelUsers.interruptKernel, CommandIDs.interruptKernel],
    [kernelUsers.reconnectToKernel, CommandIDs.reconnectKernel],
    [kernelUsers.shutdownKernel, CommandIDs.shutDownKernel],
    [codeRunners.restart, CommandIDs.restartKernel],
    [codeRunners.runAll, CommandIDs.runDocument],
    [undoers.undo, CommandIDs.undoDocument],
    [undoers.redo, CommandIDs.redoDocument]
  ];
  for (const [semantic, id] of pairs) {
    semantic.add({ id, isEnabled: has });
  }
}
