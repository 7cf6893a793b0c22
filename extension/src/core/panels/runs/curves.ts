/** Where the curves of a sweep are: logarithmic axes, a point for each size, the quartiles around. */

import type { ICurve, ISweep } from './data';

export interface IRange {
  from: number;
  to: number;
}

export interface IArea {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface ICurvePoint {
  /** Index of the size in the sweep. */
  index: number;
  size: number;
  value: number;
  x: number;
  y: number;
  /** Of the quartiles. */
  yLow: number;
  yHigh: number;
}

export interface IDrawn {
  curve: ICurve;
  points: ICurvePoint[];
}

export interface ILayout {
  area: IArea;
  x: IRange;
  y: IRange;
  drawn: IDrawn[];
}

export interface ITick {
  /** Power of ten, a logarithm. */
  log: number;
  value: number;
  isMajor: boolean;
}

const LEFT_PX = 58;
const BOTTOM_PX = 34;
const TOP_PX = 10;
const RIGHT_PX = 14;
const HIT_PX = 14;
/** Ticks nearer than this have no label. */
const LABEL_PX = 34;

/** Sizes of `dim` with all other dims at their last size: indices of points, in order of size. */
export function along(sweep: ISweep, dim: string): number[] {
  const last = sweep.points[sweep.points.length - 1];
  return sweep.points
    .map((_, index) => index)
    .filter(index =>
      sweep.dims.every(
        other => other === dim || sweep.points[index]?.[other] === last?.[other]
      )
    )
    .sort((a, b) => sizeOf(sweep, a, dim) - sizeOf(sweep, b, dim));
}

export function sizeOf(sweep: ISweep, index: number, dim: string): number {
  return sweep.points[index]?.[dim] ?? 0;
}

function rangeOf(values: readonly number[], least: number, room: number): IRange {
  const logs = values.filter(value => value > 0 && Number.isFinite(value)).map(Math.log10);
  if (logs.length === 0) {
    return { from: 0, to: 1 };
  }
  const from = logs.reduce((a, b) => Math.min(a, b));
  const to = logs.reduce((a, b) => Math.max(a, b));
  const more = Math.max(room, (least - (to - from)) / 2);
  return { from: from - more, to: to + more };
}

/**
 * The curves of a sweep in `width` × `height`; `isEach` divides each time by the size, so that what
 * does not grow shows as a fall.
 */
export function layoutCurves(
  sweep: ISweep,
  curves: readonly ICurve[],
  dim: string,
  isEach: boolean,
  width: number,
  height: number
): ILayout {
  const area = {
    x: LEFT_PX,
    y: TOP_PX,
    w: Math.max(1, width - LEFT_PX - RIGHT_PX),
    h: Math.max(1, height - TOP_PX - BOTTOM_PX)
  };
  const indices = along(sweep, dim).filter(index => sizeOf(sweep, index, dim) > 0);
  const sizes = indices.map(index => sizeOf(sweep, index, dim));
  const value = (column: readonly number[], index: number): number =>
    (column[index] ?? 0) / (isEach ? sizeOf(sweep, index, dim) : 1);
  const x = rangeOf(sizes, 0.3, 0.06);
  const y = rangeOf(
    curves.flatMap(curve => indices.map(index => value(curve.ns, index))),
    0.6,
    0.12
  );
  const atX = (size: number): number =>
    area.x + ((Math.log10(size) - x.from) / (x.to - x.from)) * area.w;
  const atY = (amount: number): number =>
    area.y + area.h - ((Math.log10(Math.max(amount, 1e-9)) - y.from) / (y.to - y.from)) * area.h;
  const drawn = curves.map(curve => ({
    curve,
    points: indices
      .filter(index => (curve.ns[index] ?? 0) > 0)
      .map(index => ({
        index,
        size: sizeOf(sweep, index, dim),
        value: value(curve.ns, index),
        x: atX(sizeOf(sweep, index, dim)),
        y: atY(value(curve.ns, index)),
        yLow: atY(value(curve.low, index) || value(curve.ns, index)),
        yHigh: atY(value(curve.high, index) || value(curve.ns, index))
      }))
  }));
  return { area, x, y, drawn };
}

/** The point under the pointer; null when none is near. */
export function pointAt(
  layout: ILayout,
  x: number,
  y: number
): { drawn: IDrawn; point: ICurvePoint } | null {
  let best: { drawn: IDrawn; point: ICurvePoint } | null = null;
  let nearest = HIT_PX * HIT_PX;
  for (const drawn of layout.drawn) {
    for (const point of drawn.points) {
      const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
      // Later curves are drawn over earlier ones.
      if (distance <= nearest) {
        nearest = distance;
        best = { drawn, point };
      }
    }
  }
  return best;
}

/** Ticks at 1, 2 and 5 times the powers of ten in a range that is drawn `room` pixels long. */
export function ticksOf({ from, to }: IRange, room: number): ITick[] {
  const ticks: ITick[] = [];
  const decade = room / Math.max(to - from, 1e-9);
  const steps = decade > 4 * LABEL_PX ? [1, 2, 5] : [1];
  const jump = Math.max(1, Math.ceil(LABEL_PX / decade));
  for (let power = Math.floor(from); power <= Math.ceil(to); power += 1) {
    for (const step of steps) {
      const log = power + Math.log10(step);
      if (log >= from && log <= to && (step > 1 || power % jump === 0)) {
        ticks.push({ log, value: step * 10 ** power, isMajor: step === 1 });
      }
    }
  }
  return ticks;
}

/** Sizes that get a label below the axis: all, or those that have room. */
export function labelledSizes(points: readonly ICurvePoint[]): ICurvePoint[] {
  const shown: ICurvePoint[] = [];
  for (const point of points) {
    if (point.x - (shown[shown.length - 1]?.x ?? -Infinity) >= LABEL_PX) {
      shown.push(point);
    }
  }
  return shown;
}

/** Sizes to offer for a dim: powers of two up to twice what it was, and what it was. */
export function suggestedSizes(current: number): number[] {
  const most = Math.max(8, current * 2);
  const sizes = new Set<number>(current > 0 ? [current] : []);
  for (let size = 1; size <= most; size *= 2) {
    sizes.add(size);
  }
  const sorted = [...sizes].sort((a, b) => a - b);
  return sorted.slice(-10);
}

/** The sizes in what somebody typed, or why there are none. */
export function readSizes(typed: string): number[] | string {
  const words = typed.split(/[\s,;]+/).filter(Boolean);
  const sizes = words.map(Number);
  if (words.length === 0) {
    return 'Type sizes, such as 1 2 4 8.';
  }
  const wrong = words.find((_, i) => !Number.isSafeInteger(sizes[i]) || (sizes[i] ?? 0) < 1);
  return wrong === undefined ? sizes : `“${wrong}” is not a size: sizes are whole numbers from 1.`;
}
