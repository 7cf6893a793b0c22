/** Which way each graph runs over the screen, remembered by the browser under the graph's name. */

import { list, oneOf, isText, tuple } from '../../proto/shape';
import type { Direction } from '../model/flow';
import { keep, readKept } from './kept';

const PLACE = 'direction';

/** More graphs than this are not remembered: the oldest choice is forgotten. */
const MOST = 200;

const isKept = list(tuple(isText, oneOf('down', 'right')));

/** The choices from the oldest to the newest; none where the browser keeps nothing for this page. */
function kept(): readonly (readonly [string, Direction])[] {
  return readKept(PLACE, isKept) ?? [];
}

/** The direction that was last chosen for the graph of this name; null when none was. */
export function keptDirection(name: string): Direction | null {
  return kept().find(([known]) => known === name)?.[1] ?? null;
}

export function keepDirection(name: string, direction: Direction): void {
  const others = kept().filter(([known]) => known !== name);
  keep(PLACE, [...others, [name, direction]].slice(-MOST));
}
