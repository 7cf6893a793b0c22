/** Layered layout of one level: nodes of given sizes, edges between them or their ports. */

import { assignX, type IGaps } from './coords';
import { orderLayers } from './order';
import { makeProper, type IProper } from './proper';
import { rank } from './rank';
import { seededX, type ISeed } from './seeded';
import { num } from '../num';
import { at } from '../narrow';

export interface IFlatGraph {
  w: ArrayLike<number>;
  h: ArrayLike<number>;
  /** `Pin` of every node. */
  pin: ArrayLike<number>;
  src: ArrayLike<number>;
  dst: ArrayLike<number>;
  /** Where an edge meets its ends, relative to their centres. */
  srcOff: ArrayLike<number>;
  dstOff: ArrayLike<number>;
  /** Of every edge: 1 when it is the way back of a loop. It takes no part in the layers. */
  turn?: ArrayLike<number>;
  /** An earlier layout, of which all that is still there keeps its columns. */
  seed?: ISeed;
}

export interface IFlatOptions extends IGaps {
  /** Room below a layer where edges run straight, beside the types written on them. */
  stub: number;
  /** Room between two layers for edges that do not bend. */
  layer: number;
  /** When refinement has to stop, in the clock of `now`. */
  deadline: number;
  now: () => number;
}

export interface IFlatLayout {
  width: number;
  height: number;
  /** Top left corner of every node. */
  x: Float64Array;
  y: Float64Array;
  layer: Int32Array;
  /** Flat points of every edge, from its source to its target. */
  paths: Float32Array[];
  crossings: number;
}

/** A bend gets this much height for its width, within limits: wide turns stay gentle. */
const BEND_SLOPE = 0.17;
const MIN_BEND_ROOM = 30;
const MAX_BEND_ROOM = 120;
/** Room below or above a layer of ports, where nothing is written. */
const PORT_ROOM = 8;
/** Room above the node where a turn begins and below the layer where it ends. */
const TURN_ABOVE = 24;
const TURN_BELOW = 16;
/** Room on both sides of the line up, on which its label stands. */
const LANE = 34;
/** Where a turn meets its node, as a part of the width: beside what comes from above. */
const ENTRY = 0.75;

export function layoutFlat(graph: IFlatGraph, options: IFlatOptions): IFlatLayout {
  const n = graph.w.length;
  if (n === 0) {
    const none = new Float64Array(0);
    return {
      width: 0,
      height: 0,
      x: none,
      y: none,
      layer: new Int32Array(0),
      paths: [],
      crossings: 0
    };
  }
  const { down, turns } = split(graph);
  if (turns.length > 0) {
    return withTurns(graph, down, turns, options);
  }
  return layoutDown(graph, options, [], []);
}

/** Indexes of the edges that go down, and of those that go back. */
function split(graph: IFlatGraph): { down: number[]; turns: number[] } {
  const down: number[] = [];
  const turns: number[] = [];
  for (let e = 0; e < graph.src.length; e += 1) {
    (graph.turn?.[e] === 1 ? turns : down).push(e);
  }
  return { down, turns };
}

function withTurns(
  graph: IFlatGraph,
  down: readonly number[],
  turns: readonly number[],
  options: IFlatOptions
): IFlatLayout {
  const pick = (list: ArrayLike<number>, edges: readonly number[]): number[] =>
    edges.map(e => num(list[e]));
  const flat = layoutDown(
    {
      ...graph,
      src: pick(graph.src, down),
      dst: pick(graph.dst, down),
      srcOff: pick(graph.srcOff, down),
      dstOff: pick(graph.dstOff, down),
      ...(graph.seed === undefined
        ? {}
        : { seed: { ...graph.seed, paths: down.map(e => graph.seed?.paths[e] ?? null) } })
    },
    options,
    pick(graph.src, turns),
    pick(graph.dst, turns)
  );
  const paths = new Array<Float32Array>(graph.src.length);
  down.forEach((e, i) => {
    paths[e] = at(flat.paths, i);
  });
  const lane = flat.width + LANE;
  for (const e of turns) {
    const u = num(graph.src[e]);
    const v = num(graph.dst[e]);
    const from = num(flat.x[u]) + num(graph.w[u]) / 2 + num(graph.srcOff[e]);
    const to = num(flat.x[v]) + num(graph.w[v]) * ENTRY;
    const below = num(flat.bottom[num(flat.layer[u])]) + options.stub + TURN_BELOW / 2;
    const above = num(flat.top[num(flat.layer[v])]) - TURN_ABOVE / 2;
    const start = num(flat.y[u]) + num(graph.h[u]);
    paths[e] = Float32Array.from([
      ...[from, start, from, below, lane, below, lane, above, to, above, to, num(flat.y[v])]
    ]);
  }
  return { ...flat, paths, width: lane + LANE };
}

/** The centres of all nodes, and how often edges cross; that is not counted in a seeded layout. */
function columns(
  graph: IFlatGraph,
  options: IFlatOptions,
  proper: IProper,
  nLayers: number
): { cx: Float64Array; crossings: number } {
  if (graph.seed !== undefined) {
    return { cx: seededX(proper, nLayers, graph.seed, options), crossings: Number.NaN };
  }
  const order = orderLayers(proper, nLayers, options.deadline, options.now);
  return { cx: assignX(proper, order, options), crossings: order.crossings };
}

interface IDownLayout extends IFlatLayout {
  /** Of every layer. */
  top: Float64Array;
  bottom: Float64Array;
}

