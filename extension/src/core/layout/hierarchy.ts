/**
 * Layout of nested containers, innermost first. A container is laid out once for its inside alone and
 * remembered by the hash of that inside: identical layers, and everything that a fold did not touch,
 * cost nothing.
 *
 * The request and the answer are plain data, so that both can cross to a worker.
 */

import { layoutFlat } from './flat';
import type { IHeld } from './held';
import { layoutHeld } from './holding';
import { Pin } from './rank';
import type { ISeed } from './seeded';
import type { IRoom } from './wrap';
import type { IColumns } from '../model/scene';
import { num } from '../num';

export interface ILayoutContainer {
  /** Sizes of the children; those of nested containers are filled in by the layout. */
  w: number[];
  h: number[];
  /** Index of the container inside each child, or -1. */
  nested: number[];
  nIn: number;
  nOut: number;
  /** Nodes are children, then in-ports, then out-ports. Ports count on nested children, -1 for none. */
  src: number[];
  srcPort: number[];
  dst: number[];
  dstPort: number[];
  /** Of every edge: 1 when it is the way back of a loop, which goes round at the side. */
  turn: number[];
  /** Of each child, the room that is kept behind it for what is written on its edges; none by default. */
  stub?: number[];
  padTop: number;
  padBottom: number;
  padLeft: number;
  padRight: number;
  minWidth: number;
  minHeight: number;
  /** Where people put what is in it; left out where they put nothing. */
  held?: IHeld;
}

/** Containers, inner before outer; the last one is the root. */
export interface ILayoutRequest {
  containers: ILayoutContainer[];
  nodeGap: number;
  edgeGap: number;
  layerGap: number;
  stubGap: number;
  /** Milliseconds after which refinement stops; the result is complete all the same. */
  budgetMs: number;
  /** The window that it is for: what is much taller is broken into columns. */
  room?: IRoom;
}

export interface ILayoutResult {
  w: number;
  h: number;
  /** Top left corners of the children, relative to the container. */
  x: Float64Array;
  y: Float64Array;
  inX: Float64Array;
  outX: Float64Array;
  /** Points relative to the container. */
  paths: Float32Array[];
  crossings: number;
  /** The columns of the children and then the ports; null where there is one. */
  columns: IColumns | null;
  /** Where the origin of places is, from its top left corner; left out where that is the origin. */
  origin?: { x: number; y: number };
  /** Of each child, where it stands when it has no place, from the origin; where some have one. */
  autoX?: Float64Array;
  autoY?: Float64Array;
}

export type LayoutCache = Map<string, ILayoutResult>;

const MAX_CACHED = 400;

/** Layouts that fit their window in this zoom stay in one column: all of a graph, and inside a box. */
const ENOUGH = 0.85;
const ENOUGH_INSIDE = 0.75;

/** 64 bits as text, of the numbers that decide the layout of a container. */
class Hash {
  private _a = 0x811c9dc5;
  private _b = 0x9e3779b9;
  private _count = 0;

  add(value: number): void {
    const v = Math.round(value * 8) | 0;
    this._a = Math.imul(this._a ^ v, 0x01000193);
    this._b = Math.imul(this._b ^ (v + this._count), 0x85ebca6b);
    this._b ^= this._b >>> 13;
    this._count += 1;
  }

  list(values: ArrayLike<number>): void {
    this.add(values.length);
    for (let i = 0; i < values.length; i += 1) {
      this.add(num(values[i]));
    }
  }

  text(): string {
    return `${this._a >>> 0}:${this._b >>> 0}:${this._count}`;
  }
}

/**
 * The layouts of all containers of `request`, in its order. A container with a seed keeps the columns
 * of an earlier layout.
 */
