/**
 * What people laid beside the graph of a document — places, folds and comments — read from its text and
 * changed in it. Only these parts are written anew, as Python writes them; every other byte stays.
 */

import { fits } from '../../core';
import type { IComment, IPlace } from '../../proto/document';
import { isFlag, isNumber, isText, optional, record } from '../../proto/shape';

/** The texts of the members of an object of JSON, by name, in the order of the text. */
type Members = Map<string, string>;

interface IMember {
  name: string;
  /** Where its name begins, its value begins, and its value ends. */
  at: number;
  start: number;
  end: number;
}

/** The parts of a document that hold notes, as texts; null where it has none. */
export interface INotesText {
  readonly layout: string | null;
  readonly comments: string | null;
}

/** What is laid beside the graph. */
export interface INotes {
  places: IPlace[];
  folds: Record<string, boolean>;
  comments: IComment[];
}

// ---------------------------------------------------------------- where things stand
const SPACE = /[\s\ufeff]*/y;

function afterSpace(text: string, at: number): number {
  SPACE.lastIndex = at;
  SPACE.test(text);
  return SPACE.lastIndex;
}

/** The end of the string that begins at `at`. */
function endOfString(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === '\\') {
      slashes += 1;
    }
    if (slashes % 2 === 0) {
      return end + 1;
    }
  }
  return text.length;
}

/** The end of the value that begins at `at`. */
function endOfValue(text: string, at: number): number {
  let depth = 0;
  let end = at;
  while (end < text.length) {
    const sign = text[end];
    if (sign === '"') {
      end = endOfString(text, end);
    } else if (sign === '{' || sign === '[') {
      depth += 1;
      end += 1;
    } else if (sign === '}' || sign === ']') {
      if (depth === 0) {
        break;
      }
      depth -= 1;
      end += 1;
    } else if (depth === 0 && (sign === ',' || sign === ' ' || sign === '\n' || sign === '\r' || sign === '\t')) {
      break;
    } else {
      end += 1;
      continue;
    }
    if (depth === 0) {
      break;
    }
  }
  return end;
}

/** The text that a string of JSON says. */
function textIn(written: string): string {
  const said = parsed(written);
  return fits(isText, said) ? said : '';
}

/** The members of the object that begins at `from`. */
function membersAt(text: string, from: number): IMember[] {
  const found: IMember[] = [];
  let at = afterSpace(text, afterSpace(text, from) + 1);
  while (text[at] === '"') {
    const end = endOfString(text, at);
    const start = afterSpace(text, afterSpace(text, end) + 1);
    const stop = endOfValue(text, start);
    found.push({ name: textIn(text.slice(at, end)), at, start, end: stop });
    at = afterSpace(text, stop);
    at = text[at] === ',' ? afterSpace(text, at + 1) : at;
  }
  return found;
}

function membersOf(text: string | null | undefined): Members {
  return new Map(
    text === null || text === undefined
      ? []
      : membersAt(text, 0).map(({ name, start, end }) => [name, text.slice(start, end)])
  );
}

/** The texts of the entries of a list. */
function entriesOf(text: string | null): string[] {
  const found: string[] = [];
  if (text !== null) {
    let at = afterSpace(text, afterSpace(text, 0) + 1);
    while (at < text.length && text[at] !== ']') {
      const end = endOfValue(text, at);
      found.push(text.slice(at, end));
      at = afterSpace(text, end);
      at = text[at] === ',' ? afterSpace(text, at + 1) : at;
    }
  }
  return found;
}

// ---------------------------------------------------------------- as Python writes it
const points = (text: string): number[] => Array.from(text, sign => sign.codePointAt(0) ?? 0);

/** Before or behind, by code points, as Python sorts texts. */
function order(a: string, b: string): number {
  const [left, right] = [points(a), points(b)];
  for (const [n, point] of left.entries()) {
    const by = point - (right[n] ?? -1);
    if (by !== 0) {
      return by;
    }
  }
  return left.length - right.length;
}

const sorted = (members: Members): [string, string][] => [...members].sort(([a], [b]) => order(a, b));

function inline(members: Members): string {
  return `{${sorted(members).map(([name, value]) => `${JSON.stringify(name)}: ${value}`).join(', ')}}`;
}

/** The object with a member a line, each after `pad`. */
function spread(members: Members, pad: string): string {
  const lines = sorted(members).map(([name, value]) => `${pad}${JSON.stringify(name)}: ${value}`);
  return `{\n${lines.join(',\n')}\n${pad.slice(1)}}`;
}

// ---------------------------------------------------------------- reading
/** The parts of `text`, a document, that hold notes. */
export function notesTextOf(text: string): INotesText {
  const members = new Map(membersAt(text, 0).map(member => [member.name, member]));
  const part = (name: string): string | null => {
    const member = members.get(name);
    return member === undefined ? null : text.slice(member.start, member.end);
  };
  return { layout: part('layout'), comments: part('comments') };
}

const isPlace = record({ x: isNumber, y: isNumber, pinned: optional(isFlag) });
const isComment = record({
  id: isText,
  text: isText,
  on: optional(isText),
  x: optional(isNumber),
  y: optional(isNumber)
});

function parsed(text: string): unknown {
  return JSON.parse(text);
}

