/** Width of text in the interface font, remembered: graphs repeat the same few hundred strings. */

import { roughMeasure, type Measure } from '../model/metrics';

/** A measure for `font`; without a canvas (tests) widths are estimated. */
export function makeMeasure(font: string): Measure {
  let ctx: CanvasRenderingContext2D | null = null;
  try {
    ctx = document.createElement('canvas').getContext('2d');
  } catch {
    ctx = null;
  }
  if (ctx === null || typeof ctx.measureText !== 'function') {
    return roughMeasure;
  }
  const context = ctx;
  const widths = new Map<string, number>();
  return (text, px, isBold = false) => {
    const key = `${px}${isBold ? 'b' : ' '}${text}`;
    let width = widths.get(key);
    if (width === undefined) {
      context.font = `${isBold ? 600 : 400} ${px}px ${font}`;
      width = context.measureText(text).width;
      widths.set(key, width);
    }
    return width;
  };
}
