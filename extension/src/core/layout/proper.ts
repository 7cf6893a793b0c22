/** The proper graph: long edges become chains of dummy nodes, one per layer they pass. */

import { groupBy, type IRanked } from './rank';
import { num } from '../num';

export interface IProper {
  /** Real nodes first, then dummies. */
  n: number;
  nReal: number;
  layer: Int32Array;
  width: Float64Array;
  /** Segments between neighbouring layers. */
  a: Int32Array;
  b: Int32Array;
  /** Where a segment meets its ends, relative to their centres. */
  aOff: Float64Array;
  bOff: Float64Array;
  /** The same for straightness: zero where centres rather than ports should lie in one column. */
  aAlign: Float64Array;
  bAlign: Float64Array;
  priority: Uint8Array;
  /** Segments of every edge, from the upper end to the lower; empty for edges drawn directly. */
  chains: Int32Array[];
}

/** Dummies beyond this are not made: the longest edges are then drawn directly. */
const MAX_DUMMIES = 60_000;

const DUMMY_WIDTH = 6;

/** Priorities decide who lies straight below whom: spines first, then long edges, then their ends. */
export const enum Priority {
  ChainEnd,
  Chain,
  Real,
  Spine
}

export function makeProper(
  ranked: IRanked,
  width: ArrayLike<number>,
  srcOff: ArrayLike<number>,
  dstOff: ArrayLike<number>
): IProper {
  const { from, to, layer, reversed } = ranked;
  const nReal = layer.length;
  const m = from.length;
  const longest = maxSpan(ranked);
  const layers: number[] = Array.from(layer);
  const widths: number[] = Array.from(width);
  const a: number[] = [];
  const b: number[] = [];
  const aOff: number[] = [];
  const bOff: number[] = [];
  const aAlign: number[] = [];
  const bAlign: number[] = [];
  const priority: number[] = [];
  const chains: Int32Array[] = new Array<Int32Array>(m);
  const segment = (u: number, v: number, uOff: number, vOff: number, p: Priority): number => {
    a.push(u);
    b.push(v);
    aOff.push(uOff);
    bOff.push(vOff);
    // Boxes whose edges enter and leave at different places would walk sideways if every edge between
    // them had to be straight; only what hangs on one edge follows the port.
    const byPort = u >= nReal || v >= nReal || degree[u] === 1 || degree[v] === 1;
    aAlign.push(byPort ? uOff : 0);
    bAlign.push(byPort ? vOff : 0);
    priority.push(p);
    return a.length - 1;
  };
  const degree = new Int32Array(nReal);
  for (let e = 0; e < m; e += 1) {
    degree[num(from[e])] = num(degree[num(from[e])]) + 1;
    degree[num(to[e])] = num(degree[num(to[e])]) + 1;
  }
  const spine = spines(ranked);
  // Edges that leave one point share their dummies, so that a fan-out is drawn as one trunk.
  const trunks = new Map<string, number[]>();
  const trunkSegments = new Map<string, number[]>();
  for (let e = 0; e < m; e += 1) {
    const u = num(from[e]);
    const v = num(to[e]);
    const back = reversed[e] === 1;
    const uOff = num(back ? dstOff[e] : srcOff[e]);
    const vOff = num(back ? srcOff[e] : dstOff[e]);
    const span = num(layer[v]) - num(layer[u]);
    if (span > longest) {
      chains[e] = new Int32Array(0);
      continue;
    }
    if (span === 1) {
      const p = spine[e] === 1 ? Priority.Spine : Priority.Real;
      chains[e] = Int32Array.of(segment(u, v, uOff, vOff, p));
      continue;
    }
    const key = `${u},${uOff}`;
    let trunk = trunks.get(key);
    let segments = trunkSegments.get(key);
    if (trunk === undefined || segments === undefined) {
      trunk = [];
      segments = [];
      trunks.set(key, trunk);
      trunkSegments.set(key, segments);
    }
    while (trunk.length < span - 1) {
      const dummy = layers.length;
      layers.push(num(layer[u]) + trunk.length + 1);
      widths.push(DUMMY_WIDTH);
      const last = trunk[trunk.length - 1];
      segments.push(
        last === undefined
          ? segment(u, dummy, uOff, 0, Priority.ChainEnd)
          : segment(last, dummy, 0, 0, Priority.Chain)
      );
      trunk.push(dummy);
    }
    const chain = new Int32Array(span);
    chain.set(segments.slice(0, span - 1));
    chain[span - 1] = segment(num(trunk[span - 2]), v, 0, vOff, Priority.ChainEnd);
    chains[e] = chain;
  }
  return {
    n: layers.length,
    nReal,
    layer: Int32Array.from(layers),
    width: Float64Array.from(widths),
    a: Int32Array.from(a),
    b: Int32Array.from(b),
    aOff: Float64Array.from(aOff),
    bOff: Float64Array.from(bOff),
    aAlign: Float64Array.from(aAlign),
    bAlign: Float64Array.from(bAlign),
    priority: Uint8Array.from(priority),
    chains
  };
}

/** The longest span that keeps the number of dummies within the cap. */
function maxSpan(ranked: IRanked): number {
  const { from, to, layer, nLayers } = ranked;
  const bySpan = new Float64Array(nLayers + 1);
  for (let e = 0; e < from.length; e += 1) {
    bySpan[num(layer[num(to[e])]) - num(layer[num(from[e])])] = num(bySpan[num(layer[num(to[e])]) - num(layer[num(from[e])])]) + 1;
  }
  let dummies = 0;
  for (let span = 2; span <= nLayers; span += 1) {
    dummies += num(bySpan[span]) * (span - 1);
    if (dummies > MAX_DUMMIES) {
      return span - 1;
    }
  }
  return nLayers;
}

/** Marks the edges that carry the long branch where a short one joins or leaves it. */
function spines(ranked: IRanked): Uint8Array {
  const { from, to, depth, height } = ranked;
  const n = depth.length;
  const mark = new Uint8Array(from.length);
  const lead = 2;
  const pick = (start: number, end: number, edges: Int32Array, rankOf: (e: number) => number): void => {
    if (end - start === 1) {
      return;
    }
    let best = -1;
    let second = -1;
    let winner = -1;
    for (let i = start; i < end; i += 1) {
      const e = num(edges[i]);
      const r = rankOf(e);
      if (r > best) {
        second = best;
        best = r;
        winner = e;
      } else if (r > second) {
        second = r;
      }
    }
    if (winner >= 0 && best >= second + lead) {
      mark[winner] = 1;
    }
  };
  const into = groupBy(n, to);
  const out = groupBy(n, from);
  for (let v = 0; v < n; v += 1) {
    pick(num(into.start[v]), num(into.start[v + 1]), into.edges, e => num(depth[num(from[e])]));
    pick(num(out.start[v]), num(out.start[v + 1]), out.edges, e => num(height[num(to[e])]));
  }
  return mark;
}
