/** The plugin `code`: writes to a cell what its graph became by edits on the canvas. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Cell } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';

import { fits, WRITE_CELL } from '../../core';
import { isFunction, isText, record } from '../../proto/shape';
import { findCell } from '../show-cell-plugin';
import { EXTENSION } from '../tokens';
import { setText, takeBack } from './cell-text';

/** History keeps no ends of lines behind the last line. */
const trimmed = (text: string): string => text.replace(/\n+$/, '');

const isRequest = record({ cell: isText, before: isText, after: isText, done: isFunction });

/** The cell with an id: of the notebook around `target`, or of another open one. */
function cellWith(tracker: INotebookTracker, target: Node, id: string): Cell | null {
  const panel = tracker.find(({ node }) => node.contains(target));
  const own = panel?.content.widgets.find(({ model }) => model.id === id);
  if (own !== undefined) {
    return own;
  }
  const found = findCell(tracker, id);
  return found === null ? null : (found.panel.content.widgets[found.index] ?? null);
}

export const codePlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:code`,
  description: 'Writes edits of a graph to the cell that built it.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (_app: JupyterFrontEnd, tracker: INotebookTracker): void => {
    /** What was written to each cell last: the text that the kernel ran, and that of the cell since. */
    const written = new WeakMap<object, { ran: string; text: string }>();
    document.addEventListener(WRITE_CELL, event => {
      const detail: unknown = event instanceof CustomEvent ? event.detail : null;
      if (!fits(isRequest, detail) || !(event.target instanceof Node)) {
        return;
      }
      event.preventDefault();
      const { done } = detail;
      const cell = cellWith(tracker, event.target, detail.cell);
      if (cell === null) {
        done({ why: 'the cell is in no open notebook' });
        return;
      }
      const shared = cell.model.sharedModel;
      const before = shared.getSource();
      const last = written.get(shared);
      const isOurs = last?.ran === detail.before && last.text === before;
      if (trimmed(before) !== trimmed(detail.before) && !isOurs) {
        done({ why: 'the cell was edited since it ran, and the graph is that of its text before' });
        return;
      }
      if (cell.model.getMetadata('editable') === false || cell.model.isDisposed || cell.inputHidden) {
        done({ why: cell.inputHidden ? 'the text of the cell is hidden' : 'the cell may not be edited' });
        return;
      }
      const after = trimmed(detail.after) + before.slice(trimmed(before).length);
      setText(shared, after);
      written.set(shared, { ran: detail.before, text: after });
      done({ undo: () => takeBack(shared, before, after) });
    });
  }
};
