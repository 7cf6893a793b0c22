/** Layered layout of one level: nodes of given sizes, edges between them or their ports. */

import { assignX, type IGaps } from './coords';
import { orderLayers } from './order';
import { makeProper } from './proper';
import { rank } from './rank';

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
    edges.map(e => list[e] as number);
  const flat = layoutDown(
    {
      ...graph,
      src: pick(graph.src, down),
      dst: pick(graph.dst, down),
      srcOff: pick(graph.srcOff, down),
      dstOff: pick(graph.dstOff, down)
    },
    options,
    pick(graph.src, turns),
    pick(graph.dst, turns)
  );
  const paths = new Array<Float32Array>(graph.src.length);
  down.forEach((e, i) => {
    paths[e] = flat.paths[i]!;
  });
  const lane = flat.width + LANE;
  for (const e of turns) {
    const u = graph.src[e] as number;
    const v = graph.dst[e] as number;
    const from = flat.x[u]! + (graph.w[u] as number) / 2 + (graph.srcOff[e] as number);
    const to = flat.x[v]! + (graph.w[v] as number) * ENTRY;
    const below = flat.bottom[flat.layer[u]!]! + options.stub + TURN_BELOW / 2;
    const above = flat.top[flat.layer[v]!]! - TURN_ABOVE / 2;
    const start = flat.y[u]! + (graph.h[u] as number);
    paths[e] = Float32Array.from([
      ...[from, start, from, below, lane, below, lane, above, to, above, to, flat.y[v]!]
    ]);
  }
  return { ...flat, paths, width: lane + LANE };
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
  const order = orderLayers(proper, nLayers, options.deadline, options.now);
  const cx = assignX(proper, order, options);

  let left = Number.POSITIVE_INFINITY;
  let right = Number.NEGATIVE_INFINITY;
  for (let v = 0; v < proper.n; v += 1) {
    left = Math.min(left, cx[v]! - proper.width[v]! / 2);
    right = Math.max(right, cx[v]! + proper.width[v]! / 2);
  }
  const tall = new Float64Array(nLayers);
  for (let v = 0; v < n; v += 1) {
    const l = ranked.layer[v]!;
    tall[l] = Math.max(tall[l]!, graph.h[v] as number);
  }
  const bend = new Float64Array(nLayers);
  for (let s = 0; s < proper.a.length; s += 1) {
    const u = proper.a[s]!;
    const v = proper.b[s]!;
    const dx = Math.abs(cx[u]! + proper.aOff[s]! - cx[v]! - proper.bOff[s]!);
    bend[proper.layer[u]!] = Math.max(bend[proper.layer[u]!]!, dx);
  }
  const top = new Float64Array(nLayers);
  const stub = new Float64Array(nLayers);
  const begins = new Set(turnDst.map(v => ranked.layer[v]!));
  const ends = new Set(turnSrc.map(v => ranked.layer[v]!));
  let y = 0;
  for (let l = 0; l < nLayers; l += 1) {
    y += begins.has(l) ? TURN_ABOVE : 0;
    top[l] = y;
    y += tall[l]!;
    if (ends.has(l)) {
      y += TURN_BELOW + (l + 1 < nLayers ? 0 : options.stub);
    }
    if (l + 1 < nLayers) {
      const isPort = tall[l] === 0 || tall[l + 1] === 0;
      stub[l] = tall[l] === 0 ? 0 : options.stub;
      const room = MIN_BEND_ROOM + (bend[l]! - 40) * BEND_SLOPE;
      const straight = isPort ? PORT_ROOM : options.layer;
      y += stub[l]!;
      y += bend[l]! < 1 ? straight : Math.min(MAX_BEND_ROOM, Math.max(MIN_BEND_ROOM, room));
    }
  }
  const x = new Float64Array(n);
  const ys = new Float64Array(n);
  for (let v = 0; v < n; v += 1) {
    const l = ranked.layer[v]!;
    x[v] = cx[v]! - (graph.w[v] as number) / 2 - left;
    ys[v] = top[l]! + (tall[l]! - (graph.h[v] as number)) / 2;
  }

  const paths = new Array<Float32Array>(graph.src.length);
  for (let e = 0; e < graph.src.length; e += 1) {
    const chain = proper.chains[e]!;
    const u = ranked.from[e]!;
    const v = ranked.to[e]!;
    const isBack = ranked.reversed[e] === 1;
    const points: number[] = [];
    const uOff = (isBack ? graph.dstOff[e] : graph.srcOff[e]) as number;
    const vOff = (isBack ? graph.srcOff[e] : graph.dstOff[e]) as number;
    const lu = ranked.layer[u]!;
    const lv = ranked.layer[v]!;
    // Inside a layer an edge runs straight down beside the taller nodes, and bends only between layers.
    push(points, cx[u]! + uOff - left, ys[u]! + (graph.h[u] as number));
    push(points, cx[u]! + uOff - left, top[lu]! + tall[lu]! + stub[lu]!);
    for (let i = 0; i + 1 < chain.length; i += 1) {
      const dummy = proper.b[chain[i]!]!;
      const l = proper.layer[dummy]!;
      push(points, cx[dummy]! - left, top[l]!);
      push(points, cx[dummy]! - left, top[l]! + tall[l]! + stub[l]!);
    }
    push(points, cx[v]! + vOff - left, top[lv]!);
    push(points, cx[v]! + vOff - left, ys[v]!);
    paths[e] = simplify(points, isBack);
  }
  return {
    width: right - left,
    height: y,
    x,
    y: ys,
    layer: ranked.layer,
    top,
    bottom: top.map((at, l) => at + tall[l]!),
    paths,
    crossings: order.crossings
  };
}

function push(points: number[], x: number, y: number): void {
  points.push(x, y);
}

/** Drops repeated points and the inner points of straight vertical runs. */
function simplify(points: readonly number[], isBack: boolean): Float32Array {
  const kept: number[] = [];
  for (let i = 0; i < points.length; i += 2) {
    const x = points[i]!;
    const y = points[i + 1]!;
    const k = kept.length;
    if (k >= 2 && Math.abs(kept[k - 2]! - x) < 0.05 && Math.abs(kept[k - 1]! - y) < 0.05) {
      continue;
    }
    if (
      k >= 4 &&
      Math.abs(kept[k - 2]! - x) < 0.05 &&
      Math.abs(kept[k - 4]! - x) < 0.05
    ) {
      kept[k - 1] = y;
      continue;
    }
    kept.push(x, y);
  }
  if (isBack) {
    const turned: number[] = [];
    for (let i = kept.length - 2; i >= 0; i -= 2) {
      turned.push(kept[i]!, kept[i + 1]!);
    }
    return Float32Array.from(turned);
  }
  return Float32Array.from(kept);
}
