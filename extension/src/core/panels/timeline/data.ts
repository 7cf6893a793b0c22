/**
 * The timeline of a run: columns of numbers, one row a slice.
 *
 * An answer can come from a saved notebook: columns of other lengths are explained, and a slice that
 * makes no sense is left out and counted.
 */

import type { ITimelineAnswer } from '../../../proto/costs';
import type { ITimelineTrack } from '../../../proto/told';
import { num } from '../../num';
import { readColumn, type Column } from '../../view/panel';

export type ITrack = ITimelineTrack;
export type TrackKind = ITrack['kind'];

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

/** Deeper nesting than this is not of a call stack: it is an error in the data. */
const MAX_DEPTH = 1000;

type ColumnName = 'start' | 'dur' | 'track' | 'name' | 'kernel' | 'depth';

/** The timeline of an answer; throws a sentence when a column cannot be read, or is too short. */
export function timelineOf(
  answer: ITimelineAnswer,
  buffers: readonly ArrayBuffer[] = []
): ITimeline {
  const { tracks, names, kernels, device, simulated, n, columns } = answer;
  const column = (name: ColumnName | 'turns', ref: ITimelineAnswer['columns'][ColumnName]): Column => {
    const read = readColumn(ref, buffers);
    if (read.length !== n) {
      throw new Error(`The column ${name} of the timeline has ${read.length} rows, expected ${n}.`);
    }
    return read;
  };
  const read = {
    start: column('start', columns.start),
    dur: column('dur', columns.dur),
    track: column('track', columns.track),
    name: column('name', columns.name),
    kernel: column('kernel', columns.kernel),
    depth: column('depth', columns.depth)
  };
  const turns = columns.turns === undefined ? null : column('turns', columns.turns);
  const kept = keep(read, turns, tracks.length, names.length, kernels.length);
  const colors = new Map(Object.entries(answer.colors));
  return { tracks, names, kernels, device, simulated, colors, ...kept };
}

type Columns = Pick<
  ITimeline,
  'n' | 'start' | 'dur' | 'track' | 'name' | 'kernel' | 'depth' | 'turns' | 'length' | 'dropped'
>;

/** Own columns of the slices that make sense, with times from the first one. */
function keep(
  read: Record<ColumnName, Column>,
  turnsOf: Column | null,
  tracks: number,
  names: number,
  kernels: number
): Columns {
  const { start: starts, dur: durs } = read;
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
    const s = num(starts[i]);
    const d = num(durs[i]);
    const t = num(read.track[i]);
    const m = num(read.name[i]);
    const k = num(read.kernel[i]);
    const level = num(read.depth[i]);
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
    const often = turnsOf === null ? 1 : num(turnsOf[i]);
    turns[n] = Number.isInteger(often) && often >= 0 ? often : 1;
    first = Math.min(first, s);
    last = Math.max(last, s + d);
    n += 1;
  }
  for (let i = 0; i < n; i += 1) {
    start[i] = num(start[i]) - first;
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