/** What the parts say; entries that are none are left out, as who reads the file will say. */
export function readNotes({ layout, comments }: INotesText): INotes {
  const parts = membersOf(layout);
  const places = [...membersOf(parts.get('places'))].flatMap(([key, text]) => {
    const place = parsed(text);
    return fits(isPlace, place) ? [{ key, x: place.x, y: place.y, pinned: place.pinned ?? false }] : [];
  });
  const folds = [...membersOf(parts.get('folds'))].map(([path, text]) => [path, text === 'true'] as const);
  return {
    places,
    folds: Object.fromEntries(folds),
    comments: entriesOf(comments).flatMap(text => {
      const comment = parsed(text);
      return fits(isComment, comment) ? [pick(comment)] : [];
    })
  };
}

function pick({ id, text, on = '', x = 0, y = 0 }: Partial<IComment> & { id: string; text: string }): IComment {
  return { id, text, on, x, y };
}

// ---------------------------------------------------------------- changing
/** A number as Python writes an integer, or one with a fraction. */
const numeral = (value: number): string => JSON.stringify(value);

function edited(
  layout: string | null,
  change: (places: Members, folds: Members) => void
): string | null {
  const parts = membersOf(layout);
  const [places, folds] = [membersOf(parts.get('places')), membersOf(parts.get('folds'))];
  change(places, folds);
  for (const [name, members] of [
    ['places', places],
    ['folds', folds]
  ] as const) {
    if (members.size === 0) {
      parts.delete(name);
    } else {
      parts.set(name, spread(members, '   '));
    }
  }
  return parts.size === 0 ? null : spread(parts, '  ');
}

/** `notes` with things drawn at `places`. */
export function placed(notes: INotesText, given: readonly IPlace[]): INotesText {
  const layout = edited(notes.layout, places => {
    for (const { key, x, y, pinned } of given) {
      const place = membersOf(places.get(key));
      place.set('x', numeral(x)).set('y', numeral(y));
      if (pinned) {
        place.set('pinned', 'true');
      } else {
        place.delete('pinned');
      }
      places.set(key, inline(place));
    }
  });
  return { ...notes, layout };
}

/** `notes` without the places of `keys`. */
export function unplaced(notes: INotesText, keys: readonly string[]): INotesText {
  return { ...notes, layout: edited(notes.layout, places => keys.forEach(key => places.delete(key))) };
}

/** `notes` with scopes folded or unfolded. */
export function folded(notes: INotesText, given: Readonly<Record<string, boolean>>): INotesText {
  const layout = edited(notes.layout, (_, folds) => {
    for (const [path, isFolded] of Object.entries(given)) {
      folds.set(path, String(isFolded));
    }
  });
  return { ...notes, layout };
}

function listed(entries: readonly string[]): string | null {
  return entries.length === 0 ? null : `[\n${entries.map(entry => `  ${entry}`).join(',\n')}\n ]`;
}

const idOf = (entry: string): string => {
  const id = membersOf(entry).get('id');
  return id === undefined ? '' : textIn(id);
};

/** The id of the next comment. */
function freeId(entries: readonly string[]): string {
  const numbers = entries.map(entry => /^c(\d+)$/.exec(idOf(entry))?.[1] ?? '-1').map(Number);
  return `c${Math.max(-1, ...numbers) + 1}`;
}

function write(comment: Members, { text, on, x, y }: Partial<IComment>): string {
  const put = (name: string, value: string, isUsual: boolean): void => {
    if (isUsual) {
      comment.delete(name);
    } else {
      comment.set(name, value);
    }
  };
  if (text !== undefined) {
    comment.set('text', JSON.stringify(text));
  }
  if (on !== undefined) {
    put('on', JSON.stringify(on), on === '');
  }
  if (x !== undefined) {
    put('x', numeral(x), x === 0);
  }
  if (y !== undefined) {
    put('y', numeral(y), y === 0);
  }
  return inline(comment);
}

/** `notes` with one comment more. */
export function commented(notes: INotesText, comment: Omit<IComment, 'id'>): INotesText {
  const entries = entriesOf(notes.comments);
  const made: Members = new Map([['id', JSON.stringify(freeId(entries))]]);
  return { ...notes, comments: listed([...entries, write(made, comment)]) };
}

/** `notes` with a comment that is another. */
export function recommented(notes: INotesText, id: string, change: Partial<IComment>): INotesText {
  const entries = entriesOf(notes.comments).map(entry => (idOf(entry) === id ? write(membersOf(entry), change) : entry));
  return { ...notes, comments: listed(entries) };
}

/** `notes` without the comments `ids`. */
export function uncommented(notes: INotesText, ids: readonly string[]): INotesText {
  return { ...notes, comments: listed(entriesOf(notes.comments).filter(entry => !ids.includes(idOf(entry)))) };
}

/** `text`, a document, with other notes. */
export function withNotes(text: string, notes: INotesText): string {
  return withMember(withMember(text, 'comments', notes.comments), 'layout', notes.layout);
}

function withMember(text: string, name: string, value: string | null): string {
  const members = membersAt(text, 0);
  const n = members.findIndex(member => member.name === name);
  const old = members[n];
  if (old !== undefined && value !== null) {
    return text.slice(0, old.start) + value + text.slice(old.end);
  }
  if (old !== undefined) {
    const next = members[n + 1];
    const before = members[n - 1];
    return next === undefined
      ? text.slice(0, before?.end ?? old.at) + text.slice(old.end)
      : text.slice(0, old.at) + text.slice(next.at);
  }
  if (value === null) {
    return text;
  }
  const later = members.find(member => order(member.name, name) > 0) ?? members[0];
  if (later === undefined) {
    return text;
  }
  // The room before a member is what people see between two of them.
  const room = /\s*$/.exec(text.slice(0, later.at))?.[0] ?? '';
  return `${text.slice(0, later.at)}${JSON.stringify(name)}: ${value},${room}${text.slice(later.at)}`;
}
