/** First half of the layered layout: cycles are broken and every node gets a layer. */

import { num } from '../num';

export const enum Pin {
  None,
  First,
  Last
}

export interface IRankInput {
  n: number;
  src: ArrayLike<number>;
  dst: ArrayLike<number>;
  pin: ArrayLike<number>;
}

export interface IRanked {
  /** Edge endpoints with back edges turned round, so that every edge goes to a later layer. */
  from: Int32Array;
  to: Int32Array;
  reversed: Uint8Array;
  layer: Int32Array;
  nLayers: number;
  /** Longest way from a source; says which of two branches is the long one. */
  depth: Int32Array;
  /** Longest way to a sink. */
  height: Int32Array;
}

export interface IAdjacency {
  start: Int32Array;
  edges: Int32Array;
}

/** Edge indexes grouped by `key[e]`, in edge order. */
export function groupBy(n: number, key: ArrayLike<number>): IAdjacency {
  const start = new Int32Array(n + 1);
  for (let e = 0; e < key.length; e += 1) {
    start[num(key[e]) + 1] = num(start[num(key[e]) + 1]) + 1;
  }
  for (let v = 0; v < n; v += 1) {
    start[v + 1] = num(start[v + 1]) + num(start[v]);
  }
  const next = start.slice(0, n);
  const edges = new Int32Array(key.length);
  for (let e = 0; e < key.length; e += 1) {
    const group = num(key[e]);
    const place = num(next[group]);
    edges[place] = e;
    next[group] = place + 1;
  }
  return { start, edges };
}

/** Turns round the edges that close a cycle in a depth-first walk in index order. */
function breakCycles(input: IRankInput, reversed: Uint8Array): void {
  const { n, src, dst } = input;
  const out = groupBy(n, src);
  const state = new Uint8Array(n);
  const at = out.start.slice(0, n);
  const stack: number[] = [];
  for (let root = 0; root < n; root += 1) {
    if (state[root] !== 0) {
      continue;
    }
    stack.push(root);
    state[root] = 1;
    while (stack.length > 0) {
      const v = num(stack[stack.length - 1]);
      if (num(at[v]) >= num(out.start[v + 1])) {
        state[v] = 2;
        stack.pop();
        continue;
      }
      const place = num(at[v]);
      at[v] = place + 1;
      const e = num(out.edges[place]);
      const w = num(dst[e]);
      if (state[w] === 1) {
        reversed[e] = 1;
      } else if (state[w] === 0) {
        state[w] = 1;
        stack.push(w);
      }
    }
  }
}

/** Layers by longest path, then nodes move towards their heavier side to shorten edges. */
export function rank(input: IRankInput): IRanked {
  const { n, src, dst, pin } = input;
  const m = src.length;
  const reversed = new Uint8Array(m);
  breakCycles(input, reversed);
  const from = new Int32Array(m);
  const to = new Int32Array(m);
  for (let e = 0; e < m; e += 1) {
    const back = reversed[e] === 1;
    from[e] = num(back ? dst[e] : src[e]);
    to[e] = num(back ? src[e] : dst[e]);
  }
  const out = groupBy(n, from);
  const into = groupBy(n, to);
  const order = topological(n, to, out, into);
  let hasFirst = false;
  let hasLast = false;
  for (let v = 0; v < n; v += 1) {
    hasFirst = hasFirst || pin[v] === Pin.First;
    hasLast = hasLast || pin[v] === Pin.Last;
  }
  const lowest = hasFirst ? 1 : 0;
  const layer = new Int32Array(n);
  let deepest = 0;
  for (const v of order) {
    let best = pin[v] === Pin.First ? 0 : lowest;
    for (let i = num(into.start[v]); i < num(into.start[v + 1]); i += 1) {
      best = Math.max(best, num(layer[num(from[num(into.edges[i])])]) + 1);
    }
    layer[v] = best;
    if (pin[v] !== Pin.Last) {
      deepest = Math.max(deepest, best);
    }
  }
  const depth = layer.slice();
  const height = new Int32Array(n);
  for (let i = n - 1; i >= 0; i -= 1) {
    const v = num(order[i]);
    for (let k = num(out.start[v]); k < num(out.start[v + 1]); k += 1) {
      height[v] = Math.max(num(height[v]), num(height[num(to[num(out.edges[k])])]) + 1);
    }
  }
  const bottom = hasLast ? deepest + 1 : deepest;
  for (let v = 0; v < n; v += 1) {
    if (pin[v] === Pin.Last) {
      layer[v] = bottom;
    }
  }
  tighten(input, order, from, to, out, into, layer, lowest, hasLast ? bottom - 1 : bottom);
  return { from, to, reversed, layer, nLayers: bottom + 1, depth, height };
}

function topological(
  n: number,
  to: Int32Array,
  out: IAdjacency,
  into: IAdjacency
): Int32Array {
  const waiting = new Int32Array(n);
  const order = new Int32Array(n);
  let head = 0;
  let tail = 0;
  for (let v = 0; v < n; v += 1) {
    waiting[v] = num(into.start[v + 1]) - num(into.start[v]);
    if (waiting[v] === 0) {
      order[tail++] = v;
    }
  }
  while (head < tail) {
    const v = num(order[head++]);
    for (let i = num(out.start[v]); i < num(out.start[v + 1]); i += 1) {
      const w = num(to[num(out.edges[i])]);
      waiting[w] = num(waiting[w]) - 1;
      if (waiting[w] === 0) {
        order[tail++] = w;
      }
    }
  }
  return order;
}

/** Total edge length only falls: a node with more users than operands moves down, and so on. */
function tighten(
  input: IRankInput,
  order: Int32Array,
  from: Int32Array,
  to: Int32Array,
  out: IAdjacency,
  into: IAdjacency,
  layer: Int32Array,
  lowest: number,
  highest: number
): void {
  const { n, pin } = input;
  for (let pass = 0; pass < 4; pass += 1) {
    let moved = 0;
    for (let i = n - 1; i >= 0; i -= 1) {
      const v = num(order[i]);
      const nOut = num(out.start[v + 1]) - num(out.start[v]);
      const nIn = num(into.start[v + 1]) - num(into.start[v]);
      if (pin[v] !== Pin.None || nOut === 0 || nIn > 1 || (nIn === 1 && nOut < 2)) {
        continue;
      }
      let limit = highest;
      for (let k = num(out.start[v]); k < num(out.start[v + 1]); k += 1) {
        limit = Math.min(limit, num(layer[num(to[num(out.edges[k])])]) - 1);
      }
      // One source feeding many users counts once: the edges share their way.
      if (nIn === 0 && limit > num(layer[v])) {
        layer[v] = limit;
        moved += 1;
      }
    }
    for (let i = 0; i < n; i += 1) {
      const v = num(order[i]);
      const nIn = num(into.start[v + 1]) - num(into.start[v]);
      if (pin[v] !== Pin.None || nIn === 0) {
        continue;
      }
      let limit = lowest;
      for (let k = num(into.start[v]); k < num(into.start[v + 1]); k += 1) {
        limit = Math.max(limit, num(layer[num(from[num(into.edges[k])])]) + 1);
      }
      if (limit < num(layer[v])) {
        layer[v] = limit;
        moved += 1;
      }
    }
    if (moved === 0) {
      return;
    }
  }
}
