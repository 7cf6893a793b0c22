/**
 * The text of a document that a kernel edits, as its messages tell of it. The file keeps its own bytes
 * until something is edited: the kernel writes what it read in its own way, which is no edit.
 */

import type { IEditorLines, IEditorOpened, IEditorText } from '../../proto/editor';

export class KernelText {
  /** @param _raw the text that the kernel was given. */
  constructor(private _raw: string) {}

  /** Number of the text that is known; -1 before the kernel has told of one. */
  get number(): number {
    return this._number;
  }

  /** What the file should hold. */
  get text(): string {
    if (this._number < 0) {
      return this._raw;
    }
    const text = this._lines.join('\n');
    return text === this._given ? this._raw : text;
  }

  /** Takes a whole text; of what was edited since it was given to the kernel, too. */
  opened({ number, raw, given, text }: Pick<IEditorOpened, 'number' | 'raw' | 'given' | 'text'>): void {
    this._raw = raw ?? given;
    this._number = number;
    this._given = given;
    this._lines = text.split('\n');
  }

  /** Takes the lines that are others now; false when a text before them was missed. */
  revise({ since, number, parts }: IEditorText): boolean {
    if (number <= this._number) {
      return true;
    }
    if (since !== this._number || !areInOrder(parts, this._lines.length)) {
      return false;
    }
    const made: string[] = [];
    let at = 0;
    for (const { start, removed, lines } of parts) {
      made.push(...this._lines.slice(at, start), ...lines);
      at = start + removed;
    }
    this._lines = [...made, ...this._lines.slice(at)];
    this._number = number;
    return true;
  }

  private _number = -1;
  private _given = '';
  private _lines: string[] = [];
}

/** Whether `parts` are parts of a text of `count` lines, each behind the one before. */
function areInOrder(parts: readonly IEditorLines[], count: number): boolean {
  let at = 0;
  for (const { start, removed } of parts) {
    if (start < at || start + removed > count) {
      return false;
    }
    at = start + removed;
  }
  return true;
}

/** From `start` to `end` stands `value`. */
export interface IReplacement {
  start: number;
  end: number;
  value: string;
}

/**
 * What has to be replaced in `before` to get `now`, from the first place to the last; places are those of
 * `before`. With the parts that a kernel has told, no more than these; what is shared keeps each text
 * that was replaced, if only as a gap.
 */
export function replacements(before: string, now: string, parts: readonly IEditorLines[]): IReplacement[] {
  const lines = before.split('\n');
  const made: IReplacement[] = [];
  const text: string[] = [];
  let line = 0;
  let at = 0;
  const skip = (to: number): void => {
    for (; line < to; line += 1) {
      at += (lines[line] ?? '').length + 1;
    }
  };
  const last = parts[parts.length - 1];
  // The last line has no end; a part that has it is not a number of whole lines.
  if (last === undefined || !areInOrder(parts, lines.length - 1)) {
    return [replacement(before, now)];
  }
  let kept = 0;
  for (const { start, removed, lines: fresh } of parts) {
    skip(start);
    const from = at;
    skip(start + removed);
    const one = replacement(before.slice(from, at), fresh.map(each => `${each}\n`).join(''));
    made.push({ start: from + one.start, end: from + one.end, value: one.value });
    text.push(before.slice(kept, from + one.start), one.value);
    kept = from + one.end;
  }
  text.push(before.slice(kept));
  return text.join('') === now ? made : [replacement(before, now)];
}

/** What has to be replaced in `before` to get `now`. */
export function replacement(before: string, now: string): IReplacement {
  const most = Math.min(before.length, now.length);
  let start = 0;
  while (start < most && before.charCodeAt(start) === now.charCodeAt(start)) {
    start += 1;
  }
  let tail = 0;
  while (
    tail < most - start &&
    before.charCodeAt(before.length - 1 - tail) === now.charCodeAt(now.length - 1 - tail)
  ) {
    tail += 1;
  }
  // Half of a pair is no text that could be put into a shared one.
  if (start > 0 && isHigh(now.charCodeAt(start - 1))) {
    start -= 1;
  }
  if (tail > 0 && isHigh(now.charCodeAt(now.length - tail - 1))) {
    tail -= 1;
  }
  return { start, end: before.length - tail, value: now.slice(start, now.length - tail) };
}

/** Whether a unit of UTF-16 is the first of a pair. */
function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}
