/** Order of nodes within each layer: barycentre sweeps and swaps, keeping the fewest crossings. */

import type { IProper } from './proper';
import { groupBy, type IAdjacency } from './rank';
import { num } from '../num';
import { at } from '../narrow';

export interface IOrder {
  layers: Int32Array[];
  pos: Int32Array;
  /** Segments above and below every node. */
  up: IAdjacency;
  down: IAdjacency;
  crossings: number;
}

const MAX_SWEEPS = 16;
/** Sweeps without gain before giving up. */
const PATIENCE = 4;

/** Orders the layers; stops refining when `now() > deadline` (milliseconds). */
export function orderLayers(
  proper: IProper,
  nLayers: number,
  deadline: number,
  now: () => number
): IOrder {
  const { n, a, b } = proper;
  const down = groupBy(n, a);
  const up = groupBy(n, b);
  const pos = new Int32Array(n);
  const layers = initialOrder(proper, nLayers, down, up, pos);
  let best = countCrossings(proper, layers, pos, down);
  let bestLayers = layers.map(l => l.slice());
  let stale = 0;
  for (let sweep = 0; sweep < MAX_SWEEPS && best > 0 && stale < PATIENCE; sweep += 1) {
    const isDown = sweep % 2 === 0;
    for (let i = 1; i < nLayers; i += 1) {
      const l = isDown ? i : nLayers - 1 - i;
      sortLayer(proper, at(layers, l), pos, isDown ? up : down, isDown);
    }
    transpose(proper, layers, pos, up, down);
    const crossings = countCrossings(proper, layers, pos, down);
    if (crossings < best) {
      best = crossings;
      bestLayers = layers.map(l => l.slice());
      stale = 0;
    } else {
      stale += 1;
    }
    if (now() > deadline) {
      break;
    }
  }
  for (const nodes of bestLayers) {
    nodes.forEach((v, i) => {
      pos[v] = i;
    });
  }
  return { layers: bestLayers, pos, up, down, crossings: best };
}

/** Order of a depth-first walk: what belongs together starts together. */
function initialOrder(
  proper: IProper,
  nLayers: number,
  down: IAdjacency,
  up: IAdjacency,
  pos: Int32Array
): Int32Array[] {
  const { n, layer, b } = proper;
  const lists: number[][] = Array.from({ length: nLayers }, () => []);
  const seen = new Uint8Array(n);
  const stack: number[] = [];
  for (let root = 0; root < n; root += 1) {
    if (seen[root] === 1 || num(up.start[root + 1]) > num(up.start[root])) {
      continue;
    }
    stack.push(root);
    seen[root] = 1;
    for (let v = stack.pop(); v !== undefined; v = stack.pop()) {
      const list = at(lists, num(layer[v]));
      pos[v] = list.length;
      list.push(v);
      for (let i = num(down.start[v + 1]) - 1; i >= num(down.start[v]); i -= 1) {
        const w = num(b[num(down.edges[i])]);
        if (seen[w] === 0) {
          seen[w] = 1;
          stack.push(w);
        }
      }
    }
  }
  return lists.map(list => Int32Array.from(list));
}

/** Sorts one layer by the mean position of its neighbours; nodes without any keep their place. */
function sortLayer(
  proper: IProper,
  nodes: Int32Array,
  pos: Int32Array,
  adjacency: IAdjacency,
  isUp: boolean
): void {
  if (nodes.length < 2) {
    return;
  }
  const { a, b, aOff, bOff, width } = proper;
  const keys = new Float64Array(nodes.length);
  const fixed: boolean[] = [];
  const order: number[] = [];
  nodes.forEach((v, i) => {
    let sum = 0;
    const start = num(adjacency.start[v]);
    const end = num(adjacency.start[v + 1]);
    for (let k = start; k < end; k += 1) {
      const s = num(adjacency.edges[k]);
      const u = isUp ? num(a[s]) : num(b[s]);
      const off = isUp ? num(aOff[s]) : num(bOff[s]);
      sum += num(pos[u]) + (num(width[u]) > 0 ? off / num(width[u]) : 0) * 0.9;
      // A port on this node pulls the node the other way, a little.
      sum -= ((isUp ? num(bOff[s]) : num(aOff[s])) / Math.max(1, num(width[v]))) * 0.01;
    }
    fixed.push(end === start);
    keys[i] = end === start ? i : sum / (end - start);
    if (end > start) {
      order.push(i);
    }
  });
  order.sort((i, j) => num(keys[i]) - num(keys[j]) || i - j);
  const before = nodes.slice();
  let next = 0;
  for (let i = 0; i < before.length; i += 1) {
    const v = fixed[i] === true ? num(before[i]) : num(before[num(order[next++])]);
    nodes[i] = v;
    pos[v] = i;
  }
}

