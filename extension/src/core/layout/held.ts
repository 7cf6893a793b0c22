/**
 * A container in which people put things: what has a place stands there, whatever it covers; the rest
 * stays where it was, or where the layers of a layout have it, unless that is covered; what is new finds
 * room near what it reads. Lines whose ends moved are drawn anew.
 *
 * All coordinates are those of the flow, from the origin of the container.
 */

import { at } from '../narrow';
import { num } from '../num';
import { Room, type IBlock } from './room';
import { route } from './route';

export interface IHeld {
  /** Whether what has no place stays where it was; otherwise the layers of a layout say where. */
  isKept: boolean;
  /** Of every child: its top left corner, where it has one of its own; NaN for what has none yet. */
  x: number[];
  y: number[];
  /** Of every child: 1 where people put it there. */
  placed: number[];
  /** Of every child: where it stands when it has no place; NaN for what is new. */
  autoX: number[];
  autoY: number[];
  /** Of every edge: its line as it was; null for one that is new, or where nothing was before. */
  paths: (number[] | null)[];
  /** Of every child: where it stood at that time; NaN for what is new. */
  wasX: number[];
  wasY: number[];
}

/** What is known of a container, its children laid out by themselves. */
export interface IUnheld {
  w: readonly number[];
  h: readonly number[];
  src: readonly number[];
  dst: readonly number[];
  /** Where an edge meets its ends, relative to their centres. */
  srcOff: ArrayLike<number>;
  dstOff: ArrayLike<number>;
  turn: readonly number[];
  nIn: number;
  nOut: number;
  nodeGap: number;
  layerGap: number;
}

export interface ISettled {
  x: Float64Array;
  y: Float64Array;
  autoX: Float64Array;
  autoY: Float64Array;
}

/** Half of what is left free around things that give way. */
const MARGIN = 6;

/** Where every child stands. `base` is the layout by layers; null where the picture before is kept. */
export function settle(
  graph: IUnheld,
  held: IHeld,
  base: { x: ArrayLike<number>; y: ArrayLike<number> } | null
): ISettled {
  const n = graph.w.length;
  const x = new Float64Array(n).fill(Number.NaN);
  const y = new Float64Array(n).fill(Number.NaN);
  const autoX = new Float64Array(n);
  const autoY = new Float64Array(n);
  const room = new Room();
  const block = (i: number): IBlock => ({ x: num(x[i]), y: num(y[i]), w: at(graph.w, i), h: at(graph.h, i) });
  const put = (i: number, px: number, py: number): void => {
    x[i] = px;
    y[i] = py;
    room.add(block(i));
  };
  const rest: number[] = [];
  const fresh: number[] = [];
  for (let i = 0; i < n; i += 1) {
    autoX[i] = base === null ? at(held.autoX, i) : num(base.x[i]);
    autoY[i] = base === null ? at(held.autoY, i) : num(base.y[i]);
    if (held.placed[i] === 1) {
      put(i, at(held.x, i), at(held.y, i));
    } else {
      (Number.isNaN(num(autoX[i])) ? fresh : rest).push(i);
    }
  }
  for (const i of rest) {
    const wanted = { x: num(autoX[i]), y: num(autoY[i]), w: at(graph.w, i), h: at(graph.h, i) };
    const spot = room.isFree(wanted) ? wanted : room.near({ ...wanted, gap: MARGIN });
    put(i, spot.x, spot.y);
  }
  // Inputs and operations come in the order of the graph: what they read stands by now.
  for (const i of fresh) {
    const spot = room.near({ ...wantedPlace(graph, i, x, y, room), gap: graph.nodeGap / 2 });
    put(i, spot.x, spot.y);
    autoX[i] = spot.x;
    autoY[i] = spot.y;
  }
  for (let i = 0; i < n; i += 1) {
    if (Number.isNaN(num(autoX[i]))) {
      autoX[i] = num(x[i]);
      autoY[i] = num(y[i]);
    }
  }
  return { x, y, autoX, autoY };
}

/** Where something new would best stand: below what it reads, above what reads it, or below all. */
function wantedPlace(
  { w, h, src, dst, srcOff, dstOff, turn, layerGap }: IUnheld,
  i: number,
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  room: Room
): IBlock {
  const own = { w: at(w, i), h: at(h, i) };
  const centre = (v: number): number => num(x[v]) + at(w, v) / 2;
  const above: number[] = [];
  const below: number[] = [];
  let bottom = Number.NEGATIVE_INFINITY;
  let top = Number.POSITIVE_INFINITY;
  for (let e = 0; e < src.length; e += 1) {
    const [s, t] = [at(src, e), at(dst, e)];
    if (turn[e] === 1 || s === t) {
      continue;
    }
    if (t === i && s < w.length && !Number.isNaN(num(x[s]))) {
      above.push(centre(s) + num(srcOff[e]) - num(dstOff[e]));
      bottom = Math.max(bottom, num(y[s]) + at(h, s));
    } else if (s === i && t < w.length && !Number.isNaN(num(x[t]))) {
      below.push(centre(t) + num(dstOff[e]) - num(srcOff[e]));
      top = Math.min(top, num(y[t]));
    }
  }
  const mean = (list: readonly number[]): number => list.reduce((sum, one) => sum + one, 0) / list.length;
  if (above.length > 0) {
    return { ...own, x: mean(above) - own.w / 2, y: bottom + layerGap };
  }
  if (below.length > 0) {
    return { ...own, x: mean(below) - own.w / 2, y: top - layerGap - own.h };
  }
  const { bounds } = room;
  return bounds === null
    ? { ...own, x: 0, y: 0 }
    : { ...own, x: bounds.x + bounds.w / 2 - own.w / 2, y: bounds.y + bounds.h + layerGap };
}

/** The line of every edge between children; null where an end is a port of the container. */
export function linesOf(
  { w, h, src, dst, srcOff, dstOff }: IUnheld,
  held: IHeld,
  { x, y }: ISettled,
  base: { x: ArrayLike<number>; y: ArrayLike<number>; paths: readonly ArrayLike<number>[] } | null
): (Float32Array | null)[] {
  const n = w.length;
  const wasX = base?.x ?? held.wasX;
  const wasY = base?.y ?? held.wasY;
  const shift = (i: number): { dx: number; dy: number } => ({
    dx: num(x[i]) - num(wasX[i]),
    dy: num(y[i]) - num(wasY[i])
  });
  return src.map((s, e) => {
    const t = at(dst, e);
    if (s >= n || t >= n) {
      return null;
    }
    const known = base === null ? (held.paths[e] ?? null) : (base.paths[e] ?? null);
    const [a, b] = [shift(s), shift(t)];
    // NaN, of what is new, is no shift that is the same.
    if (known !== null && Math.abs(a.dx - b.dx) < 0.01 && Math.abs(a.dy - b.dy) < 0.01) {
      return Float32Array.from(known, (value, k) => value + (k % 2 === 0 ? a.dx : a.dy));
    }
    const from = { x: num(x[s]), y: num(y[s]), w: at(w, s), h: at(h, s) };
    const to = { x: num(x[t]), y: num(y[t]), w: at(w, t), h: at(h, t) };
    return route(from, to, num(srcOff[e]), num(dstOff[e]));
  });
}
