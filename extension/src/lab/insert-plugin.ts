/** The plugin `insert`: a program of a view becomes a cell, below the one that shows the view. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';

import { fits, INSERT_CODE } from '../core';
import { isText, record } from '../proto/shape';
import { EXTENSION } from './tokens';

const isProgram = record({ code: isText });

/** Adds a cell with a program below the cell that `target` is in, or the active one, and shows it. */
async function insertInto({ content }: NotebookPanel, target: Node | null, code: string): Promise<void> {
  const around = content.widgets.findIndex(({ node }) => target !== null && node.contains(target));
  if (around >= 0) {
    content.activeCellIndex = around;
  }
  content.mode = 'command';
  NotebookActions.insertBelow(content);
  content.activeCell?.model.sharedModel.setSource(code.trimEnd());
  await content.scrollToItem(content.activeCellIndex, 'smart');
  await content.activeCell?.ready;
  content.mode = 'edit';
  content.activeCell?.editor?.focus();
}

/** A new notebook, whose first cell is the program. */
async function intoNew(app: JupyterFrontEnd, tracker: INotebookTracker, code: string): Promise<void> {
  const kernelName = app.serviceManager.kernelspecs.specs?.default ?? '';
  await app.commands.execute('notebook:create-new', { kernelName });
  const panel = tracker.currentWidget;
  await panel?.context.ready;
  panel?.content.activeCell?.model.sharedModel.setSource(code.trimEnd());
}

export const insertPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:insert`,
  description: 'Makes cells of the programs that a graph view offers.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker): void => {
    document.addEventListener(INSERT_CODE, event => {
      const detail: unknown = event instanceof CustomEvent ? event.detail : null;
      if (!fits(isProgram, detail)) {
        return;
      }
      event.preventDefault();
      const target = event.target instanceof Node ? event.target : null;
      const around = tracker.find(({ node }) => target !== null && node.contains(target));
      void (around === undefined ? intoNew(app, tracker, detail.code) : insertInto(around, target, detail.code));
    });
  }
};
