/** The difference between two texts by lines, and the least that has to be replaced to come from one to the other. */

export interface ILine {
  kind: 'same' | 'removed' | 'added';
  /** Without its end. */
  text: string;
  /** Its number in the text that it is in, from 1. */
  number: number;
}

/** `text` from `start` to `end`, in units of UTF-16, becomes `value`. */
export interface ITextEdit {
  start: number;
  end: number;
  value: string;
}

/** Texts with more lines than this that differ are compared at their ends alone. */
const MOST_LINES = 2000;

/** A line with its end. */
const WITH_END = /[^\n]*\n|[^\n]+$/g;

const linesOf = (text: string): string[] => text.split('\n');

/** For each line that both have, in order, its place in `one` and in `other`. */
function paired(one: readonly string[], other: readonly string[]): [number, number][] {
  let head = 0;
  while (head < one.length && head < other.length && one[head] === other[head]) {
    head += 1;
  }
  let tail = 0;
  while (tail < Math.min(one.length, other.length) - head && one[one.length - 1 - tail] === other[other.length - 1 - tail]) {
    tail += 1;
  }
  const pairs: [number, number][] = Array.from({ length: head }, (_, n) => [n, n]);
  const left = one.slice(head, one.length - tail);
  const right = other.slice(head, other.length - tail);
  if (left.length <= MOST_LINES && right.length <= MOST_LINES) {
    pairs.push(...common(left, right).map(([n, m]): [number, number] => [n + head, m + head]));
  }
  for (let n = tail; n > 0; n--) {
    pairs.push([one.length - n, other.length - n]);
  }
  return pairs;
}

/** The longest common sequence of lines. */
function common(left: readonly string[], right: readonly string[]): [number, number][] {
  const width = right.length + 1;
  const longest = new Uint16Array((left.length + 1) * width);
  for (let n = left.length - 1; n >= 0; n--) {
    for (let m = right.length - 1; m >= 0; m--) {
      longest[n * width + m] =
        left[n] === right[m]
          ? (longest[(n + 1) * width + m + 1] ?? 0) + 1
          : Math.max(longest[(n + 1) * width + m] ?? 0, longest[n * width + m + 1] ?? 0);
    }
  }
  const found: [number, number][] = [];
  for (let n = 0, m = 0; n < left.length && m < right.length; ) {
    if (left[n] === right[m]) {
      found.push([n, m]);
      n += 1;
      m += 1;
    } else if ((longest[(n + 1) * width + m] ?? 0) >= (longest[n * width + m + 1] ?? 0)) {
      n += 1;
    } else {
      m += 1;
    }
  }
  return found;
}

/** All lines of both texts, those that went before those that came. */
export function lineDifference(before: string, after: string): ILine[] {
  const [one, other] = [linesOf(before), linesOf(after)];
  const found: ILine[] = [];
  let [n, m] = [0, 0];
  const upTo = (was: number, is: number): void => {
    for (; n < was; n++) {
      found.push({ kind: 'removed', text: one[n] ?? '', number: n + 1 });
    }
    for (; m < is; m++) {
      found.push({ kind: 'added', text: other[m] ?? '', number: m + 1 });
    }
  };
  for (const [was, is] of paired(one, other)) {
    upTo(was, is);
    found.push({ kind: 'same', text: other[is] ?? '', number: is + 1 });
    n = was + 1;
    m = is + 1;
  }
  upTo(one.length, other.length);
  return found;
}

/** How many letters two texts have in common at their beginnings and at their ends. */
export function commonEnds(one: string, other: string): [number, number] {
  const most = Math.min(one.length, other.length);
  let head = 0;
  while (head < most && one[head] === other[head]) {
    head += 1;
  }
  let tail = 0;
  while (tail < most - head && one[one.length - 1 - tail] === other[other.length - 1 - tail]) {
    tail += 1;
  }
  // No letter of two units is cut in the middle.
  const isCut = (at: number): boolean => /[\uDC00-\uDFFF]/.test(one.charAt(at)) && /[\uD800-\uDBFF]/.test(one.charAt(at - 1));
  while (head > 0 && isCut(head)) {
    head -= 1;
  }
  while (tail > 0 && isCut(one.length - tail)) {
    tail -= 1;
  }
  return [head, tail];
}

/** What makes `after` of `before`, from the end to the beginning: each leaves the places of the next as they are. */
export function textEdits(before: string, after: string): ITextEdit[] {
  const [one, other] = [before.match(WITH_END) ?? [], after.match(WITH_END) ?? []];
  const edits: ITextEdit[] = [];
  let [n, m, at] = [0, 0, 0];
  const upTo = (was: number, is: number): void => {
    const [old, value] = [one.slice(n, was).join(''), other.slice(m, is).join('')];
    if (old !== value) {
      const [head, tail] = commonEnds(old, value);
      edits.push({ start: at + head, end: at + old.length - tail, value: value.slice(head, value.length - tail) });
    }
    at += old.length;
  };
  for (const [was, is] of paired(one, other)) {
    upTo(was, is);
    at += (one[was] ?? '').length;
    n = was + 1;
    m = is + 1;
  }
  upTo(one.length, other.length);
  return edits.reverse();
}
