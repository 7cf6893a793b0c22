/**
 * Reads of numbers from arrays whose index is known to be inside. The layout and the painters read
 * millions of them, where `at` of `narrow.ts`, which checks, would cost more than the read itself.
 */

/** The number that was read; `values[i]` has to be inside of `values`. Bundles hold no call of this. */
export function num(value: number | undefined): number {
  // The one place of the page where a promise is taken unchecked; eslint.config.mjs lists who may ask.
  return value!;
}
