/**
 * Horizontal coordinates after Brandes and Köpf: four greedy alignments into straight blocks, each
 * compacted, then the mean of the middle two. Blocks align ports rather than centres, and spines
 * (see `Priority`) come before everything else, so that the main line of a model runs straight.
 */

import type { IOrder } from './order';
import { Priority, type IProper } from './proper';
import { num } from '../num';
import { at } from '../narrow';

export interface IGaps {
  node: number;
  edge: number;
}

/** Centre x of every node of the proper graph; neighbours in a layer never overlap. */
export function assignX(proper: IProper, order: IOrder, gaps: IGaps): Float64Array {
  const conflicts = markConflicts(proper, order);
  const runs: Float64Array[] = [];
  for (const fromTop of [true, false]) {
    for (const fromLeft of [true, false]) {
      runs.push(alignAndCompact(proper, order, conflicts, gaps, fromTop, fromLeft));
    }
  }
  const x = balance(proper, runs);
  relax(proper, order, gaps, x);
  return x;
}

/** Segments that cross an inner segment of a long edge, which has the right to be straight. */
function markConflicts(proper: IProper, order: IOrder): Uint8Array {
  const { a, b, priority } = proper;
  const { layers, pos, up } = order;
  const conflicts = new Uint8Array(a.length);
  for (let l = 1; l < layers.length; l += 1) {
    const nodes = at(layers, l);
    let left = -1;
    let scanned = 0;
    for (let i = 0; i < nodes.length; i += 1) {
      let inner = -1;
      const v = num(nodes[i]);
      for (let k = num(up.start[v]); k < num(up.start[v + 1]); k += 1) {
        if (priority[num(up.edges[k])] === Priority.Chain) {
          inner = num(pos[num(a[num(up.edges[k])])]);
        }
      }
      if (inner < 0 && i + 1 < nodes.length) {
        continue;
      }
      const right = inner < 0 ? Number.MAX_SAFE_INTEGER : inner;
      for (; scanned <= i; scanned += 1) {
        const w = num(nodes[scanned]);
        for (let k = num(up.start[w]); k < num(up.start[w + 1]); k += 1) {
          const s = num(up.edges[k]);
          const at = num(pos[num(a[s])]);
          if ((at < left || at > right) && priority[s] !== Priority.Spine && b[s] === w) {
            conflicts[s] = 1;
          }
        }
      }
      left = inner < 0 ? left : inner;
    }
  }
  return conflicts;
}

function alignAndCompact(
  proper: IProper,
  order: IOrder,
  conflicts: Uint8Array,
  gaps: IGaps,
  fromTop: boolean,
  fromLeft: boolean
): Float64Array {
  const { n, a, b, aAlign, bAlign, priority } = proper;
  const near = fromTop ? order.up : order.down;
  const far = fromTop ? order.down : order.up;
  const other = fromTop ? a : b;
  const otherOff = fromTop ? aAlign : bAlign;
  const ownOff = fromTop ? bAlign : aAlign;
  const sign = fromLeft ? 1 : -1;
  const root = new Int32Array(n);
  const shift = new Float64Array(n);
  const taken = new Uint8Array(n);
  for (let v = 0; v < n; v += 1) {
    root[v] = v;
  }
  const best = new Uint8Array(n);
  for (let v = 0; v < n; v += 1) {
    for (let i = num(far.start[v]); i < num(far.start[v + 1]); i += 1) {
      best[v] = Math.max(num(best[v]), num(priority[num(far.edges[i])]));
    }
  }
  const nLayers = order.layers.length;
  const candidates: number[] = [];
  for (let step = 1; step < nLayers; step += 1) {
    const nodes = at(order.layers, fromTop ? step : nLayers - 1 - step);
    let reached = fromLeft ? -1 : Number.MAX_SAFE_INTEGER;
    for (let i = 0; i < nodes.length; i += 1) {
      const v = num(nodes[fromLeft ? i : nodes.length - 1 - i]);
      let top = -1;
      for (let k = num(near.start[v]); k < num(near.start[v + 1]); k += 1) {
        top = Math.max(top, num(priority[num(near.edges[k])]));
      }
      if (top < 0) {
        continue;
      }
      candidates.length = 0;
      for (let k = num(near.start[v]); k < num(near.start[v + 1]); k += 1) {
        const s = num(near.edges[k]);
        if (priority[s] === top) {
          candidates.push(s);
        }
      }
      candidates.sort((s, t) => num(order.pos[num(other[s])]) - num(order.pos[num(other[t])]));
      const mid = (candidates.length - 1) / 2;
      const medians = fromLeft
        ? [Math.floor(mid), Math.ceil(mid)]
        : [Math.ceil(mid), Math.floor(mid)];
      for (const m of medians) {
        const s = num(candidates[m]);
        const u = num(other[s]);
        const at = num(order.pos[u]);
        const isFree = fromLeft ? at > reached : at < reached;
        if (!isFree || conflicts[s] === 1 || taken[u] === 1 || num(priority[s]) < num(best[u])) {
          continue;
        }
        taken[u] = 1;
        root[v] = num(root[u]);
        shift[v] = num(shift[u]) + sign * (num(otherOff[s]) - num(ownOff[s]));
        reached = at;
        break;
      }
    }
  }
  const x = compact(proper, order, gaps, root, shift, fromLeft);
  if (!fromLeft) {
    for (let v = 0; v < n; v += 1) {
      x[v] = -num(x[v]);
    }
  }
  return x;
}

