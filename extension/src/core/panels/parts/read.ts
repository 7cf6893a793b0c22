/**
 * Reads answers of the kernel, which are untrusted: saved notebooks carry them too. What is missing
 * or of another type becomes a default, so that a panel shows what is there instead of failing.
 */

export type Json = Readonly<Record<string, unknown>>;

export function object(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The objects of a list; anything else in it is left out. */
export function objects(value: unknown): Json[] {
  return list(value).filter(
    (item): item is Json => typeof item === 'object' && item !== null && !Array.isArray(item)
  );
}

export function number(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

/** A size or a count: never negative. */
export function size(value: unknown): number {
  return Math.max(0, number(value) ?? 0);
}

export function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

export function texts(value: unknown): string[] {
  return list(value).filter((item): item is string => typeof item === 'string');
}

/** The answer as an object of the one version that these panels read; throws a sentence to show. */
export function answer(value: unknown, what: string): Json {
  const data = object(value);
  if (data.version !== 1) {
    const found = data.version === undefined ? 'no version' : `version ${String(data.version)}`;
    throw new Error(
      `The answer to “${what}” has ${found}; this page reads version 1. ` +
        'Reload the page: it is of another version than the kernel.'
    );
  }
  return data;
}
