/**
 * Reads queries: `op=matmul & time>1ms` becomes a tree. The same as `maxlab/lab/query/syntax.py`, to
 * the messages: `tests/lab/queries.json` holds both to one table.
 */

import { QUERY_FIELDS, QUERY_UNITS, type IQueryField } from '../../proto/query';

export type Compare = '=' | '!=' | '<' | '<=' | '>' | '>=' | ':';

/** A pattern of texts, which ignores case; with `stars`, `*` stands for any text. */
export type TextPattern =
  | { readonly how: 'whole'; readonly pattern: string; readonly stars: boolean }
  | { readonly how: 'part'; readonly pattern: string }
  | { readonly how: 'regex'; readonly pattern: RegExp };

export type QueryTest =
  | { readonly kind: 'words'; readonly text: TextPattern }
  | { readonly kind: 'inside'; readonly text: TextPattern }
  | { readonly kind: 'text'; readonly field: string; readonly isNot: boolean; readonly text: TextPattern }
  | { readonly kind: 'number'; readonly field: string; readonly compare: Compare; readonly value: number }
  | { readonly kind: 'shape'; readonly field: string; readonly isNot: boolean; readonly dims: readonly string[] }
  | { readonly kind: 'not'; readonly test: QueryTest }
  | { readonly kind: 'all' | 'some'; readonly tests: readonly QueryTest[] };

/** Why a query cannot be read: the index of the character, and what is wrong there. */
export class QueryError extends Error {
  constructor(
    readonly place: number,
    readonly said: string
  ) {
    super(said);
  }
}

const FIELDS: ReadonlyMap<string, IQueryField> = new Map(QUERY_FIELDS.map(field => [field.name, field]));

const COMPARES: readonly Compare[] = ['!=', '<=', '>=', '=', '<', '>', ':'];

const ALLOWED: Record<IQueryField['kind'], readonly Compare[]> = {
  text: ['=', '!=', ':'],
  number: ['=', '!=', '<', '<=', '>', '>='],
  shape: ['=', '!=']
};

const ENDS = new Set('&|!()"=<>');
const VALUE_ENDS = new Set('&|()"');
const DIM_ENDS = new Set(',]&|');
const NUMBER = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([^]*)$/;

/** Whether `text` is `pattern`, in which each `*` stands for any text. */
export function starred(pattern: string, text: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  const last = rest.pop();
  if (last === undefined) {
    return text === pattern;
  }
  if (!text.startsWith(first)) {
    return false;
  }
  let at = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0) {
      return false;
    }
    at = found + part.length;
  }
  return text.length - at >= last.length && text.endsWith(last);
}

export function matches(pattern: TextPattern, text: string): boolean {
  if (pattern.how === 'regex') {
    return pattern.pattern.test(text);
  }
  const low = text.toLowerCase();
  if (pattern.how === 'part') {
    return low.includes(pattern.pattern);
  }
  return pattern.stars ? starred(pattern.pattern, low) : low === pattern.pattern;
}

/** The names of the fields that `test` compares. */
export function fieldsOf(test: QueryTest): Set<string> {
  switch (test.kind) {
    case 'words':
    case 'inside':
      return new Set();
    case 'not':
      return fieldsOf(test.test);
    case 'all':
    case 'some':
      return new Set(test.tests.flatMap(inner => [...fieldsOf(inner)]));
    default:
      return new Set([test.field]);
  }
}

/** True when `test` is made of words alone: scopes are found by them too. */
export function isPlain(test: QueryTest): boolean {
  return test.kind === 'words' || (test.kind === 'all' && test.tests.every(isPlain));
}

/** The letters to add, remove or replace between `a` and `b`. */
export function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const put = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, put));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

function near(name: string, known: readonly string[]): string | undefined {
  const limit = name.length < 4 ? 1 : Math.max(2, Math.floor(name.length / 3));
  let best: string | undefined;
  let least = limit + 1;
  for (const other of known) {
    const away = distance(name.toLowerCase(), other.toLowerCase());
    if (away < least) {
      best = other;
      least = away;
    }
  }
  return best;
}

