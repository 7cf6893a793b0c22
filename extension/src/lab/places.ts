/** Where source lines are: in a cell that was run, or in a file of the server. */

import { isText, isWhole, optional, record, type Told } from '../proto/shape';

/** Whether an event of a view carries a place. */
export const isPlace = record({
  file: isText,
  line: isWhole,
  col: isWhole,
  /** Id of the cell, when the line is one of a notebook. */
  cell: optional(isText)
});

/** What a view says when its link to a source line is pressed; lines count from 1, columns from 0. */
export type IPlace = Told<typeof isPlace>;

/** Number of the execution that `file` names, or null when it is the path of a file. */
export function executionOf(file: string): number | null {
  const match = /^cell \[(\d+)\]$/.exec(file);
  return match ? Number(match[1]) : null;
}

/** `file` as the server calls it; null when it lies outside of the server's folder. */
export function serverPath(file: string, root: string): string | null {
  const folder = root.endsWith('/') ? root : `${root}/`;
  return root !== '' && file.startsWith(folder) ? file.slice(folder.length) : null;
}
