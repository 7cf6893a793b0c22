/** The colours of a picture of numbers: one hue below zero, one above, the background's at zero. */

import { divergingColor, type Rgb } from '../render/color';
import { at } from '../narrow';

/** Steps on either side of zero. */
export const SIDE = 127;

/** The colours from the least number, at 0, over zero, at `SIDE`, to the greatest. */
export function divergingRamp(isDark: boolean): Rgb[] {
  return Array.from({ length: 2 * SIDE + 1 }, (_, n) => {
    const part = (n - SIDE) / SIDE;
    // Faint numbers must still be told from zero.
    return divergingColor(Math.sign(part) * Math.sqrt(Math.abs(part)), isDark);
  });
}

/** The step of a number where `most` is the greatest distance from zero; -1 for NaN. */
export function stepOf(value: number, most: number): number {
  if (Number.isNaN(value)) {
    return -1;
  }
  if (most === 0 || value === 0) {
    return value === 0 ? SIDE : value > 0 ? 2 * SIDE : 0;
  }
  return SIDE + Math.round(Math.max(-1, Math.min(1, value / most)) * SIDE);
}

/** The pixels of numbers, four bytes each; NaN has the colour `none`. */
export function pixelsOf(
  values: ArrayLike<number>,
  most: number,
  ramp: readonly Rgb[],
  none: Rgb
): Uint8ClampedArray {
  const pixels = new Uint8ClampedArray(values.length * 4);
  for (let n = 0; n < values.length; n += 1) {
    const step = stepOf(at2(values, n), most);
    const [r, g, b] = step < 0 ? none : at(ramp, step);
    pixels.set([r, g, b, 255], 4 * n);
  }
  return pixels;
}

function at2(values: ArrayLike<number>, n: number): number {
  return values[n] ?? NaN;
}
