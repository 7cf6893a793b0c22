/**
 * Readers of unknown JSON: what `scripts/gen_protocol.py` makes the reader of each declared type of.
 *
 * A reader says whether a value is of its type; where it is not, the trail learns what was expected,
 * what was there and where. Values are looked at, not copied, and fields that no type declares are
 * left alone: later versions of a document add fields.
 */

/** More problems than this are counted, not listed. */
const MOST_PROBLEMS = 20;

/** Whether `value` is a T. */
export type Shape<T> = (value: unknown, trail: Trail) => value is T;

/** The type of the values that a shape lets pass. */
export type Told<S> = S extends Shape<infer T> ? T : never;

interface IProblem {
  path: string;
  text: string;
}

/** What is wrong with a value; paths grow from the inside out, and cost nothing while all is well. */
export class Trail {
  private readonly _problems: IProblem[] = [];
  private _count = 0;

  get length(): number {
    return this._problems.length;
  }

  /** Notes that something else was expected; always false. */
  fail(expected: string, value: unknown): false {
    return this.note(`expected ${expected}, got ${kindOf(value)}`);
  }

  note(text: string): false {
    this._count += 1;
    if (this._problems.length < MOST_PROBLEMS) {
      this._problems.push({ path: '', text });
    }
    return false;
  }

  /** The problems from number `first` on are of what lies under `key`; always false. */
  under(key: string | number, first: number): false {
    const head = typeof key === 'number' ? `[${key}]` : key;
    for (const problem of this._problems.slice(first)) {
      const { path } = problem;
      const dot = path === '' || path.startsWith('[') ? '' : '.';
      problem.path = `${head}${dot}${path}`;
    }
    return false;
  }

  /** All problems as lines. */
  listed(): string[] {
    const lines = this._problems.map(({ path, text }) => (path === '' ? text : `${path}: ${text}`));
    const more = this._count - lines.length;
    return more > 0 ? [...lines, `and ${more} more`] : lines;
  }
}

/** A value is not what its declaration says. */
export class ShapeError extends Error {
  constructor(
    what: string,
    readonly problems: readonly string[]
  ) {
    super(`${what}: ${problems.join('; ')}`);
  }
}

/** `value`, when it is of the shape; else throws a ShapeError that begins with `what`. */
export function read<T>(shape: Shape<T>, value: unknown, what: string): T {
  const trail = new Trail();
  if (shape(value, trail)) {
    return value;
  }
  throw new ShapeError(what, trail.listed());
}

/** Whether `value` is of a shape, where nobody asks what is wrong with it. */
export function fits<T>(shape: Shape<T>, value: unknown): value is T {
  return shape(value, new Trail());
}

