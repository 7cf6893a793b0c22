/**
 * What is drawn of a lane: slices that are at least a pixel wide as they are, and the others merged to
 * one mark a pixel, so that a frame costs as many steps as there are pixels, not slices.
 */

import type { Lane } from './lanes';
import type { ISpan } from './window';
import { num } from '../../num';

/** Strengths of merged marks: how much of the pixel is busy. */
export const COVERAGE_STEPS = 4;
/** The strength of a slice that is not merged. */
export const WHOLE = COVERAGE_STEPS + 1;

/** Rectangles to draw, as columns that are used again by the next frame. */
export class Marks {
  n = 0;
  x = new Float32Array(1024);
  w = new Float32Array(1024);
  y = new Float32Array(1024);
  /** Slice in the timeline; of a merged mark the longest. */
  slice = new Int32Array(1024);
  style = new Uint8Array(1024);
  /** `WHOLE`, or, of a merged mark, 1 to `COVERAGE_STEPS`. */
  cover = new Uint8Array(1024);

  clear(): void {
    this.n = 0;
  }

  add(x: number, w: number, y: number, slice: number, style: number, cover: number): void {
    if (this.n === this.x.length) {
      this._grow();
    }
    const { n } = this;
    this.x[n] = x;
    this.w[n] = w;
    this.y[n] = y;
    this.slice[n] = slice;
    this.style[n] = style;
    this.cover[n] = cover;
    this.n = n + 1;
  }

  private _grow(): void {
    const grown = <A extends Float32Array | Int32Array | Uint8Array>(old: A, next: A): A => {
      next.set(old);
      return next;
    };
    const size = this.x.length * 2;
    this.x = grown(this.x, new Float32Array(size));
    this.w = grown(this.w, new Float32Array(size));
    this.y = grown(this.y, new Float32Array(size));
    this.slice = grown(this.slice, new Int32Array(size));
    this.style = grown(this.style, new Uint8Array(size));
    this.cover = grown(this.cover, new Uint8Array(size));
  }
}

/** Style of a slice of the timeline: an index into the colours. */
export type StyleOf = (slice: number) => number;

/**
 * Adds the marks of `lane` in the window, at height `y`, to `out`. Coordinates are pixels from the left
 * edge of the window, which is `width` wide.
 */
export function markLane(
  lane: Lane,
  window: ISpan,
  width: number,
  y: number,
  styleOf: StyleOf,
  out: Marks
): void {
  const { starts, ends, slices, length } = lane;
  const { from, to } = window;
  const scale = width / (to - from);
  const pixel = 1 / scale;
  const firstMark = out.n;
  let i = lane.after(from);
  while (i < length && num(starts[i]) < to) {
    const left = (num(starts[i]) - from) * scale;
    const right = (num(ends[i]) - from) * scale;
    if (right - left >= 1) {
      const slice = num(slices[i]);
      // Far outside of the window coordinates lose their last digits.
      const x = Math.max(left, -8);
      out.add(x, Math.min(right, width + 8) - x, y, slice, styleOf(slice), WHOLE);
      i += 1;
      continue;
    }
    const column = Math.max(0, Math.floor(left));
    const border = from + (column + 1) * pixel;
    let end = Math.max(i + 1, lane.after(border, i));
    // One over the border is drawn where it begins, or the next pixel would have a second mark.
    const begin = starts[end] ?? border;
    if (begin < border && num(ends[end]) - begin < pixel) {
      end += 1;
    }
    const slice = num(slices[lane.longest(i, end)]);
    const part = Math.min(1, lane.sum(i, end) / pixel);
    const cover = Math.max(1, Math.ceil(part * COVERAGE_STEPS - 0.01));
    const style = styleOf(slice);
    const last = out.n - 1;
    const joins =
      last >= firstMark &&
      out.style[last] === style &&
      out.cover[last] === cover &&
      num(out.x[last]) + num(out.w[last]) === column;
    if (joins) {
      out.w[last] = num(out.w[last]) + 1;
    } else {
      out.add(column, 1, y, slice, style, cover);
    }
    i = end;
  }
}
