/**
 * Where everything of a roofline is: two logarithmic axes, the ceilings as lines, the kernels as points
 * whose area is their time, and a strip beside the chart for kernels that only move data.
 */

import type { ICeiling, IPoint, IRoofline } from './data';
import { at } from '../../narrow';

export interface IBox {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Place of the axes' labels, in pixels. */
export const AXIS_LEFT_PX = 48;
export const AXIS_BOTTOM_PX = 34;
const TOP_PX = 10;
const RIGHT_PX = 12;
/** Room for kernels without operations: their axis and their points. */
const STRIP_PX = 96;
const STRIP_GAP_PX = 14;
/** Where in the strip a point is put, as a part of its width; the next one takes the next place. */
const LANES = [0.5, 0.25, 0.75, 0.375, 0.625];

const MIN_DECADES = 0.05;
const MAX_DECADES = 14;

/** A span of one axis, in powers of ten. */
export interface IDecades {
  from: number;
  to: number;
}

/** The part of the chart that is shown. */
export class ChartWindow {
  x: IDecades = { from: -2, to: 3 };
  y: IDecades = { from: -1, to: 3 };
  private _fit: { x: IDecades; y: IDecades } = { x: this.x, y: this.y };

  /** Sets what `fit` shows. */
  setFit(x: IDecades, y: IDecades): void {
    this._fit = { x: { ...x }, y: { ...y } };
    this.fit();
  }

  fit(): void {
    this.x = { ...this._fit.x };
    this.y = { ...this._fit.y };
  }

  /** Scales both axes by `factor` (above 1 is closer) about a place: fractions of the window. */
  zoom(factor: number, partX = 0.5, partY = 0.5): void {
    this.x = scaled(this.x, factor, partX);
    this.y = scaled(this.y, factor, partY);
    this._keep();
  }

  /** Moves by fractions of the window. */
  pan(partX: number, partY: number): void {
    const dx = partX * (this.x.to - this.x.from);
    const dy = partY * (this.y.to - this.y.from);
    this.x = { from: this.x.from + dx, to: this.x.to + dx };
    this.y = { from: this.y.from + dy, to: this.y.to + dy };
    this._keep();
  }

  /** Moves to a place, when it is not shown. */
  reveal(x: number, y: number): void {
    const dx = x < this.x.from || x > this.x.to ? x - (this.x.from + this.x.to) / 2 : 0;
    const dy = y < this.y.from || y > this.y.to ? y - (this.y.from + this.y.to) / 2 : 0;
    this.pan(dx / (this.x.to - this.x.from), dy / (this.y.to - this.y.from));
  }