class Reader {
  at = 0;

  constructor(readonly text: string) {}

  fail(said: string, place: number = this.at): never {
    throw new QueryError(place, said);
  }

  expected(what: string): never {
    const letter = this.text[this.at];
    this.fail(`expected ${what}, got ${letter === undefined ? 'the end' : `'${letter}'`}`);
  }

  blank(): void {
    while (this.at < this.text.length && this._isBlank(this.at)) {
      this.at += 1;
    }
  }

  private _isBlank(at: number): boolean {
    return /\s/.test(this.text[at] ?? '');
  }

  peek(): string {
    this.blank();
    return this.text[this.at] ?? '';
  }

  take<T extends string>(...wanted: T[]): T | null {
    this.blank();
    const found = wanted.find(one => this.text.startsWith(one, this.at));
    this.at += found?.length ?? 0;
    return found ?? null;
  }

  /** The letters up to a blank or one of `ends`. */
  run(ends: ReadonlySet<string>): string {
    const start = this.at;
    while (this.at < this.text.length && !this._isBlank(this.at) && !ends.has(this.text[this.at] ?? '')) {
      this.at += 1;
    }
    return this.text.slice(start, this.at);
  }

  query(): QueryTest {
    const first = this.every();
    const tests = [first];
    while (this.take('||', '|') !== null) {
      tests.push(this.every());
    }
    return tests.length === 1 ? first : { kind: 'some', tests };
  }

  every(): QueryTest {
    const first = this.term();
    const tests = [first];
    for (;;) {
      const isJoined = this.take('&&', '&') !== null;
      if (!isJoined && ['', '|', ')'].includes(this.peek())) {
        return tests.length === 1 ? first : { kind: 'all', tests };
      }
      tests.push(this.term());
    }
  }

  term(): QueryTest {
    const first = this.peek();
    if (first === '!') {
      this.at += 1;
      return { kind: 'not', test: this.term() };
    }
    if (first === '(') {
      this.at += 1;
      const inner = this.query();
      if (this.take(')') === null) {
        this.expected("')'");
      }
      return inner;
    }
    if (first === '"' || first === '/') {
      return { kind: 'words', text: this.quoted() };
    }
    const start = this.at;
    let word = this.run(ENDS);
    if (word === '') {
      this.expected('something to look for, such as op=matmul or a word');
    }
    if (word === 'in' && this.text.startsWith('(', this.at)) {
      return this.inside();
    }
    // A colon is part of a word, unless it stands behind the name of a field.
    const colon = word.indexOf(':');
    if (colon >= 0 && FIELDS.has(word.slice(0, colon))) {
      word = word.slice(0, colon);
      this.at = start + colon;
    }
    const known = FIELDS.get(word);
    const end = this.at;
    let compare = this.take('==', ...COMPARES);
    if (compare === '!=' && known === undefined && /\s/.test(this.text[end] ?? '')) {
      this.at = end;
      compare = null;
    }
    if (compare === null) {
      this.at = end;
      return { kind: 'words', text: { how: 'part', pattern: word.toLowerCase() } };
    }
    if (known === undefined) {
      const names = [...FIELDS.keys()];
      const meant = near(word, names);
      const hint = meant === undefined ? `fields are ${names.join(', ')}` : `did you mean '${meant}'?`;
      this.fail(`no field is called '${word}'; ${hint}`, start);
    }
    return this.comparison(known, compare === '==' ? '=' : compare, end);
  }

  comparison(field: IQueryField, compare: Compare, place: number): QueryTest {
    const { name, kind } = field;
    if (!ALLOWED[kind].includes(compare)) {
      this.at = place;
      this.blank();
      this.expected(`${ALLOWED[kind].join(' ')} behind ${name}`);
    }
    this.blank();
    const isNot = compare === '!=';
    if (kind === 'shape') {
      return { kind, field: name, isNot, dims: this.dims() };
    }
    if (kind === 'number') {
      return { kind, field: name, compare, value: this.number(field) };
    }
    return { kind, field: name, isNot, text: this.pattern(`a text behind ${name}${compare}`, compare === ':') };
  }

