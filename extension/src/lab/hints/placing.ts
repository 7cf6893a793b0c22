/** Where the hints of a text stand in a document that is being edited; knows no editor. */

import type { ChangeDesc, Text } from '@codemirror/state';

import type { ILineHints, ISourceHints } from '../../proto/hints';
import { checksum } from './crc';

/** Lines of one change in which a hint that has no line is looked for. */
const MOST_SEARCHED = 20_000;

/** Lines that came into the place of a statement, in which it is looked for. */
const MOST_WITHIN = 100;

/** `fresh` as it ran; `stale` edited since; `gone` no line has it. */
export type HintState = 'fresh' | 'stale' | 'gone';

export interface IPlacedHint {
  readonly hint: ILineHints;
  /** The statement, from the start of its first line to the end of its last. */
  readonly from: number;
  readonly to: number;
  readonly state: HintState;
}

/** The hints of one document. */
export interface IPlacedHints {
  readonly source: ISourceHints | null;
  /** By where they stand. */
  readonly placed: readonly IPlacedHint[];
  /** The document in which a file was imported; null for a cell, and where the file has another text. */
  readonly imported: Text | null;
}

export const NOTHING: IPlacedHints = { source: null, placed: [], imported: null };

/** Whether `doc` is another text than that which the kernel imported. */
export function isOtherText({ source, imported }: IPlacedHints, doc: Text): boolean {
  return source !== null && source.path !== '' && imported?.eq(doc) !== true;
}

/** The line at whose end a hint stands; null where there is none. */
export function lineOf({ hint, from, to, state }: IPlacedHint, doc: Text): number | null {
  if (state === 'gone') {
    return null;
  }
  const first = doc.lineAt(from).number;
  return Math.min(first + hint.line - hint.first, doc.lineAt(to).number);
}

/** The hints of `source` in `doc`; those that `old` has keep their places. */
export function place(source: ISourceHints, doc: Text, old: IPlacedHints): IPlacedHints {
  const kept = new Map(old.placed.map(one => [keyOf(one.hint), one]));
  const taken = new Set<number>();
  const placed: IPlacedHint[] = [];
  const missing: ILineHints[] = [];
  for (const hint of source.lines) {
    const known = kept.get(keyOf(hint));
    if (known !== undefined && known.state !== 'gone') {
      placed.push({ ...known, hint });
      taken.add(doc.lineAt(known.from).number * 4096 + hint.line - hint.first);
    } else if (isAt(doc, hint, hint.first)) {
      placed.push(placedAt(doc, hint, hint.first));
      taken.add(hint.first * 4096 + hint.line - hint.first);
    } else {
      missing.push(hint);
    }
  }
  if (missing.length > 0) {
    const places = indexOf(doc, [[1, doc.lines]]);
    missing.forEach(hint => placed.push(found(doc, hint, places, taken)));
  }
  return { source, placed: sorted(placed), imported: importedIn(source, doc) };
}

/** The hints after `changes` have made `doc`. */
export function follow(hints: IPlacedHints, changes: ChangeDesc, doc: Text): IPlacedHints {
  const { source } = hints;
  const placed = hints.placed.map(one => {
    const from = changes.mapPos(one.from, 1);
    const to = changes.mapPos(one.to, -1);
    if (one.state === 'gone') {
      return { ...one, from: Math.min(from, to), to: Math.min(from, to) };
    }
    if (changes.touchesRange(one.from, one.to) === false) {
      return { hint: one.hint, from, to, state: one.state };
    }
    const state = stateOf(doc, one.hint, from, to);
    const again = state === 'stale' ? within(doc, one.hint, from, to) : null;
    if (again !== null) {
      return again;
    }
    const at = Math.min(from, to);
    return { hint: one.hint, from: state === 'gone' ? at : from, to: state === 'gone' ? at : to, state };
  });
  const imported = hints.imported ?? (source === null ? null : importedIn(source, doc));
  const isAnyGone = placed.some(({ state }) => state === 'gone');
  return { source, placed: isAnyGone ? sorted(revived(placed, changes, doc)) : placed, imported };
}