/** What `value` is, in a few words. */
export function kindOf(value: unknown): string {
  if (value === null || value === undefined) {
    return value === null ? 'null' : 'nothing';
  }
  if (Array.isArray(value)) {
    return 'a list';
  }
  if (typeof value === 'string') {
    return `text ${JSON.stringify(value.slice(0, 24))}`;
  }
  return typeof value === 'number' ? String(value) : `a${typeof value === 'object' ? 'n' : ''} ${typeof value}`;
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// --- single values ---------------------------------------------------------------------------

export const isAnything: Shape<unknown> = (_value): _value is unknown => true;

export const isNull: Shape<null> = (value, trail): value is null =>
  value === null || trail.fail('null', value);

/** A function; of JSON there is none, but of what stands in a page. */
export const isFunction: Shape<(...args: unknown[]) => unknown> = (
  value,
  trail
): value is (...args: unknown[]) => unknown => typeof value === 'function' || trail.fail('a function', value);

export const isText: Shape<string> = (value, trail): value is string =>
  typeof value === 'string' || trail.fail('text', value);

export const isFlag: Shape<boolean> = (value, trail): value is boolean =>
  typeof value === 'boolean' || trail.fail('true or false', value);

export const isNumber: Shape<number> = (value, trail): value is number =>
  (typeof value === 'number' && Number.isFinite(value)) || trail.fail('a finite number', value);

export const isWhole: Shape<number> = (value, trail): value is number =>
  (typeof value === 'number' && Number.isInteger(value)) || trail.fail('a whole number', value);

/** One of these words or numbers. */
export function oneOf<const T extends string | number>(...known: readonly T[]): Shape<T> {
  return (value, trail): value is T =>
    known.some(word => word === value) ||
    trail.fail(known.map(word => JSON.stringify(word)).join(' or '), value);
}

// --- values that hold others -----------------------------------------------------------------

/** A field of a record that may be missing. */
export interface IOptional<T> {
  readonly optional: Shape<T>;
}

export function optional<T>(shape: Shape<T>): IOptional<T> {
  return { optional: shape };
}

/** The shape of each field of a record, by its name. */
export type Fields = Readonly<Record<string, Shape<unknown> | IOptional<unknown>>>;

type Missable<F> = { [K in keyof F]: F[K] extends IOptional<unknown> ? K : never }[keyof F];

/** The record that has these fields. */
export type Recorded<F> = { [K in keyof Omit<F, Missable<F>>]: Told<F[K]> } & {
  [K in keyof Pick<F, Missable<F>>]?: F[K] extends IOptional<infer T> ? T : never;
};

/** The shape of a record; its fields may be those of another record too. */
export interface IRecordShape<F> extends Shape<Recorded<F>> {
  readonly fields: F;
}

export function record<F extends Fields>(fields: F): IRecordShape<F> {
  const known = Object.entries<Shape<unknown> | IOptional<unknown>>(fields);
  const check = (value: unknown, trail: Trail): value is Recorded<F> => {
    if (!isObject(value)) {
      return trail.fail('an object', value);
    }
    let isGood = true;
    for (const [name, field] of known) {
      const inner = value[name];
      const before = trail.length;
      const isNeeded = typeof field === 'function';
      const shape = isNeeded ? field : field.optional;
      if (inner === undefined ? isNeeded : !shape(inner, trail)) {
        if (inner === undefined) {
          trail.note('it is missing');
        }
        isGood = trail.under(name, before);
      }
    }
    return isGood;
  };
  return Object.assign(check, { fields });
}

export function list<T>(item: Shape<T>): Shape<T[]> {
  return (value, trail): value is T[] => {
    if (!Array.isArray(value)) {
      return trail.fail('a list', value);
    }
    let isGood = true;
    for (let n = 0; n < value.length; n += 1) {
      const before = trail.length;
      if (!item(value[n], trail)) {
        isGood = trail.under(n, before);
      }
    }
    return isGood;
  };
}

/** A list with one shape for each of its places. */
export function tuple<T extends readonly unknown[]>(
  ...shapes: { readonly [K in keyof T]: Shape<T[K]> }
): Shape<T> {
  return (value, trail): value is T => {
    if (!Array.isArray(value) || value.length !== shapes.length) {
      return trail.fail(`a list of ${shapes.length}`, value);
    }
    let isGood = true;
    shapes.forEach((shape, n) => {
      const before = trail.length;
      if (!shape(value[n], trail)) {
        isGood = trail.under(n, before);
      }
    });
    return isGood;
  };
}

/** An object with any names as keys. */
export function table<T>(item: Shape<T>): Shape<Record<string, T>> {
  return (value, trail): value is Record<string, T> => {
    if (!isObject(value)) {
      return trail.fail('an object', value);
    }
    let isGood = true;
    for (const [key, inner] of Object.entries(value)) {
      const before = trail.length;
      if (!item(inner, trail)) {
        isGood = trail.under(key, before);
      }
    }
    return isGood;
  };
}

export function orNull<T>(shape: Shape<T>): Shape<T | null> {
  return (value, trail): value is T | null => value === null || shape(value, trail);
}

type Kind = keyof typeof KIND_WORDS;

const KIND_WORDS = {
  null: 'null',
  text: 'text',
  number: 'a number',
  flag: 'true or false',
  list: 'a list',
  object: 'an object'
} as const;

function kindName(value: unknown): Kind | undefined {
  if (value === null) {
    return 'null';
  }
  if (Array.isArray(value)) {
    return 'list';
  }
  switch (typeof value) {
    case 'string':
      return 'text';
    case 'number':
      return 'number';
    case 'boolean':
      return 'flag';
    case 'object':
      return 'object';
    default:
      return undefined;
  }
}

/** A value of one of several types, of which each is of another kind. */
export function anyOf<S extends { readonly [K in Kind]?: Shape<unknown> }>(
  kinds: S
): Shape<Told<S[keyof S]>> {
  const words: string[] = [];
  for (const [kind, word] of Object.entries(KIND_WORDS)) {
    if (kind in kinds) {
      words.push(word);
    }
  }
  const expected = words.join(' or ');
  return (value, trail): value is Told<S[keyof S]> => {
    const kind = kindName(value);
    const shape = kind === undefined ? undefined : kinds[kind];
    return shape === undefined ? trail.fail(expected, value) : shape(value, trail);
  };
}

/** One of several records, which the word in the field `tag` tells apart. */
export function tagged<S extends Readonly<Record<string, Shape<unknown>>>>(
  tag: string,
  shapes: S
): Shape<Told<S[keyof S]>> {
  const known = new Map(Object.entries(shapes));
  const expected = [...known.keys()].map(word => JSON.stringify(word)).join(' or ');
  return (value, trail): value is Told<S[keyof S]> => {
    if (!isObject(value)) {
      return trail.fail('an object', value);
    }
    const word = value[tag];
    const shape = typeof word === 'string' ? known.get(word) : undefined;
    if (shape !== undefined) {
      return shape(value, trail);
    }
    const before = trail.length;
    trail.fail(expected, word);
    return trail.under(tag, before);
  };
}
