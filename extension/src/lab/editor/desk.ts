/**
 * The desk of a document without a kernel: what is laid beside its graph is changed here, in the text of
 * the document, with steps that are taken back and done again. What changes the graph needs a kernel.
 */

import type { IChangeAnswer, IChangeArgs } from '../../proto/changes';
import type { IDifference } from '../../proto/difference';
import type { IGraphDocument, IPlace } from '../../proto/document';
import {
  commented,
  folded,
  type INotes,
  type INotesText,
  notesTextOf,
  placed,
  readNotes,
  recommented,
  uncommented,
  unplaced,
  withNotes
} from './notes-text';

/** Where the text of the document is. */
export interface IDeskHost {
  readonly text: string;
  /** Lets the document have another text, which is not saved. */
  put(text: string): void;
}

interface IStep {
  before: INotesText;
  after: INotesText;
}

const WORDS = { place: 'moved', pin: 'pinned', unpin: 'unpinned', align: 'aligned' } as const;

const items = (count: number): string => `${count} item${count === 1 ? '' : 's'}`;

export class NotesDesk {
  constructor(private readonly _host: IDeskHost) {}

  get canUndo(): boolean {
    return this._done.length > 0;
  }

  get canRedo(): boolean {
    return this._undone.length > 0;
  }

  /** Forgets the steps: the document has another text, or a kernel has it. */
  clear(): void {
    this._done = [];
    this._undone = [];
  }

  /** The answer to a step, done; null where only a kernel can do it. */
  change(args: IChangeArgs): IChangeAnswer | null {
    const { on, op, fields } = args;
    const places = args.places ?? [];
    switch (args.do) {
      case 'look':
        return this._answer('');
      case 'place':
      case 'pin':
      case 'unpin':
      case 'align':
        return this._step(`${WORDS[args.do]} ${items(places.length)}`, notes => placed(notes, places));
      case 'unplace':
        return this._step(`left ${items(on.length)} to the layout`, notes => unplaced(notes, on));
      case 'fold':
        return this._step('', notes => folded(notes, flags(fields)));
      case 'comment': {
        const { x, y } = places[0] ?? { x: 0, y: 0 };
        return this._step('added a comment', notes => commented(notes, { text: textOf(args), on: op, x, y }));
      }
      case 'set-comment': {
        const text = fields.text === undefined ? {} : { text: textOf(args) };
        const at: { x?: number; y?: number } = places[0] === undefined ? {} : { x: places[0].x, y: places[0].y };
        return this._step(fields.text === undefined ? 'moved the comment' : 'changed the comment', notes =>
          recommented(notes, on[0] ?? '', { ...text, ...at })
        );
      }
      case 'remove-comment':
        return this._step(on.length === 1 ? 'removed the comment' : `removed ${on.length} comments`, notes =>
          uncommented(notes, on)
        );
      case 'undo':
        return this._move(this._done, this._undone, 'before', 'undone', 'there is nothing to undo');
      case 'redo':
        return this._move(this._undone, this._done, 'after', 'done again', 'there is nothing to redo');
      default:
        return null;
    }
  }

  private _step(said: string, make: (notes: INotesText) => INotesText): IChangeAnswer {
    const before = notesTextOf(this._host.text);
    const after = make(before);
    if (after.layout !== before.layout || after.comments !== before.comments) {
      this._done.push({ before, after });
      this._undone = [];
      this._host.put(withNotes(this._host.text, after));
    }
    return this._answer(said);
  }

  private _move(
    from: IStep[],
    to: IStep[],
    side: 'before' | 'after',
    said: string,
    nothing: string
  ): IChangeAnswer {
    const step = from.pop();
    if (step === undefined) {
      return this._answer(nothing);
    }
    to.push(step);
    this._host.put(withNotes(this._host.text, step[side]));
    return this._answer(said);
  }

  private _answer(said: string): IChangeAnswer {
    return { version: 1, said, select: [], can_undo: this.canUndo, can_redo: this.canRedo, wrong: [] };
  }

  private _done: IStep[] = [];
  private _undone: IStep[] = [];
}

function flags(fields: Readonly<Record<string, string>>): Record<string, boolean> {
  return Object.fromEntries(Object.entries(fields).map(([path, value]) => [path, value === 'true']));
}

function textOf({ fields }: IChangeArgs): string {
  const text = (fields.text ?? '').trim();
  if (text === '') {
    throw new Error('A comment says something: nothing is given.');
  }
  return text;
}

/** What leads from `document`, which is drawn, to one with the notes of `text`; null where it has them. */
export function noteDifference(document: IGraphDocument, text: string): IDifference | null {
  const notes = readNotes(notesTextOf(text));
  const { revision } = document;
  const old = document.places ?? [];
  const now = new Map(notes.places.map(place => [place.key, place]));
  const known = new Set(old.map(({ key }) => key));
  const isOther = (a: IPlace, b: IPlace | undefined): b is IPlace =>
    b !== undefined && (a.x !== b.x || a.y !== b.y || a.pinned !== b.pinned);
  const removed = old.filter(({ key }) => !now.has(key)).map(({ key }) => key);
  const changed = old.map(place => [place, now.get(place.key)] as const).flatMap(([a, b]) => (isOther(a, b) ? [b] : []));
  const added = notes.places.filter(({ key }) => !known.has(key)).map(place => ({ before: null, place }));
  const made: IDifference = { revision };
  if (removed.length + changed.length + added.length > 0) {
    made.places = { removed, changed, added };
  }
  if (differs(document.folds ?? {}, notes.folds)) {
    made.folds = notes.folds;
  }
  if (differs(document.comments ?? [], notes.comments)) {
    made.comments = notes.comments;
  }
  return made.places === undefined && made.folds === undefined && made.comments === undefined ? null : made;
}

function differs(a: INotes['folds'] | INotes['comments'], b: INotes['folds'] | INotes['comments']): boolean {
  const text = (value: object): string => JSON.stringify(value, Array.isArray(value) ? undefined : Object.keys(value).sort());
  return text(a) !== text(b);
}