/** The least distance of two neighbours in a layer, from centre to centre. */
export function gapBetween(proper: IProper, gaps: IGaps, u: number, v: number): number {
  const gap = u < proper.nReal && v < proper.nReal ? gaps.node : gaps.edge;
  return (num(proper.width[u]) + num(proper.width[v])) / 2 + gap;
}

/** Leftmost places of the blocks, then each pulled right as far as its right neighbours allow. */
function compact(
  proper: IProper,
  order: IOrder,
  gaps: IGaps,
  root: Int32Array,
  shift: Float64Array,
  fromLeft: boolean
): Float64Array {
  const { n } = proper;
  const from: number[] = [];
  const to: number[] = [];
  const sep: number[] = [];
  for (const nodes of order.layers) {
    for (let i = 0; i + 1 < nodes.length; i += 1) {
      const u = num(nodes[fromLeft ? i : nodes.length - 1 - i]);
      const v = num(nodes[fromLeft ? i + 1 : nodes.length - 2 - i]);
      from.push(num(root[u]));
      to.push(num(root[v]));
      sep.push(gapBetween(proper, gaps, u, v) + num(shift[u]) - num(shift[v]));
    }
  }
  const m = from.length;
  const start = new Int32Array(n + 1);
  const waiting = new Int32Array(n);
  for (let e = 0; e < m; e += 1) {
    start[num(from[e]) + 1] = num(start[num(from[e]) + 1]) + 1;
    waiting[num(to[e])] = num(waiting[num(to[e])]) + 1;
  }
  for (let v = 0; v < n; v += 1) {
    start[v + 1] = num(start[v + 1]) + num(start[v]);
  }
  const next = start.slice(0, n);
  const edges = new Int32Array(m);
  for (let e = 0; e < m; e += 1) {
    const u = num(from[e]);
    const place = num(next[u]);
    edges[place] = e;
    next[u] = place + 1;
  }
  const queue = new Int32Array(n);
  const at = new Float64Array(n);
  let head = 0;
  let tail = 0;
  for (let v = 0; v < n; v += 1) {
    if (root[v] === v && waiting[v] === 0) {
      queue[tail++] = v;
    }
  }
  while (head < tail) {
    const u = num(queue[head++]);
    for (let i = num(start[u]); i < num(start[u + 1]); i += 1) {
      const e = num(edges[i]);
      const v = num(to[e]);
      at[v] = Math.max(num(at[v]), num(at[u]) + num(sep[e]));
      waiting[v] = num(waiting[v]) - 1;
      if (waiting[v] === 0) {
        queue[tail++] = v;
      }
    }
  }
  for (let i = tail - 1; i >= 0; i -= 1) {
    const u = num(queue[i]);
    let limit = Number.POSITIVE_INFINITY;
    for (let k = num(start[u]); k < num(start[u + 1]); k += 1) {
      const e = num(edges[k]);
      limit = Math.min(limit, num(at[num(to[e])]) - num(sep[e]));
    }
    if (limit !== Number.POSITIVE_INFINITY && limit > num(at[u])) {
      at[u] = limit;
    }
  }
  const x = new Float64Array(n);
  for (let v = 0; v < n; v += 1) {
    x[v] = num(at[num(root[v])]) + num(shift[v]);
  }
  return x;
}