  /** Keeps a part of what `fit` shows in the window. */
  private _keep(): void {
    for (const [axis, whole] of [[this.x, this._fit.x], [this.y, this._fit.y]] as const) {
      const size = axis.to - axis.from;
      const least = Math.min(size, whole.to - whole.from) * 0.25;
      const from = Math.min(whole.to - least, Math.max(whole.from - size + least, axis.from));
      axis.from = from;
      axis.to = from + size;
    }
  }
}

function scaled({ from, to }: IDecades, factor: number, part: number): IDecades {
  const size = Math.min(MAX_DECADES, Math.max(MIN_DECADES, (to - from) / factor));
  const at = from + (to - from) * part;
  return { from: at - part * size, to: at + (1 - part) * size };
}

/** Kernels that compute something have a place in the chart, the others in the strip. */
export function isMoveOnly(point: IPoint): boolean {
  return point.flops === 0 && point.bytes > 0;
}

export function hasStrip(roofline: IRoofline): boolean {
  return roofline.points.some(isMoveOnly);
}

/** Smallest and largest with room around them, at least `least` decades. */
function around(values: readonly number[], least: number): IDecades {
  const logs = values.filter(v => v > 0 && Number.isFinite(v)).map(Math.log10);
  if (logs.length === 0) {
    return { from: -least / 2, to: least / 2 };
  }
  const from = Math.min(...logs) - 0.35;
  const to = Math.max(...logs) + 0.35;
  const more = Math.max(0, least - (to - from)) / 2;
  return { from: from - more, to: to + more };
}

/** Spans that show all points, the ridges and the highest ceilings. */
export function fitRoofline(roofline: IRoofline): { x: IDecades; y: IDecades } {
  const { points, bandwidth, compute } = roofline;
  const drawn = points.filter(point => point.flops > 0);
  const peak = compute[0]?.rate ?? 0;
  const ridges = bandwidth.map(roof => peak / roof.rate);
  return {
    x: around([...drawn.map(point => point.intensity), ...ridges], 2),
    y: around([...drawn.map(point => point.gflops), ...compute.map(roof => roof.rate)], 2)
  };
}

/** Span of the strip: gigabytes per second. */
export function fitStrip(roofline: IRoofline): IDecades {
  const moves = roofline.points.filter(isMoveOnly);
  return around([...moves.map(p => p.gbs), ...roofline.bandwidth.map(r => r.rate)], 1);
}

export interface ILayout {
  chart: IBox;
  strip: IBox | null;
}

export function layout(width: number, height: number, withStrip: boolean): ILayout {
  const h = Math.max(20, height - TOP_PX - AXIS_BOTTOM_PX);
  const left = AXIS_LEFT_PX + (withStrip ? STRIP_PX + STRIP_GAP_PX + AXIS_LEFT_PX : 0);
  const chart = { x: left, y: TOP_PX, w: Math.max(20, width - left - RIGHT_PX), h };
  const strip = withStrip ? { x: AXIS_LEFT_PX, y: TOP_PX, w: STRIP_PX, h } : null;
  return { chart, strip };
}

export function toX(box: IBox, window: IDecades, log: number): number {
  return box.x + ((log - window.from) / (window.to - window.from)) * box.w;
}

export function toY(box: IBox, window: IDecades, log: number): number {
  return box.y + box.h - ((log - window.from) / (window.to - window.from)) * box.h;
}

export interface ILine {
  ceiling: ICeiling;
  kind: 'bandwidth' | 'compute';
  /** Ends, as logarithms of operations per byte and of giga-operations per second. */
  from: readonly [number, number];
  to: readonly [number, number];
}

/**
 * The ceilings as lines: bandwidth rises to the highest compute ceiling, compute goes on from the
 * fastest bandwidth. Lines end at the window's sides where nothing else ends them.
 */
export function ceilingLines(roofline: IRoofline, x: IDecades, y: IDecades): ILine[] {
  const { bandwidth, compute } = roofline;
  const peak = compute[0] === undefined ? Infinity : Math.log10(compute[0].rate);
  const fastest = bandwidth[0] === undefined ? Infinity : Math.log10(bandwidth[0].rate);
  const lines: ILine[] = [];
  for (const ceiling of bandwidth) {
    const rate = Math.log10(ceiling.rate);
    const right = Math.min(x.to, peak - rate, y.to - rate);
    // A line begins where it comes into the window, from below or from the left.
    const left = Math.max(x.from, y.from - rate);
    if (right > left) {
      const from = [left, left + rate] as const;
      lines.push({ ceiling, kind: 'bandwidth', from, to: [right, right + rate] });
    }
  }
  for (const ceiling of compute) {
    const rate = Math.log10(ceiling.rate);
    const left = Math.max(x.from, rate - fastest);
    if (x.to > left && rate > y.from && rate < y.to) {
      lines.push({ ceiling, kind: 'compute', from: [left, rate], to: [x.to, rate] });
    }
  }
  return lines;
}

export interface IDot {
  point: IPoint;
  x: number;
  y: number;
  r: number;
  isMove: boolean;
}

const MIN_DOT_PX = 3.5;
const MAX_DOT_PX = 17;

/** The points in pixels; areas are times. Largest first, so that small ones are drawn over them. */
export function placeDots(
  roofline: IRoofline,
  { chart, strip }: ILayout,
  window: ChartWindow,
  stripSpan: IDecades
): IDot[] {
  const most = roofline.points[0]?.ns ?? 1;
  // A thousand kernels of equal time have to leave room for each other.
  const room = Math.min(MAX_DOT_PX, 60 / Math.sqrt(Math.max(1, roofline.points.length / 4)));
  const dots: IDot[] = [];
  let moves = 0;
  for (const point of roofline.points) {
    const r = Math.max(MIN_DOT_PX, Math.sqrt(point.ns / most) * Math.max(room, 6));
    if (isMoveOnly(point)) {
      if (strip !== null) {
        const y = toY(strip, stripSpan, Math.log10(point.gbs));
        // The strip has no axis across: points are put side by side, so that none hides another.
        const lane = at(LANES, moves % LANES.length);
        moves += 1;
        dots.push({ point, x: strip.x + strip.w * lane, y, r, isMove: true });
      }
    } else if (point.flops > 0) {
      const intensity = Math.log10(point.intensity);
      const x = Number.isFinite(intensity) ? toX(chart, window.x, intensity) : chart.x + chart.w - r;
      dots.push({ point, x, y: toY(chart, window.y, Math.log10(point.gflops)), r, isMove: false });
    }
  }
  return dots;
}

export function isInside(box: IBox, x: number, y: number): boolean {
  return x >= box.x && x <= box.x + box.w && y >= box.y && y <= box.y + box.h;
}

/** Dots that lie in their part of the drawing. */
export function shownDots(dots: readonly IDot[], { chart, strip }: ILayout): IDot[] {
  return dots.filter(dot => {
    const box = dot.isMove ? strip : chart;
    return box !== null && isInside(box, dot.x, dot.y);
  });
}

/** The dot at a place: of several the smallest, which is drawn on top. */
export function hitDot(dots: readonly IDot[], x: number, y: number): IDot | null {
  let best: IDot | null = null;
  for (const dot of dots) {
    const reach = Math.max(dot.r + 1, 7);
    if (Math.hypot(dot.x - x, dot.y - y) <= reach && (best === null || dot.r <= best.r)) {
      best = dot;
    }
  }
  return best;
}

export interface INamed {
  dot: IDot;
  text: string;
}

/** Kernels of one name that lie on each other get one label: `attention ×4`. */
export function groupNames(dots: readonly IDot[], nameOf: (dot: IDot) => string): INamed[] {
  const groups: { dot: IDot; name: string; count: number }[] = [];
  const byName = new Map<string, (typeof groups)[number][]>();
  for (const dot of dots) {
    const name = nameOf(dot);
    const same = byName.get(name) ?? [];
    byName.set(name, same);
    const near = same.find(
      group => Math.hypot(group.dot.x - dot.x, group.dot.y - dot.y) <= group.dot.r + dot.r
    );
    if (near !== undefined) {
      near.count += 1;
    } else {
      const group = { dot, name, count: 1 };
      same.push(group);
      groups.push(group);
    }
  }
  return groups.map(({ dot, name, count }) => ({
    dot,
    text: count > 1 ? `${name} ×${count}` : name
  }));
}

export interface ILabel {
  dot: IDot;
  text: string;
  box: IBox;
}

/** Sides of a dot where its label may stand, best first: directions of its middle. */
const SIDES: readonly (readonly [number, number])[] = [
  [1, 0],
  [-1, 0],
  [0, -1],
  [0, 1],
  [1, -1],
  [1, 1],
  [-1, -1],
  [-1, 1]
];

const LABEL_H = 13;

function overlaps(a: IBox, b: IBox): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

/**
 * Labels beside their dots that cover no other label, none of `dots` and nothing in `taken`; the first
 * named first. A dot without a free side stays without a label.
 */
export function placeLabels(
  named: readonly INamed[],
  dots: readonly IDot[],
  widthOf: (text: string) => number,
  boxOf: (dot: IDot) => IBox,
  taken: readonly IBox[],
  limit: number
): ILabel[] {
  const blocked = [...taken];
  const discs = dots.map(dot => ({
    dot,
    x: dot.x - dot.r * 0.8,
    y: dot.y - dot.r * 0.8,
    w: dot.r * 1.6,
    h: dot.r * 1.6
  }));
  const labels: ILabel[] = [];
  for (const { dot, text } of named) {
    if (labels.length >= limit) {
      break;
    }
    const w = widthOf(text) + 2;
    const room = boxOf(dot);
    for (const [sx, sy] of SIDES) {
      const x = dot.x + sx * (dot.r + 3) - (sx < 0 ? w : sx === 0 ? w / 2 : 0);
      const y = dot.y + sy * (dot.r + 2) - (sy < 0 ? LABEL_H : sy === 0 ? LABEL_H / 2 : 0);
      const box = { x, y, w, h: LABEL_H };
      const isFree =
        isInside(room, x, y) &&
        isInside(room, x + w, y + LABEL_H) &&
        !blocked.some(other => overlaps(box, other)) &&
        !discs.some(other => other.dot !== dot && overlaps(box, other));
      if (isFree) {
        labels.push({ dot, text, box });
        blocked.push(box);
        break;
      }
    }
  }
  return labels;
}

export interface ILogTick {
  log: number;
  label: string;
  isMajor: boolean;
}

/** Ticks at powers of ten; with few of them in the window also at their multiples. */
export function logTicks({ from, to }: IDecades, room: number): ILogTick[] {
  const perDecade = room / (to - from);
  const factors = perDecade > 160 ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : perDecade > 70 ? [1, 2, 5] : [1];
  const stride = Math.max(1, Math.ceil(36 / perDecade));
  const found: ILogTick[] = [];
  for (let power = Math.floor(from); power <= Math.ceil(to); power += 1) {
    for (const factor of factors) {
      const log = power + Math.log10(factor);
      if (log >= from && log <= to && (factor > 1 || power % stride === 0)) {
        const label = perDecade > 420 || factor === 1 || factor === 2 || factor === 5;
        found.push({ log, label: label ? amount(factor, power) : '', isMajor: factor === 1 });
      }
    }
  }
  return found;
}

/** `0.05`, `20`, `5k`, `2M`: a factor times a power of ten, in few characters. */
function amount(factor: number, power: number): string {
  if (power >= 6) {
    return `${factor * 10 ** (power - 6)}M`;
  }
  if (power >= 3) {
    return `${factor * 10 ** (power - 3)}k`;
  }
  return power >= 0 ? String(factor * 10 ** power) : (factor * 10 ** power).toFixed(-power);
}
