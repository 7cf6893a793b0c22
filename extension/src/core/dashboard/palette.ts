/** Colours of series and marks, told apart by hue and by lightness, in both themes. */

import { css, oklch } from '../render/color';
import { at } from '../narrow';

const HUES = [255, 55, 155, 320, 195, 95, 25, 285];
const KINDS: Record<string, number> = {
  cell: 255,
  run: 155,
  load: 75,
  compile: 40,
  phase: 105,
  kernel: 195,
  profile: 320,
  op: 285
};

/** Colour number `n` of a series. */
export function seriesColor(n: number, isDark: boolean, alpha = 1): string {
  const hue = at(HUES, n % HUES.length);
  // Past the eighth the hues come again, lighter or darker.
  const shift = Math.floor(n / HUES.length) * 0.1;
  return css(isDark ? oklch(0.76 - shift, 0.13, hue) : oklch(0.55 + shift, 0.15, hue), alpha);
}

/** Colour of a mark of this kind. */
export function markColor(kind: string, isDark: boolean, alpha = 1): string {
  const hue = KINDS[kind] ?? 255;
  return css(isDark ? oklch(0.72, 0.11, hue) : oklch(0.53, 0.13, hue), alpha);
}

export const DASHES: readonly (number[] | undefined)[] = [undefined, [6, 4], [2, 3], [8, 3, 2, 3]];
