/** From what is on the time axis to the cell that did it. */

import type { IMark } from './wire';

/** What a page is asked to show: a cell by its id, or the notebook of a kernel. */
export interface IShown {
  cell?: string;
  kernel?: string;
}

/** Name of the event by which a page is asked. */
export const SHOW_CELL = 'maxlab:show-cell';

/** The cell in which `mark` happened, when its notebook is known. */
export function cellOf(marks: readonly IMark[], mark: IMark): IMark | null {
  const isAround = (cell: IMark): boolean =>
    cell.kind === 'cell' &&
    cell.pid === mark.pid &&
    cell.start <= mark.start &&
    (cell.took === null || mark.start <= cell.start + cell.took);
  const cell = mark.kind === 'cell' ? mark : marks.find(isAround);
  return cell === undefined || cell.cell === '' ? null : cell;
}

/** Asks the page around `element`; false when nobody there can show notebooks. */
export function askToShow(element: Element, detail: IShown): boolean {
  // Whoever can show it says so by that.
  const event = new CustomEvent(SHOW_CELL, { bubbles: true, cancelable: true, detail });
  return !element.dispatchEvent(event);
}
