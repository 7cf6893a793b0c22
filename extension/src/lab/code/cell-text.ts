/** Another text of a cell through its shared model: one step of the cell's own undo. */

import type { ISharedCell } from '@jupyter/ydoc';

import { fits, textEdits } from '../../core';
import { isFunction, record } from '../../proto/shape';

/** A cell that has steps of its own. */
const isUndoing = record({
  undoManager: record({ stopCapturing: isFunction })
});

/** What is typed before and after is not part of the step. */
function apart(cell: ISharedCell): void {
  if (fits(isUndoing, cell)) {
    cell.undoManager.stopCapturing();
  }
}

/** Replaces in `cell` what differs in `after`; all else of the text is not touched. */
export function setText(cell: ISharedCell, after: string): void {
  const edits = textEdits(cell.getSource(), after);
  apart(cell);
  cell.transact(() => {
    for (const { start, end, value } of edits) {
      cell.updateSource(start, end, value);
    }
  });
  apart(cell);
}

/** Takes back a step that gave `cell` the text `after`; why not, where the cell has another text now. */
export function takeBack(cell: ISharedCell, before: string, after: string): string | null {
  if (cell.getSource() !== after) {
    return 'the cell was changed since: take it back there, by Ctrl+Z';
  }
  cell.undo();
  if (cell.getSource() !== before) {
    // Its history was cut, as by a notebook that was loaded again.
    setText(cell, before);
  }
  return null;
}