/** Crossings between the edges of neighbours `v` (left) and `w`, as they stand and if swapped. */
function pairCrossings(
  ends: Float64Array,
  vStart: number,
  vEnd: number,
  wStart: number,
  wEnd: number
): [number, number] {
  let kept = 0;
  let swapped = 0;
  for (let i = vStart; i < vEnd; i += 1) {
    for (let j = wStart; j < wEnd; j += 1) {
      if (num(ends[i]) > num(ends[j])) {
        kept += 1;
      } else if (num(ends[i]) < num(ends[j])) {
        swapped += 1;
      }
    }
  }
  return [kept, swapped];
}

/** Swaps neighbours where that removes crossings; one pass over all layers. */
function transpose(
  proper: IProper,
  layers: readonly Int32Array[],
  pos: Int32Array,
  up: IAdjacency,
  down: IAdjacency
): void {
  const { a, b, aOff, bOff, width } = proper;
  const place = (u: number, off: number): number =>
    num(pos[u]) + (num(width[u]) > 0 ? (off / num(width[u])) * 0.9 : 0);
  for (const nodes of layers) {
    if (nodes.length < 2) {
      continue;
    }
    for (let turn = 0; turn < 2; turn += 1) {
      let gained = false;
      for (let i = 0; i + 1 < nodes.length; i += 1) {
        const v = num(nodes[i]);
        const w = num(nodes[i + 1]);
        let kept = 0;
        let swapped = 0;
        for (const side of [up, down]) {
          const nv = num(side.start[v + 1]) - num(side.start[v]);
          const nw = num(side.start[w + 1]) - num(side.start[w]);
          if (nv === 0 || nw === 0 || nv * nw > 400) {
            continue;
          }
          const ends = new Float64Array(nv + nw);
          for (let k = 0; k < nv + nw; k += 1) {
            const s =
              k < nv ? num(side.edges[num(side.start[v]) + k]) : num(side.edges[num(side.start[w]) + k - nv]);
            ends[k] = side === up ? place(num(a[s]), num(aOff[s])) : place(num(b[s]), num(bOff[s]));
          }
          const [x, y] = pairCrossings(ends, 0, nv, nv, nv + nw);
          kept += x;
          swapped += y;
        }
        if (swapped < kept) {
          nodes[i] = w;
          nodes[i + 1] = v;
          pos[w] = i;
          pos[v] = i + 1;
          gained = true;
        }
      }
      if (!gained) {
        break;
      }
    }
  }
}

/** Number of crossings between all neighbouring layers, by merge counting in O(E log E). */
export function countCrossings(
  proper: IProper,
  layers: readonly Int32Array[],
  pos: Int32Array,
  down: IAdjacency
): number {
  const { b, aOff, bOff, width } = proper;
  let total = 0;
  for (let l = 0; l + 1 < layers.length; l += 1) {
    const below = at(layers, l + 1).length;
    const keys: number[] = [];
    for (const v of at(layers, l)) {
      const start = num(down.start[v]);
      const end = num(down.start[v + 1]);
      if (end === start) {
        continue;
      }
      const own: { at: number; to: number }[] = [];
      for (let i = start; i < end; i += 1) {
        const s = num(down.edges[i]);
        const w = num(b[s]);
        own.push({ at: num(aOff[s]), to: num(pos[w]) + 0.5 + (num(bOff[s]) / Math.max(1, num(width[w]))) * 0.9 });
      }
      own.sort((x, y) => x.at - y.at || x.to - y.to);
      for (const { to } of own) {
        keys.push(to);
      }
    }
    total += inversions(keys, below);
  }
  return total;
}

/** Pairs out of order; keys lie in [0, size]. Sixteen steps per unit resolve ports on one node. */
function inversions(keys: readonly number[], size: number): number {
  const steps = 16;
  const cells = size * steps + 2;
  const tree = new Int32Array(cells + 1);
  let count = 0;
  let seen = 0;
  for (const key of keys) {
    const cell = Math.min(cells - 1, Math.max(0, Math.floor(key * steps))) + 1;
    let notAbove = 0;
    for (let i = cell; i > 0; i -= i & -i) {
      notAbove += num(tree[i]);
    }
    count += seen - notAbove;
    seen += 1;
    for (let i = cell; i <= cells; i += i & -i) {
      tree[i] = num(tree[i]) + 1;
    }
  }
  return count;
}
