/** The roofline: measured ceilings of the machine, and a point per kernel, in the order they are drawn. */

import type { Bound, IRooflineAnswer, IRooflinePoint } from '../../../proto/costs';

export type { Bound };

/** A ceiling: gigabytes, or giga-operations, per second. */
export interface ICeiling {
  name: string;
  rate: number;
}

export interface IPoint extends IRooflinePoint {
  /** Operations per byte; infinite when no bytes were counted. */
  intensity: number;
}

export interface IRoofline {
  device: string;
  simulated: boolean;
  note: string;
  /** Fastest first. */
  bandwidth: readonly ICeiling[];
  compute: readonly ICeiling[];
  /** Slowest first. */
  points: readonly IPoint[];
  /** Points that made no sense. */
  dropped: number;
}

function fastestFirst(ceilings: readonly ICeiling[]): ICeiling[] {
  return ceilings.filter(({ rate }) => rate > 0).sort((a, b) => b.rate - a.rate);
}

/** The roofline of an answer. */
export function rooflineOf(answer: IRooflineAnswer): IRoofline {
  const { device, simulated, note, ceilings } = answer;
  const points = answer.points
    .filter(({ flops, bytes, ns }) => flops >= 0 && bytes >= 0 && ns > 0)
    .map(point => ({
      ...point,
      // One per nanosecond is a billion per second.
      gflops: point.flops / point.ns,
      gbs: point.bytes / point.ns,
      intensity: point.bytes > 0 ? point.flops / point.bytes : Infinity
    }));
  return {
    device,
    simulated,
    note,
    bandwidth: fastestFirst(ceilings.bandwidth.map(({ name, gbs }) => ({ name, rate: gbs }))),
    compute: fastestFirst(ceilings.compute.map(({ name, gflops }) => ({ name, rate: gflops }))),
    points: points.sort((a, b) => b.ns - a.ns),
    dropped: answer.points.length - points.length
  };
}

/** `bf16` of `bf16 product`: the type of number that a compute ceiling is of; empty when it is none. */
export function typeOfCeiling(ceiling: ICeiling): string {
  return /^(?:bf|f|i|u)\d+\b/.exec(ceiling.name)?.[0] ?? '';
}

/** The roofline with compute ceilings of only the types of numbers in `types`; with all when none fits. */
export function ofTypes(roofline: IRoofline, types: ReadonlySet<string>): IRoofline {
  const compute = roofline.compute.filter(roof => {
    const type = typeOfCeiling(roof);
    return type === '' || types.has(type);
  });
  return compute.length === 0 ? roofline : { ...roofline, compute };
}
