/** Histogram and picture of a value: where everything goes, and the drawing of it. */

import type { ITheme } from '../../render/theme';
import type { IValueHistogram } from '../../../proto/checks';
import type { IImage } from './answers';
import { short } from './answers';

const LABEL = 14;

export interface IBin {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The bars of a histogram in a box; a bin that is not empty is never thinner than a pixel. */
export function binsOf(histogram: IValueHistogram, width: number, height: number): IBin[] {
  const most = Math.max(1, ...histogram.counts);
  const room = Math.max(1, height - LABEL - 2);
  const step = width / histogram.counts.length;
  return histogram.counts.map((count, i) => {
    const tall = count === 0 ? 0 : Math.max(1, (count / most) * room);
    return { x: i * step, y: room - tall, width: Math.max(1, step - 1), height: tall };
  });
}

/** Where 0 stands in the box of a histogram; null when it is outside. */
export function zeroAt({ edges }: IValueHistogram, width: number): number | null {
  const low = edges[0] ?? 0;
  const high = edges[edges.length - 1] ?? 0;
  return low < 0 && high > 0 ? (-low / (high - low)) * width : null;
}

export function paintHistogram(
  ctx: CanvasRenderingContext2D,
  histogram: IValueHistogram,
  width: number,
  height: number,
  theme: ITheme
): void {
  const zero = zeroAt(histogram, width);
  ctx.fillStyle = theme.accent;
  for (const bin of binsOf(histogram, width, height)) {
    ctx.fillRect(bin.x, bin.y, bin.width, bin.height);
  }
  ctx.fillStyle = theme.line;
  ctx.fillRect(0, height - LABEL - 2, width, 1);
  ctx.fillStyle = theme.muted;
  ctx.font = `11px ${theme.fontUi}`;
  ctx.textBaseline = 'bottom';
  ctx.textAlign = 'left';
  ctx.fillText(short(histogram.edges[0] ?? 0), 0, height);
  ctx.textAlign = 'right';
  ctx.fillText(short(histogram.edges[histogram.edges.length - 1] ?? 0), width, height);
  if (zero !== null) {
    ctx.fillRect(zero, 0, 1, height - LABEL);
    if (zero > 50 && zero < width - 50) {
      ctx.textAlign = 'center';
      ctx.fillText('0', zero, height);
    }
  }
}

export interface IGrid {
  x: number;
  y: number;
  /** CSS pixels of one point. */
  cellWidth: number;
  cellHeight: number;
}

/** The picture's place in a box: as large as fits, points square unless it is much wider than high. */
export function gridOf(image: IImage, width: number, height: number): IGrid {
  const square = Math.min(width / image.columns, height / image.rows);
  // A vector is a line of points: let it be high enough to be seen.
  const cellHeight = image.rows === 1 ? Math.min(height, 24) : square;
  const cellWidth = image.rows === 1 ? width / image.columns : square;
  return { x: 0, y: 0, cellWidth, cellHeight };
}

/** The step of a ramp for a number between two; -1 for what is no number. */
export function rampStep(value: number, low: number, high: number, steps: number): number {
  if (Number.isNaN(value)) {
    return -1;
  }
  if (value === Infinity) {
    return steps - 1;
  }
  const part = high > low ? (value - low) / (high - low) : 0.5;
  return Math.max(0, Math.min(steps - 1, Math.floor(part * steps)));
}

export function paintImage(
  ctx: CanvasRenderingContext2D,
  image: IImage,
  width: number,
  height: number,
  theme: ITheme
): void {
  const grid = gridOf(image, width, height);
  const { ramp } = theme;
  let at = 0;
  for (let row = 0; row < image.rows; row++) {
    for (let column = 0; column < image.columns; column++, at++) {
      const step = rampStep(image.points[at] ?? NaN, image.low, image.high, ramp.length);
      ctx.fillStyle = step < 0 ? theme.error : (ramp[step] ?? theme.surface);
      // Half a pixel more, or lines of the background show between the points.
      ctx.fillRect(
        grid.x + column * grid.cellWidth,
        grid.y + row * grid.cellHeight,
        grid.cellWidth + 0.5,
        grid.cellHeight + 0.5
      );
    }
  }
}