/** The layout of edges that go down, with room for turns that begin and end at these nodes. */
function layoutDown(
  graph: IFlatGraph,
  options: IFlatOptions,
  turnSrc: readonly number[],
  turnDst: readonly number[]
): IDownLayout {
  const n = graph.w.length;
  const ranked = rank({ n, src: graph.src, dst: graph.dst, pin: graph.pin });
  const { nLayers } = ranked;
  const proper = makeProper(ranked, graph.w, graph.srcOff, graph.dstOff);
  const { cx, crossings } = columns(graph, options, proper, nLayers);

  let left = Number.POSITIVE_INFINITY;
  let right = Number.NEGATIVE_INFINITY;
  for (let v = 0; v < proper.n; v += 1) {
    left = Math.min(left, num(cx[v]) - num(proper.width[v]) / 2);
    right = Math.max(right, num(cx[v]) + num(proper.width[v]) / 2);
  }
  const tall = new Float64Array(nLayers);
  for (let v = 0; v < n; v += 1) {
    const l = num(ranked.layer[v]);
    tall[l] = Math.max(num(tall[l]), num(graph.h[v]));
  }
  const bend = new Float64Array(nLayers);
  for (let s = 0; s < proper.a.length; s += 1) {
    const u = num(proper.a[s]);
    const v = num(proper.b[s]);
    const dx = Math.abs(num(cx[u]) + num(proper.aOff[s]) - num(cx[v]) - num(proper.bOff[s]));
    bend[num(proper.layer[u])] = Math.max(num(bend[num(proper.layer[u])]), dx);
  }
  const top = new Float64Array(nLayers);
  const stub = new Float64Array(nLayers);
  const begins = new Set(turnDst.map(v => num(ranked.layer[v])));
  const ends = new Set(turnSrc.map(v => num(ranked.layer[v])));
  let y = 0;
  for (let l = 0; l < nLayers; l += 1) {
    y += begins.has(l) ? TURN_ABOVE : 0;
    top[l] = y;
    y += num(tall[l]);
    if (ends.has(l)) {
      y += TURN_BELOW + (l + 1 < nLayers ? 0 : options.stub);
    }
    if (l + 1 < nLayers) {
      const isPort = tall[l] === 0 || tall[l + 1] === 0;
      stub[l] = tall[l] === 0 ? 0 : options.stub;
      const room = MIN_BEND_ROOM + (num(bend[l]) - 40) * BEND_SLOPE;
      const straight = isPort ? PORT_ROOM : options.layer;
      y += num(stub[l]);
      y += num(bend[l]) < 1 ? straight : Math.min(MAX_BEND_ROOM, Math.max(MIN_BEND_ROOM, room));
    }
  }
  const x = new Float64Array(n);
  const ys = new Float64Array(n);
  for (let v = 0; v < n; v += 1) {
    const l = num(ranked.layer[v]);
    x[v] = num(cx[v]) - num(graph.w[v]) / 2 - left;
    ys[v] = num(top[l]) + (num(tall[l]) - num(graph.h[v])) / 2;
  }

  const paths = new Array<Float32Array>(graph.src.length);
  for (let e = 0; e < graph.src.length; e += 1) {
    const chain = at(proper.chains, e);
    const u = num(ranked.from[e]);
    const v = num(ranked.to[e]);
    const isBack = ranked.reversed[e] === 1;
    const points: number[] = [];
    const uOff = num(isBack ? graph.dstOff[e] : graph.srcOff[e]);
    const vOff = num(isBack ? graph.srcOff[e] : graph.dstOff[e]);
    const lu = num(ranked.layer[u]);
    const lv = num(ranked.layer[v]);
    // Inside a layer an edge runs straight down beside the taller nodes, and bends only between layers.
    push(points, num(cx[u]) + uOff - left, num(ys[u]) + num(graph.h[u]));
    push(points, num(cx[u]) + uOff - left, num(top[lu]) + num(tall[lu]) + num(stub[lu]));
    for (let i = 0; i + 1 < chain.length; i += 1) {
      const dummy = num(proper.b[num(chain[i])]);
      const l = num(proper.layer[dummy]);
      push(points, num(cx[dummy]) - left, num(top[l]));
      push(points, num(cx[dummy]) - left, num(top[l]) + num(tall[l]) + num(stub[l]));
    }
    push(points, num(cx[v]) + vOff - left, num(top[lv]));
    push(points, num(cx[v]) + vOff - left, num(ys[v]));
    paths[e] = simplify(points, isBack);
  }
  return {
    width: right - left,
    height: y,
    x,
    y: ys,
    layer: ranked.layer,
    top,
    bottom: top.map((at, l) => at + num(tall[l])),
    paths,
    crossings
  };
}

function push(points: number[], x: number, y: number): void {
  points.push(x, y);
}

/** Drops repeated points and the inner points of straight vertical runs. */
function simplify(points: readonly number[], isBack: boolean): Float32Array {
  const kept: number[] = [];
  for (let i = 0; i < points.length; i += 2) {
    const x = num(points[i]);
    const y = num(points[i + 1]);
    const k = kept.length;
    if (k >= 2 && Math.abs(num(kept[k - 2]) - x) < 0.05 && Math.abs(num(kept[k - 1]) - y) < 0.05) {
      continue;
    }
    if (
      k >= 4 &&
      Math.abs(num(kept[k - 2]) - x) < 0.05 &&
      Math.abs(num(kept[k - 4]) - x) < 0.05
    ) {
      kept[k - 1] = y;
      continue;
    }
    kept.push(x, y);
  }
  if (isBack) {
    const turned: number[] = [];
    for (let i = kept.length - 2; i >= 0; i -= 2) {
      turned.push(num(kept[i]), num(kept[i + 1]));
    }
    return Float32Array.from(turned);
  }
  return Float32Array.from(kept);
}