/** Mean of the middle two of the four, after moving them over the narrowest one. */
function balance(proper: IProper, runs: readonly Float64Array[]): Float64Array {
  const { n, width } = proper;
  const low: number[] = [];
  const high: number[] = [];
  let narrow = 0;
  runs.forEach((x, r) => {
    let min = Number.POSITIVE_INFINITY;
    let max = Number.NEGATIVE_INFINITY;
    for (let v = 0; v < n; v += 1) {
      min = Math.min(min, num(x[v]) - num(width[v]) / 2);
      max = Math.max(max, num(x[v]) + num(width[v]) / 2);
    }
    low.push(min);
    high.push(max);
    if (max - min < num(high[narrow]) - num(low[narrow])) {
      narrow = r;
    }
  });
  const moves = runs.map((_, r) =>
    r % 2 === 0 ? num(low[narrow]) - num(low[r]) : num(high[narrow]) - num(high[r])
  );
  const result = new Float64Array(n);
  const four = new Float64Array(runs.length);
  for (let v = 0; v < n; v += 1) {
    runs.forEach((x, r) => {
      four[r] = num(x[v]) + num(moves[r]);
    });
    four.sort();
    result[v] = (num(four[1]) + num(four[2])) / 2;
  }
  return result;
}

/**
 * Moves straight pieces as a whole towards the middle of what they join, within the free room: the
 * trunks of long edges, and columns of nodes that follow each other.
 */
function relax(proper: IProper, order: IOrder, gaps: IGaps, x: Float64Array): void {
  const { n, a, b, aAlign: aOff, bAlign: bOff, priority } = proper;
  const { layers, pos, up, down } = order;
  const layerOf = proper.layer;
  const room = (v: number): [number, number] => {
    const nodes = at(layers, num(layerOf[v]));
    const i = num(pos[v]);
    const left = nodes[i - 1];
    const right = nodes[i + 1];
    return [
      left === undefined ? -Infinity : num(x[left]) + gapBetween(proper, gaps, left, v) - num(x[v]),
      right === undefined ? Infinity : num(x[right]) - gapBetween(proper, gaps, v, right) - num(x[v])
    ];
  };
  for (let pass = 0; pass < 4; pass += 1) {
    const seen = new Uint8Array(n);
    for (const nodes of layers) {
      for (const first of nodes) {
        if (seen[first] === 1) {
          continue;
        }
        const piece = [first];
        seen[first] = 1;
        for (let v = first; ; ) {
          const next = straightBelow(v);
          if (next < 0 || seen[next] === 1) {
            break;
          }
          seen[next] = 1;
          piece.push(next);
          v = next;
        }
        movePiece(piece);
      }
    }
  }

  function straightBelow(v: number): number {
    let found = -1;
    let best = -1;
    for (let i = num(down.start[v]); i < num(down.start[v + 1]); i += 1) {
      const s = num(down.edges[i]);
      const w = num(b[s]);
      const bend = num(x[v]) + num(aOff[s]) - num(x[w]) - num(bOff[s]);
      if (Math.abs(bend) < 0.01 && num(priority[s]) > best) {
        best = num(priority[s]);
        found = w;
      }
    }
    return found;
  }

  function movePiece(piece: readonly number[]): void {
    let lo = -Infinity;
    let hi = Infinity;
    let pull = 0;
    let weight = 0;
    const inside = new Set(piece);
    for (const v of piece) {
      const [l, r] = room(v);
      lo = Math.max(lo, l);
      hi = Math.min(hi, r);
      for (let i = num(up.start[v]); i < num(up.start[v + 1]); i += 1) {
        const s = num(up.edges[i]);
        if (!inside.has(num(a[s]))) {
          const p = 1 + num(priority[s]) * 2;
          pull += p * (num(x[num(a[s])]) + num(aOff[s]) - num(x[v]) - num(bOff[s]));
          weight += p;
        }
      }
      for (let i = num(down.start[v]); i < num(down.start[v + 1]); i += 1) {
        const s = num(down.edges[i]);
        if (!inside.has(num(b[s]))) {
          const p = 1 + num(priority[s]) * 2;
          pull += p * (num(x[num(b[s])]) + num(bOff[s]) - num(x[v]) - num(aOff[s]));
          weight += p;
        }
      }
    }
    if (weight === 0) {
      return;
    }
    const move = Math.min(Math.max(pull / weight, lo), hi);
    if (lo <= hi && Math.abs(move) > 0.01) {
      for (const v of piece) {
        x[v] = num(x[v]) + move;
      }
    }
  }
}
