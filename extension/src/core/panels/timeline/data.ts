/**
 * The timeline of a run as the kernel sends it: columns of numbers, one row a slice.
 *
 * Like a document, an answer can come from a saved notebook and is untrusted: what cannot be read is
 * explained, and a slice that makes no sense is left out and counted.
 */

import { readColumn, type Column } from '../../view/panel';

export type TrackKind = 'thread' | 'stream' | 'transfer' | 'compile' | 'python';

const KINDS: ReadonlySet<string> = new Set<TrackKind>([
  'thread',
  'stream',
  'transfer',
  'compile',
  'python'
]);

export interface ITrack {
  name: string;
  kind: TrackKind;
  /** Tracks of one process stand together. */
  process: string;
}

/** Slices of one or more runs; times are nanoseconds after the first slice began. */
export interface ITimeline {
  tracks: readonly ITrack[];
  names: readonly string[];
  /** Ids of the kernels of the document. */
  kernels: readonly string[];
  n: number;
  start: Float64Array;
  dur: Float64Array;
  track: Int32Array;
  /** Index in `names`. */
  name: Int32Array;
  /** Index in `kernels`, or -1. */
  kernel: Int32Array;
  /** Nesting: 0 is outermost. */
  depth: Int32Array;
  /** Launches that the slice stands for: the steps of a loop stand there once, with all turns. */
  turns: Int32Array;
  /** From the first beginning to the last end. */
  length: number;
  /** Where the times come from, when that is not this machine's CPU. */
  device: string;
  simulated: boolean;
  /** CSS colours that the user gave to spans, by name. */
  colors: ReadonlyMap<string, string>;
  /** Slices that made no sense. */
  dropped: number;
}

export type Parsed = { ok: true; timeline: ITimeline } | { ok: false; problem: string };

/** Deeper nesting than this is not of a call stack: it is an error in the data. */
const MAX_DEPTH = 1000;

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function texts(value: unknown): string[] | null {
  return Array.isArray(value) ? value.map(item => String(item)) : null;
}

function readTracks(value: unknown): ITrack[] | null {
  if (!Array.isArray(value)) {
    return null;
  }
  return value.map((item, index) => {
    const track = isObject(item) ? item : {};
    const kind = String(track.kind ?? 'thread');
    return {
      name: String(track.name ?? `track ${index}`),
      kind: (KINDS.has(kind) ? kind : 'thread') as TrackKind,
      process: String(track.process ?? '')
    };
  });
}

const COLUMNS = ['start', 'dur', 'track', 'name', 'kernel', 'depth'] as const;

/** Reads an answer to the question "timeline". */
export function parseTimeline(input: unknown, buffers: readonly ArrayBuffer[] = []): Parsed {
  const fail = (problem: string): Parsed => ({ ok: false, problem });
  if (!isObject(input)) {
    return fail('The timeline is not an object.');
  }
  if (input.version !== 1) {
    return fail(`The timeline has version ${String(input.version)}; this view reads version 1.`);
  }
  const tracks = readTracks(input.tracks);
  const names = texts(input.names);
  const kernels = texts(input.kernels);
  const { n, columns } = input;
  if (tracks === null || names === null || kernels === null || !isObject(columns)) {
    return fail('The timeline lacks its tracks, names, kernels or columns.');
  }
  if (typeof n !== 'number' || !Number.isInteger(n) || n < 0) {
    return fail('The timeline does not say how many slices it has.');
  }
  const read: Column[] = [];
  for (const name of COLUMNS) {
    try {
      const column = readColumn(columns[name], buffers);
      if (column.length !== n) {
        return fail(`The column ${name} of the timeline has ${column.length} rows, expected ${n}.`);
      }
      read.push(column);
    } catch {
      return fail(`The column ${name} of the timeline is missing or cannot be read.`);
    }
  }
  let turns: Column | null = null; // older answers have none
  if (columns.turns !== undefined) {
    try {
      turns = readColumn(columns.turns, buffers);
    } catch {
      return fail('The column turns of the timeline cannot be read.');
    }
    if (turns.length !== n) {
      return fail(`The column turns of the timeline has ${turns.length} rows, expected ${n}.`);
    }
  }
  const device = typeof input.device === 'string' ? input.device : '';
  const simulated = input.simulated === true;
  const colors = new Map<string, string>();
  for (const [name, color] of Object.entries(isObject(input.colors) ? input.colors : {})) {
    if (typeof color === 'string') {
      colors.set(name, color);
    }
  }
  const kept = keep(read, turns, tracks.length, names.length, kernels.length);
  return { ok: true, timeline: { tracks, names, kernels, device, simulated, colors, ...kept } };
}

type Columns = Pick<
  ITimeline,
  'n' | 'start' | 'dur' | 'track' | 'name' | 'kernel' | 'depth' | 'turns' | 'length' | 'dropped'
>;

/** Own columns of the slices that make sense, with times from the first one. */
function keep(
  read: readonly Column[],
  turnsOf: Column | null,
  tracks: number,
  names: number,
  kernels: number
): Columns {
  const [starts, durs, trackOf, nameOf, kernelOf, depthOf] = read as [
    Column,
    Column,
    Column,
    Column,
    Column,
    Column
  ];
  const total = starts.length;
  const start = new Float64Array(total);
  const dur = new Float64Array(total);
  const track = new Int32Array(total);
  const name = new Int32Array(total);
  const kernel = new Int32Array(total);
  const depth = new Int32Array(total);
  const turns = new Int32Array(total);
  let n = 0;
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < total; i += 1) {
    const s = starts[i] as number;
    const d = durs[i] as number;
    const t = trackOf[i] as number;
    const m = nameOf[i] as number;
    const k = kernelOf[i] as number;
    const level = depthOf[i] as number;
    const isTime = Number.isFinite(s) && Number.isFinite(d) && d >= 0;
    const isPlace = t >= 0 && t < tracks && m >= 0 && m < names && level >= 0 && level <= MAX_DEPTH;
    if (!isTime || !isPlace) {
      continue;
    }
    start[n] = s;
    dur[n] = d;
    track[n] = t;
    name[n] = m;
    kernel[n] = k >= 0 && k < kernels ? k : -1;
    depth[n] = level;
    const often = turnsOf === null ? 1 : (turnsOf[i] as number);
    turns[n] = Number.isInteger(often) && often >= 0 ? often : 1;
    first = Math.min(first, s);
    last = Math.max(last, s + d);
    n += 1;
  }
  for (let i = 0; i < n; i += 1) {
    start[i] = (start[i] as number) - first;
  }
  return {
    n,
    start: start.subarray(0, n),
    dur: dur.subarray(0, n),
    track: track.subarray(0, n),
    name: name.subarray(0, n),
    kernel: kernel.subarray(0, n),
    depth: depth.subarray(0, n),
    turns: turns.subarray(0, n),
    length: n === 0 ? 0 : last - first,
    dropped: total - n
  };
}