export function layoutHierarchy(
  request: ILayoutRequest,
  cache: LayoutCache,
  now: () => number,
  seeds: readonly (ISeed | null)[] = []
): ILayoutResult[] {
  const deadline = now() + request.budgetMs;
  const results: ILayoutResult[] = [];
  for (const container of request.containers) {
    const n = container.w.length;
    const w = container.w.slice();
    const h = container.h.slice();
    for (let i = 0; i < n; i += 1) {
      const inner = results[num(container.nested[i])];
      if (inner !== undefined) {
        w[i] = inner.w;
        h[i] = inner.h;
      }
    }
    const m = container.src.length;
    const srcOff = new Float64Array(m);
    const dstOff = new Float64Array(m);
    for (let e = 0; e < m; e += 1) {
      srcOff[e] = portOffset(container, results, num(container.src[e]), num(container.srcPort[e]), true);
      dstOff[e] = portOffset(container, results, num(container.dst[e]), num(container.dstPort[e]), false);
    }
    const hash = new Hash();
    const { stub = [] } = container;
    [w, h, stub, container.src, container.dst, container.turn, srcOff, dstOff].forEach(list => hash.list(list));
    const { room } = request;
    const { padTop, padBottom, padLeft, padRight, minWidth, minHeight } = container;
    const size = [padTop, padBottom, padLeft, padRight, minWidth, minHeight, room?.w ?? 0, room?.h ?? 0];
    [container.nIn, container.nOut, ...size].forEach(v => hash.add(v));
    const key = hash.text();
    if (container.held !== undefined) {
      const measured = { w, h, srcOff, dstOff, seed: null };
      const byLayers = (): ILayoutResult => layoutContainer(container, measured, request, deadline, now);
      results.push(layoutHeld(container, container.held, measured, request, byLayers));
      continue;
    }
    const seed = seeds[results.length] ?? null;
    let result = seed === null ? cache.get(key) : undefined;
    if (result === undefined) {
      result = layoutContainer(container, { w, h, srcOff, dstOff, seed }, request, deadline, now);
      if (cache.size >= MAX_CACHED) {
        cache.clear();
      }
      cache.set(key, result);
    }
    results.push(result);
  }
  return results;
}

function portOffset(
  container: ILayoutContainer,
  results: readonly ILayoutResult[],
  node: number,
  port: number,
  isSource: boolean
): number {
  const inner = results[container.nested[node] ?? -1];
  if (inner === undefined || port < 0) {
    return 0;
  }
  const at = (isSource ? inner.outX : inner.inX)[port];
  return at === undefined ? 0 : at - inner.w / 2;
}

const PORT_WIDTH = 8;

/** What is known of a container once those inside of it are laid out. */
export interface IMeasured {
  w: readonly number[];
  h: readonly number[];
  srcOff: Float64Array;
  dstOff: Float64Array;
  seed: ISeed | null;
}

function layoutContainer(
  container: ILayoutContainer,
  { w, h, srcOff, dstOff, seed }: IMeasured,
  request: ILayoutRequest,
  deadline: number,
  now: () => number
): ILayoutResult {
  const n = w.length;
  const { nIn, nOut } = container;
  const ports = nIn + nOut;
  const pin = new Uint8Array(n + ports);
  pin.fill(Pin.First, n, n + nIn);
  pin.fill(Pin.Last, n + nIn);
  const flat = layoutFlat(
    {
      w: [...w, ...new Array<number>(ports).fill(PORT_WIDTH)],
      h: [...h, ...new Array<number>(ports).fill(0)],
      pin,
      src: container.src,
      dst: container.dst,
      srcOff,
      dstOff,
      turn: container.turn,
      stub: container.stub ?? [],
      ...(seed === null ? {} : { seed })
    },
    {
      node: request.nodeGap,
      edge: request.edgeGap,
      layer: request.layerGap,
      stub: request.stubGap,
      deadline,
      now,
      ...(request.room === undefined ? {} : { room: request.room }),
      enough: container.padTop === 0 ? ENOUGH : ENOUGH_INSIDE
    }
  );
  const { padTop, padBottom, padLeft, padRight } = container;
  const width = Math.max(container.minWidth, flat.width + padLeft + padRight);
  const dx = padLeft + (width - flat.width - padLeft - padRight) / 2;
  const height = Math.max(container.minHeight, flat.height + padTop + padBottom);
  const dy = padTop + (height - flat.height - padTop - padBottom) / 2;
  const x = flat.x.subarray(0, n).map(v => v + dx);
  const y = flat.y.subarray(0, n).map(v => v + dy);
  const portX = (from: number, to: number): Float64Array =>
    flat.x.subarray(from, to).map(v => v + dx + PORT_WIDTH / 2);
  for (const points of flat.paths) {
    for (let i = 0; i < points.length; i += 2) {
      points[i] = num(points[i]) + dx;
      points[i + 1] = num(points[i + 1]) + dy;
    }
  }
  // Ports lie on the border: the edge runs straight through the padding and bends only after it.
  const paths = flat.paths.map((points, e) => {
    const fromPort = num(container.src[e]) >= n;
    const toPort = num(container.dst[e]) >= n;
    if (!fromPort && !toPort) {
      return points;
    }
    const longer: number[] = Array.from(points);
    if (fromPort) {
      longer.unshift(num(points[0]), 0);
    }
    if (toPort) {
      longer.push(num(points[points.length - 2]), height);
    }
    return Float32Array.from(longer);
  });
  return {
    w: width,
    h: height,
    x,
    y,
    inX: portX(n, n + nIn),
    outX: portX(n + nIn, n + ports),
    paths,
    crossings: flat.crossings,
    columns: flat.columns
  };
}
