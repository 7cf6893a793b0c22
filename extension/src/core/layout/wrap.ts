/**
 * Wraps a layout that is much taller than its window into columns, as a newspaper does: long chains
 * fill the window in a readable size instead of a hairline in the middle of it.
 *
 * Columns break between layers where few edges pass. Those go down below the column, up beside it in
 * the gutter, and into the next column from above.
 */

import type { IColumns } from '../model/scene';
import type { IProper } from './proper';
import { at } from '../narrow';
import { num } from '../num';

/** The window that a layout is meant for, in CSS pixels. */
export interface IRoom {
  w: number;
  h: number;
}

/** Its `of` is of layers. */
export interface IWrap extends IColumns {
  width: number;
  height: number;
  /** What passes the end of a column: below the layer, up at `x`, and down from above. */
  around(layer: number, from: number): { below: number; x: number; above: number };
}

/** The places of the layers before they are wrapped. */
export interface ILayers {
  top: Float64Array;
  tall: Float64Array;
  stub: Float64Array;
  height: number;
  cx: Float64Array;
}

/** Room beside, above and below a column, and between the lines in it. */
const MARGIN = 16;
const LANE = 9;

/** Columns stay as they are when they would make things larger by less than this. */
const LEAST_GAIN = 1.2;

/** Nor does a column more, for less than this. */
const MORE_GAIN = 1.04;

/** Of the height of a column, how much may be given away for a break that few edges pass. */
const SLACK = 0.3;

/** Finer steps than this between numbers of columns change little. */
const STEP = 1.12;

/**
 * The columns of a layout; null where one is best. `enough` is the zoom in which one column need not
 * be broken; `fixed` is what an earlier layout decided.
 */
export function wrap(
  proper: IProper,
  layers: ILayers,
  room: IRoom,
  enough: number,
  fixed: IKept | null
): IWrap | null {
  const n = layers.top.length;
  const spans = spansOf(proper, layers, n);
  if (fixed !== null) {
    return num(fixed.of[n - 1]) === 0 ? null : place(proper, layers, spans, fixed.of, fixed.dx);
  }
  const zoom = (w: number, h: number): number => Math.min(1, room.w / w, room.h / h);
  const single = zoom(spans.width, layers.height);
  if (single >= enough || n < 4) {
    return null;
  }
  let best: IWrap | null = null;
  let bestZoom = single * LEAST_GAIN;
  for (let count = 2; count <= n / 2; count = Math.max(count + 1, Math.floor(count * STEP))) {
    const made = place(proper, layers, spans, breaks(layers, spans.passing, count));
    const reached = zoom(made.width, made.height);
    if (reached > bestZoom) {
      best = made;
      bestZoom = reached * MORE_GAIN;
    } else if (made.width / room.w > (2 * made.height) / room.h) {
      break;
    }
  }
  return best;
}

interface ISpans {
  left: Float64Array;
  right: Float64Array;
  /** How many lines pass from a layer to the next. */
  passing: Int32Array;
  /** Of the widest extent over all layers. */
  width: number;
}

function spansOf(proper: IProper, layers: ILayers, n: number): ISpans {
  const left = new Float64Array(n).fill(Number.POSITIVE_INFINITY);
  const right = new Float64Array(n).fill(Number.NEGATIVE_INFINITY);
  let least = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  for (let v = 0; v < proper.n; v += 1) {
    const l = num(proper.layer[v]);
    const half = num(proper.width[v]) / 2;
    const x = num(layers.cx[v]);
    left[l] = Math.min(num(left[l]), x - half);
    right[l] = Math.max(num(right[l]), x + half);
    least = Math.min(least, x - half);
    most = Math.max(most, x + half);
  }
  const passing = new Int32Array(n);
  const seen = new Set<number>();
  for (const u of proper.a) {
    if (!seen.has(u)) {
      seen.add(u);
      const l = num(proper.layer[u]);
      passing[l] = num(passing[l]) + 1;
    }
  }
  return { left, right, passing, width: most - least };
}

/** The column of every layer, for about `count` columns of about the same height. */
function breaks({ top, tall, height }: ILayers, passing: Int32Array, count: number): Int32Array {
  const n = top.length;
  const column = new Int32Array(n);
  const target = height / count;
  let first = 0;
  let current = 0;
  while (first < n) {
    const start = num(top[first]);
    let end = n - 1;
    if (height - start > target * 1.02) {
      let fewest = Number.POSITIVE_INFINITY;
      end = first;
      for (let l = first; l + 1 < n; l += 1) {
        const reached = num(top[l]) + num(tall[l]) - start;
        if (reached > target * 1.02) {
          break;
        }
        if (reached < target * (1 - SLACK)) {
          end = l;
        } else if (num(passing[l]) <= fewest) {
          fewest = num(passing[l]);
          end = l;
        }
      }
    }
    column.fill(current, first, end + 1);
    first = end + 1;
    current += 1;
  }
  return column;
}