/** Looks for the hints that have no line in what `changes` have put in: what was cut, and is undone. */
function revived(placed: readonly IPlacedHint[], changes: ChangeDesc, doc: Text): IPlacedHint[] {
  const ranges: [number, number][] = [];
  let left = MOST_SEARCHED;
  changes.iterChangedRanges((_fromA, _toA, fromB, toB) => {
    const first = doc.lineAt(fromB).number;
    const last = Math.min(doc.lineAt(toB).number, first + left);
    left -= last - first;
    ranges.push([first, last]);
  });
  const places = indexOf(doc, ranges);
  const taken = new Set<number>();
  for (const { hint, from, state } of placed) {
    if (state !== 'gone') {
      taken.add(doc.lineAt(from).number * 4096 + hint.line - hint.first);
    }
  }
  return placed.map(one => {
    const again = one.state === 'gone' ? found(doc, one.hint, places, taken) : one;
    return again.state === 'gone' ? one : again;
  });
}

/** The hint at a line with its text among those that came into its place; null where there is none. */
function within(doc: Text, hint: ILineHints, from: number, to: number): IPlacedHint | null {
  const first = doc.lineAt(from).number;
  const last = Math.min(doc.lineAt(to).number, first + MOST_WITHIN);
  for (let number = first; number <= last; number += 1) {
    if (isAt(doc, hint, number)) {
      return placedAt(doc, hint, number);
    }
  }
  return null;
}

function stateOf(doc: Text, { text }: ILineHints, from: number, to: number): HintState {
  if (from >= to) {
    return 'gone';
  }
  return doc.sliceString(doc.lineAt(from).from, doc.lineAt(to).to) === text ? 'fresh' : 'stale';
}

/** Which lines of `ranges` begin with a text. */
function indexOf(doc: Text, ranges: readonly (readonly [number, number])[]): Map<string, number[]> {
  const places = new Map<string, number[]>();
  for (const [first, last] of ranges) {
    let number = first;
    for (const line of doc.iterLines(first, last + 1)) {
      const known = places.get(line);
      if (known === undefined) {
        places.set(line, [number]);
      } else {
        known.push(number);
      }
      number += 1;
    }
  }
  return places;
}

/** The hint at the place with its text that is nearest to where it ran, and that no other hint has. */
function found(
  doc: Text,
  hint: ILineHints,
  places: ReadonlyMap<string, readonly number[]>,
  taken: Set<number>
): IPlacedHint {
  const [first = ''] = hint.text.split('\n', 1);
  const offset = hint.line - hint.first;
  const free = (places.get(first) ?? []).filter(
    number => !taken.has(number * 4096 + offset) && isAt(doc, hint, number)
  );
  const [best] = free.sort((a, b) => Math.abs(a - hint.first) - Math.abs(b - hint.first));
  if (best === undefined) {
    return { hint, from: 0, to: 0, state: 'gone' };
  }
  taken.add(best * 4096 + offset);
  return placedAt(doc, hint, best);
}

function isAt(doc: Text, { first, last, text }: ILineHints, number: number): boolean {
  const end = number + last - first;
  return end <= doc.lines && doc.sliceString(doc.line(number).from, doc.line(end).to) === text;
}

function placedAt(doc: Text, hint: ILineHints, number: number): IPlacedHint {
  const { from } = doc.line(number);
  return { hint, from, to: doc.line(number + hint.last - hint.first).to, state: 'fresh' };
}

function importedIn({ path, length, crc }: ISourceHints, doc: Text): Text | null {
  // UTF-8 has at least as many bytes as the document has units, and at most three times as many.
  if (path === '' || doc.length > length || doc.length * 3 < length) {
    return null;
  }
  const sum = checksum(doc.toString());
  return sum.length === length && sum.crc === crc ? doc : null;
}

function keyOf({ line, text }: ILineHints): string {
  return `${line}\n${text}`;
}

function sorted(placed: IPlacedHint[]): IPlacedHint[] {
  return placed.sort((a, b) => a.from - b.from || a.hint.line - b.hint.line);
}
