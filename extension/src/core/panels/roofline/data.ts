/** The roofline as the kernel sends it: measured ceilings of the machine, and a point per kernel. */

export type Bound = 'bandwidth' | 'compute' | 'launch' | 'imbalance';

const BOUNDS: ReadonlySet<string> = new Set<Bound>(['bandwidth', 'compute', 'launch', 'imbalance']);

/** A ceiling: gigabytes, or giga-operations, per second. */
export interface ICeiling {
  name: string;
  rate: number;
}

export interface IPoint {
  kernel: string;
  flops: number;
  bytes: number;
  ns: number;
  /** Giga-operations and gigabytes per second that were reached. */
  gflops: number;
  gbs: number;
  /** Operations per byte; infinite when no bytes were counted. */
  intensity: number;
  bound: Bound | null;
  /** How near to its ceiling: 0 to 1. */
  fraction: number | null;
  /** The level of memory that most bytes come from. */
  level: string;
  /** What holds the kernel back, in a sentence. */
  why: string;
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

export type ParsedRoofline = { ok: true; roofline: IRoofline } | { ok: false; problem: string };

type Fields = Record<string, unknown>;

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function ceilings(value: unknown, field: string): ICeiling[] {
  return (Array.isArray(value) ? value : [])
    .filter(isObject)
    .flatMap(item => {
      const rate = item[field];
      return isAmount(rate) && rate > 0 ? [{ name: text(item.name), rate }] : [];
    })
    .sort((a, b) => b.rate - a.rate);
}

function point(value: unknown): IPoint | null {
  if (!isObject(value) || typeof value.kernel !== 'string') {
    return null;
  }
  const { kernel, flops, bytes, ns, bound, fraction } = value;
  if (!isAmount(flops) || !isAmount(bytes) || !isAmount(ns) || ns === 0) {
    return null;
  }
  return {
    kernel,
    flops,
    bytes,
    ns,
    // One per nanosecond is a billion per second.
    gflops: flops / ns,
    gbs: bytes / ns,
    intensity: bytes > 0 ? flops / bytes : Infinity,
    bound: BOUNDS.has(String(bound)) ? (bound as Bound) : null,
    fraction: isAmount(fraction) ? fraction : null,
    level: text(value.level),
    why: text(value.why)
  };
}

/** Reads an answer to the question "roofline". */
export function parseRoofline(input: unknown): ParsedRoofline {
  if (!isObject(input)) {
    return { ok: false, problem: 'The roofline is not an object.' };
  }
  if (input.version !== 1) {
    const version = String(input.version);
    return {
      ok: false,
      problem: `The roofline has version ${version}; this view reads version 1.`
    };
  }
  if (!Array.isArray(input.points)) {
    return { ok: false, problem: 'The roofline has no points.' };
  }
  const points = input.points.map(point).filter(found => found !== null);
  const roofs = isObject(input.ceilings) ? input.ceilings : {};
  return {
    ok: true,
    roofline: {
      device: text(input.device),
      simulated: input.simulated === true,
      note: text(input.note),
      bandwidth: ceilings(roofs.bandwidth, 'gbs'),
      compute: ceilings(roofs.compute, 'gflops'),
      points: points.sort((a, b) => b.ns - a.ns),
      dropped: input.points.length - points.length
    }
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
