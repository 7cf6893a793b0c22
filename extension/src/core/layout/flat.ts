/** Layered layout of one level: nodes of given sizes, edges between them or their ports. */

import { assignX, type IGaps } from './coords';
import { orderLayers } from './order';
import { makeProper, type IProper } from './proper';
import { rank } from './rank';
import { seededX, type ISeed } from './seeded';
import { keptColumns, wrap, type ILayers, type IRoom, type IWrap } from './wrap';
import type { IColumns } from '../model/scene';
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
  /** Of nodes: room behind them for what is written on their edges, where that is more than usual. */
  stub?: ArrayLike<number>;
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
  /** The window that the layout is for, and the zoom at which it need not be broken into columns. */
  room?: IRoom;
  enough?: number;
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
  /** The columns of all nodes; null where there is one. */
  columns: IColumns | null;
}

/** A bend gets this much height for its width, within limits: wide turns stay gentle. */
const BEND_SLOPE = 0.17;
const MIN_BEND_ROOM = 22;
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
      crossings: 0,
      columns: null
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
    // What goes back at the side of a loop needs one column.
    { ...options, enough: 0 },
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
  const written = new Float64Array(nLayers).fill(options.stub);
  for (let v = 0; v < n; v += 1) {
    const l = num(ranked.layer[v]);
    tall[l] = Math.max(num(tall[l]), num(graph.h[v]));
    written[l] = Math.max(num(written[l]), graph.stub?.[v] ?? 0);
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
      stub[l] = tall[l] === 0 ? 0 : num(written[l]);
      const room = MIN_BEND_ROOM + (num(bend[l]) - 40) * BEND_SLOPE;
      const straight = isPort ? PORT_ROOM : options.layer;
      y += num(stub[l]);
      y += num(bend[l]) < 1 ? straight : Math.min(MAX_BEND_ROOM, Math.max(MIN_BEND_ROOM, room));
    }
  }
  const wrapped = wrapOf(graph, options, proper, { top, tall, stub, height: y, cx }, ranked.layer);
  const shiftX = (l: number): number => (wrapped === null ? -left : num(wrapped.dx[num(wrapped.of[l])]));
  const shiftY = (l: number): number => (wrapped === null ? 0 : num(wrapped.dy[num(wrapped.of[l])]));
  const x = new Float64Array(n);
  const ys = new Float64Array(n);
  for (let v = 0; v < n; v += 1) {
    const l = num(ranked.layer[v]);
    x[v] = num(cx[v]) - num(graph.w[v]) / 2 + shiftX(l);
    ys[v] = num(top[l]) + (num(tall[l]) - num(graph.h[v])) / 2 + shiftY(l);
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
    // From below a layer to above the next, or around to where the next column begins.
    const pass = (node: number, l: number, from: number, to: number, next: number): void => {
      push(points, from, num(top[l]) + num(tall[l]) + num(stub[l]) + shiftY(l));
      if (wrapped !== null && wrapped.of[l] !== wrapped.of[next]) {
        const { below, x: beside, above } = wrapped.around(l, node);
        points.push(from, below, beside, below, beside, above, to, above);
      }
      push(points, to, num(top[next]) + shiftY(next));
    };
    // Inside a layer an edge runs straight down beside the taller nodes, and bends only between layers.
    let node = u;
    let level = lu;
    let from = num(cx[u]) + uOff + shiftX(lu);
    push(points, from, num(ys[u]) + num(graph.h[u]));
    for (let i = 0; i + 1 < chain.length; i += 1) {
      const dummy = num(proper.b[num(chain[i])]);
      const l = num(proper.layer[dummy]);
      const to = num(cx[dummy]) + shiftX(l);
      pass(node, level, from, to, l);
      [node, level, from] = [dummy, l, to];
    }
    const end = num(cx[v]) + vOff + shiftX(lv);
    pass(node, level, from, end, lv);
    push(points, end, num(ys[v]));
    paths[e] = simplify(points, isBack);
  }
  return {
    width: wrapped?.width ?? right - left,
    height: wrapped?.height ?? y,
    x,
    y: ys,
    layer: ranked.layer,
    top,
    bottom: top.map((at, l) => at + num(tall[l])),
    paths,
    crossings,
    columns: wrapped === null ? null : { of: ranked.layer.map(l => num(wrapped.of[l])), dx: wrapped.dx, dy: wrapped.dy }
  };
}

/** The columns that a layout is broken into; null where it stays as it is. */
function wrapOf(
  graph: IFlatGraph,
  { room, enough = 0 }: IFlatOptions,
  proper: IProper,
  layers: ILayers,
  layer: Int32Array
): IWrap | null {
  if (room === undefined || enough === 0) {
    return null;
  }
  const { seed } = graph;
  const n = layers.top.length;
  const { of, dx } = seed?.columns ?? { of: new Int32Array(0), dx: null };
  const fixed = seed === undefined ? null : keptColumns(layer, n, of, dx);
  return wrap(proper, layers, room, enough, fixed);
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