function place(
  proper: IProper,
  layers: ILayers,
  spans: ISpans,
  of: Int32Array,
  before: Float64Array | null = null
): IWrap {
  const { top, tall, stub } = layers;
  const n = top.length;
  const count = num(of[n - 1]) + 1;
  const left = new Float64Array(count).fill(Number.POSITIVE_INFINITY);
  const right = new Float64Array(count).fill(Number.NEGATIVE_INFINITY);
  const first = new Int32Array(count).fill(-1);
  const last = new Int32Array(count);
  for (let l = 0; l < n; l += 1) {
    const c = num(of[l]);
    left[c] = Math.min(num(left[c]), num(spans.left[l]));
    right[c] = Math.max(num(right[c]), num(spans.right[l]));
    first[c] = num(first[c]) < 0 ? l : num(first[c]);
    last[c] = l;
  }
  const ends = new Map<number, number>();
  last.subarray(0, count - 1).forEach((l, c) => ends.set(l, c));
  const lanes = lanesOf(proper, layers.cx, ends);
  const most = Math.max(0, ...lanes.map(lane => lane.size));
  const above = MARGIN + LANE * most;
  const dx = new Float64Array(count);
  const dy = new Float64Array(count);
  const gutter = new Float64Array(count);
  // A column that was there stays where it was, as far as what is to the left of it leaves room.
  const kept = before?.length === count ? before : null;
  const start = kept === null ? 0 : num(kept[0]) + num(left[0]);
  let x = start;
  let height = 0;
  for (let c = 0; c < count; c += 1) {
    x = kept === null ? x : Math.max(x, num(kept[c]) + num(left[c]));
    dx[c] = x - start - num(left[c]);
    dy[c] = above - num(top[num(first[c])]);
    x += num(right[c]) - num(left[c]);
    gutter[c] = x - start + MARGIN;
    const end = num(last[c]);
    const under = c + 1 < count ? num(stub[end]) + MARGIN + LANE * at(lanes, c).size : 0;
    height = Math.max(height, num(top[end]) + num(tall[end]) + num(dy[c]) + under);
    if (c + 1 < count) {
      x += 2 * MARGIN + LANE * (at(lanes, c).size - 1);
    }
  }
  return {
    of,
    dx,
    dy,
    width: x - start,
    height,
    around: (l, from) => {
      const c = num(of[l]);
      const lane = LANE * (lanes[c]?.get(from) ?? 0);
      return {
        below: num(top[l]) + num(tall[l]) + num(stub[l]) + num(dy[c]) + MARGIN / 2 + lane,
        x: num(gutter[c]) + lane,
        above: above - MARGIN / 2 - lane
      };
    }
  };
}

/** For every column, the lane of each node that something below the column reads. */
function lanesOf(
  proper: IProper,
  cx: Float64Array,
  ends: ReadonlyMap<number, number>
): Map<number, number>[] {
  const passing: Set<number>[] = Array.from({ length: ends.size }, () => new Set<number>());
  for (const u of proper.a) {
    const column = ends.get(num(proper.layer[u]));
    if (column !== undefined) {
      at(passing, column).add(u);
    }
  }
  // From right to left, so that lines nest instead of crossing each other.
  return passing.map(
    nodes =>
      new Map([...nodes].sort((u, v) => num(cx[v]) - num(cx[u])).map((node, lane) => [node, lane]))
  );
}

/** What an earlier layout says: the column of every layer, and how far each column was moved. */
export interface IKept {
  of: Int32Array;
  dx: Float64Array | null;
}

/** The column of every layer after an earlier layout: layers stay in it, and new ones join them. */
export function keptColumns(
  layer: Int32Array,
  nLayers: number,
  column: Int32Array,
  dx: Float64Array | null
): IKept {
  const kept = new Int32Array(nLayers).fill(-1);
  column.forEach((c, v) => {
    const l = num(layer[v]);
    if (c >= 0 && (num(kept[l]) < 0 || c < num(kept[l]))) {
      kept[l] = c;
    }
  });
  let last = 0;
  let offset = 0;
  kept.forEach((c, l) => {
    if (c > last) {
      // A column of which nothing is left closes up.
      offset += c - last - 1;
      last = c;
    }
    kept[l] = last - offset;
  });
  return { of: kept, dx };
}
