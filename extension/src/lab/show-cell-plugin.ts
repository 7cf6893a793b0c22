/** The plugin `show-cell`: from a mark on the time axis to its cell, from a process to its notebook. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';

import { fits, SHOW_CELL } from '../core';
import { isText, record } from '../proto/shape';
import { EXTENSION } from './tokens';

const isOfCell = record({ cell: isText });
const isOfKernel = record({ kernel: isText });

export interface IFound {
  panel: NotebookPanel;
  index: number;
}

/** The open notebook that has the cell with this id, and the cell's place; null when none has. */
export function findCell(tracker: INotebookTracker, id: string): IFound | null {
  let index = -1;
  const panel = tracker.find((one: NotebookPanel) => {
    index = one.content.widgets.findIndex(({ model }) => model.id === id);
    return index >= 0;
  });
  return panel === undefined || index < 0 ? null : { panel, index };
}

export const showCellPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:show-cell`,
  description: 'Shows the cell or the notebook that was chosen in the diagnostics.',
  autoStart: true,
  requires: [INotebookTracker, IDocumentManager],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker, documents: IDocumentManager): void => {
    /** Path of the notebook or file that the kernel with this id runs for. */
    const pathOf = (id: string): string | null => {
      for (const session of app.serviceManager.sessions.running()) {
        if (session.kernel?.id === id) {
          return session.path;
        }
      }
      return null;
    };
    document.addEventListener(SHOW_CELL, event => {
      const detail: unknown = event instanceof CustomEvent ? event.detail : null;
      if (fits(isOfCell, detail)) {
        const found = findCell(tracker, detail.cell);
        if (found !== null) {
          event.preventDefault();
          app.shell.activateById(found.panel.id);
          found.panel.content.activeCellIndex = found.index;
          void found.panel.content.scrollToItem(found.index, 'smart');
        }
      } else if (fits(isOfKernel, detail)) {
        const path = pathOf(detail.kernel);
        if (path !== null) {
          event.preventDefault();
          documents.openOrReveal(path);
        }
      }
    });
  }
};