  pattern(what: string, isPart: boolean): TextPattern {
    if (['"', '/'].includes(this.peek())) {
      const text = this.quoted();
      return text.how === 'part' && !isPart ? { how: 'whole', pattern: text.pattern, stars: false } : text;
    }
    const value = this.run(VALUE_ENDS);
    if (value === '') {
      this.expected(what);
    }
    const pattern = value.toLowerCase();
    return isPart ? { how: 'part', pattern } : { how: 'whole', pattern, stars: value.includes('*') };
  }

  /** A text in quotes or a regular expression, which begins here. */
  quoted(): TextPattern {
    const start = this.at;
    const end = this.text[start] ?? '"';
    this.at += 1;
    let made = '';
    while (this.at < this.text.length && this.text[this.at] !== end) {
      const letter = this.text[this.at] ?? '';
      const following = this.text[this.at + 1];
      if (letter === '\\' && following !== undefined) {
        this.at += 1;
        // Of a regular expression the backslash is a part, unless it guards the slash.
        made += end === '"' || following === '/' ? following : letter + following;
      } else {
        made += letter;
      }
      this.at += 1;
    }
    if (this.at >= this.text.length) {
      const what = end === '"' ? 'quotes are' : 'regular expression is';
      this.fail(`the ${what} not closed: expected ${end} at the end`, start);
    }
    this.at += 1;
    if (end === '"') {
      return { how: 'part', pattern: made.toLowerCase() };
    }
    try {
      return { how: 'regex', pattern: new RegExp(made, 'i') };
    } catch {
      this.fail('this regular expression cannot be read', start);
    }
  }

  inside(): QueryTest {
    this.at += 1;
    const text = this.pattern('the path of a scope, such as layers.3', false);
    if (this.take(')') === null) {
      this.expected("')'");
    }
    return { kind: 'inside', text };
  }

  dims(): string[] {
    if (this.take('[') === null) {
      this.expected('a shape such as [*, 64]');
    }
    if (this.take(']') !== null) {
      return [];
    }
    const made: string[] = [];
    for (;;) {
      this.blank();
      const dim = this.run(DIM_ENDS);
      if (dim === '') {
        this.expected('a size, a name, * for any axis or ... for any number of them');
      }
      made.push(dim);
      if (this.take(']') !== null) {
        return made;
      }
      if (this.take(',') === null) {
        this.expected("',' or ']'");
      }
    }
  }

  number(field: IQueryField): number {
    const units = QUERY_UNITS[field.units];
    const names = Object.keys(units);
    const start = this.at;
    const [, digits, behind = ''] = NUMBER.exec(this.run(VALUE_ENDS)) ?? [];
    if (digits === undefined) {
      this.at = start;
      this.expected(`a number, as in ${field.says.slice(field.says.lastIndexOf(': ') + 2)}`);
    }
    let unit = behind;
    if (unit === '' && names.length > 0) {
      const here = this.at;
      this.blank();
      const word = this.run(ENDS);
      unit = names.includes(word) ? word : '';
      if (unit === '') {
        this.at = here;
      }
    }
    const amount = Number(digits);
    if (unit === '') {
      if (field.units === 'time' && amount !== 0) {
        this.fail(`expected a unit behind the number: ${names.join(', ')}`, start);
      }
      return amount;
    }
    const factor = names.includes(unit) ? units[unit] : undefined;
    if (factor === undefined) {
      const known = names.length > 0 ? `units are ${names.join(', ')}` : 'it has no unit';
      this.fail(`no unit of ${field.name} is called '${unit}'; ${known}`, start);
    }
    return amount * factor;
  }
}

/** The tree of a query; throws a `QueryError` where it cannot be read. */
export function readQuery(text: string): QueryTest {
  const reader = new Reader(text);
  const made = reader.query();
  if (reader.peek() !== '') {
    reader.expected('& or |');
  }
  return made;
}
