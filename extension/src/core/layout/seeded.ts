/**
 * Horizontal coordinates for a graph that was laid out before and changed a little: what was there
 * keeps its place, and what is new takes the nearest free room of its layer.
 */

import { at } from '../narrow';
import { gapBetween, type IGaps } from './coords';
import type { IProper } from './proper';
import type { IColumns } from '../model/scene';
import { num } from '../num';

/** What an earlier layout says about the nodes and edges of a graph. */
export interface ISeed {
  /** Centre of every node; NaN for those that are new. */
  x: Float64Array;
  /** Layer of every node; -1 for those that are new. */
  layer: Int32Array;
  /** Middle of each of those layers, from top to bottom. */
  mid: Float64Array;
  /** Points of every edge; null for those that are new. */
  paths: readonly (Float32Array | null)[];
  /** Column of every node, -1 for those that are new; left out where there is one. */
  columns?: IColumns;
}

/** A layer that was not there before lies between two that were. */
interface IOrigin {
  layer: number;
  /** Height, in the earlier layout, at which edges passed what is this layer now. */
  y: number;
}

/** Centre x of every node of the proper graph; neighbours in a layer never overlap. */
export function seededX(
  proper: IProper,
  nLayers: number,
  seed: ISeed,
  gaps: IGaps
): Float64Array {
  const origins = originsOf(proper, nLayers, seed);
  const wanted = new Float64Array(proper.n).fill(Number.NaN);
  const stays = new Uint8Array(proper.n);
  for (let v = 0; v < proper.nReal; v += 1) {
    wanted[v] = num(seed.x[v]);
    stays[v] = num(seed.layer[v]) >= 0 && seed.layer[v] === at(origins, num(proper.layer[v])).layer ? 1 : 0;
  }
  proper.chains.forEach((chain, e) => {
    const points = seed.paths[e] ?? null;
    for (let i = 0; points !== null && i + 1 < chain.length; i += 1) {
      const dummy = num(proper.b[num(chain[i])]);
      const origin = at(origins, num(proper.layer[dummy]));
      if (stays[dummy] === 0) {
        wanted[dummy] = xAt(points, origin.y);
        stays[dummy] = origin.layer >= 0 ? 1 : 0;
      }
    }
  });
  followNeighbours(proper, wanted);
  const layers: number[][] = Array.from({ length: nLayers }, () => []);
  for (let v = 0; v < proper.n; v += 1) {
    at(layers, num(proper.layer[v])).push(v);
  }
  for (const nodes of layers) {
    settle(proper, gaps, nodes, wanted, stays);
  }
  return wanted;
}

/** Which earlier layer each layer is, told by what it has of it; in rising order. */
function originsOf(proper: IProper, nLayers: number, seed: ISeed): IOrigin[] {
  const votes: Map<number, number>[] = Array.from(
    { length: nLayers },
    () => new Map<number, number>()
  );
  for (let v = 0; v < proper.nReal; v += 1) {
    const layer = num(seed.layer[v]);
    if (layer >= 0) {
      const counts = at(votes, num(proper.layer[v]));
      counts.set(layer, (counts.get(layer) ?? 0) + 1);
    }
  }
  let last = -1;
  const layers = votes.map(counts => {
    let best = -1;
    let most = 0;
    for (const [layer, count] of counts) {
      if (layer > last && count > most) {
        best = layer;
        most = count;
      }
    }
    last = Math.max(last, best);
    return best;
  });
  const y = (layer: number): number => seed.mid[layer] ?? 0;
  let above = 0;
  return layers.map((layer, l) => {
    if (layer >= 0) {
      above = layer;
      return { layer, y: y(layer) };
    }
    const below = layers.slice(l).find(next => next >= 0) ?? above;
    return { layer, y: (y(above) + y(below)) / 2 };
  });
}

/** Where the line through `points` is at the height `y`; its nearer end when it does not reach it. */
export function xAt(points: Float32Array, y: number): number {
  const n = points.length;
  const isDown = num(points[1]) <= num(points[n - 1]);
  const first = isDown ? 0 : n - 2;
  const step = isDown ? 2 : -2;
  if (y <= num(points[first + 1])) {
    return num(points[first]);
  }
  for (let i = first + step; i >= 0 && i < n; i += step) {
    const y1 = num(points[i + 1]);
    if (y <= y1) {
      const x0 = num(points[i - step]);
      const y0 = num(points[i - step + 1]);
      return y1 - y0 < 0.01 ? num(points[i]) : x0 + ((num(points[i]) - x0) * (y - y0)) / (y1 - y0);
    }
  }
  return num(points[isDown ? n - 2 : 0]);
}

/** What has no place yet wants to stand below what it reads, or else above what reads it. */
function followNeighbours(proper: IProper, wanted: Float64Array): void {
  const { a, b, aOff, bOff, layer } = proper;
  const segments = Array.from(a.keys()).sort((s, t) => num(layer[num(a[s])]) - num(layer[num(a[t])]));
  const sum = new Float64Array(proper.n);
  const count = new Float64Array(proper.n);
  const pull = (from: number, to: number, offset: number): void => {
    if (Number.isNaN(num(wanted[to])) && !Number.isNaN(num(wanted[from]))) {
      sum[to] = num(sum[to]) + (num(wanted[from]) + offset);
      count[to] = num(count[to]) + 1;
    }
  };
  const take = (v: number): void => {
    if (Number.isNaN(num(wanted[v])) && num(count[v]) > 0) {
      wanted[v] = num(sum[v]) / num(count[v]);
    }
  };
  // Upper ends come in the order of their layers: all that is above one is known by then.
  for (const s of segments) {
    take(num(a[s]));
    pull(num(a[s]), num(b[s]), num(aOff[s]) - num(bOff[s]));
  }
  for (let v = 0; v < proper.n; v += 1) {
    take(v);
  }
  for (const s of segments.reverse()) {
    take(num(b[s]));
    pull(num(b[s]), num(a[s]), num(bOff[s]) - num(aOff[s]));
  }
  for (let v = 0; v < proper.n; v += 1) {
    take(v);
    if (Number.isNaN(num(wanted[v]))) {
      wanted[v] = 0;
    }
  }
}

/** Writes the final places of one layer into `x`. */
function settle(
  proper: IProper,
  gaps: IGaps,
  nodes: readonly number[],
  x: Float64Array,
  stays: Uint8Array
): void {
  const placed = nodes.filter(v => stays[v] === 1).sort((v, w) => num(x[v]) - num(x[w]));
  // A node may have grown: what stands to the right of it gives way.
  for (let i = 1; i < placed.length; i += 1) {
    const left = at(placed, i - 1);
    const v = at(placed, i);
    x[v] = Math.max(num(x[v]), num(x[left]) + gapBetween(proper, gaps, left, v));
  }
  for (const v of nodes) {
    if (stays[v] === 1) {
      continue;
    }
    let best = Number.NaN;
    let slot = 0;
    for (let i = 0; i <= placed.length; i += 1) {
      const left = placed[i - 1];
      const right = placed[i];
      const lo = left === undefined ? -Infinity : num(x[left]) + gapBetween(proper, gaps, left, v);
      const hi = right === undefined ? Infinity : num(x[right]) - gapBetween(proper, gaps, v, right);
      const near = Math.min(hi, Math.max(lo, num(x[v])));
      if (lo <= hi && !(Math.abs(near - num(x[v])) >= Math.abs(best - num(x[v])))) {
        best = near;
        slot = i;
      }
    }
    x[v] = best;
    placed.splice(slot, 0, v);
  }
}
