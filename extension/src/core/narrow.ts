/** Narrowing of values: what types cannot promise is checked here, and a broken promise is named. */

export { fits } from '../proto/shape';

/** The entry of `list` at `index`; throws a RangeError when there is none. */
export function at<T>(list: readonly T[], index: number): T {
  const entry = list[index];
  if (entry === undefined) {
    throw new RangeError(`there is no entry ${index} in a list of ${list.length}`);
  }
  return entry;
}

/** `value`, of which `what` says what it is; throws an Error when it is missing. */
export function present<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) {
    throw new Error(`${what} is missing`);
  }
  return value;
}

/** The keys of a literal table, in the order they were written. */
export function keysOf<T extends object>(table: T): Extract<keyof T, string>[] {
  const keys: Extract<keyof T, string>[] = [];
  for (const key in table) {
    keys.push(key);
  }
  return keys;
}

/** A table with the same keys, each with what `make` returns for it. */
export function mapTable<K extends string, A, B>(
  table: Readonly<Record<K, A>>,
  make: (key: K) => B
): Record<K, B>;
export function mapTable(
  table: Readonly<Record<string, unknown>>,
  make: (key: string) => unknown
): Record<string, unknown> {
  return Object.fromEntries(Object.keys(table).map(key => [key, make(key)]));
}

/** What an error says; anything else that was thrown is turned into text. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
