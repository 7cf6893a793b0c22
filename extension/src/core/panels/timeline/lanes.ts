/**
 * Slices in lanes: rows of one track in which nothing overlaps, so that both beginnings and ends are
 * sorted and every question about a time is a binary search.
 */

import type { ITimeline } from './data';
import { num } from '../../num';
import { at } from '../../narrow';

/** A row of slices that do not overlap, in the order of time. */
export class Lane {
  /** Sums of durations before each slice, for how much of a span is busy. */
  private _busy: Float64Array | null = null;
  /** A tree of the longest slice: leaves are behind its middle. */
  private _longest: Int32Array | null = null;

  constructor(
    readonly track: number,
    readonly depth: number,
    /** Indexes in the timeline. */
    readonly slices: Int32Array,
    readonly starts: Float64Array,
    readonly ends: Float64Array
  ) {}

  get length(): number {
    return this.slices.length;
  }

  /** Position of the first slice that ends after `time`, from `from` on; `length` when none does. */
  after(time: number, from = 0): number {
    const { ends } = this;
    const n = ends.length;
    // Mostly the next few slices: doubling steps find the range, halving the place.
    let step = 1;
    let low = from;
    let high = from;
    while (high < n && num(ends[high]) <= time) {
      low = high + 1;
      high += step;
      step *= 2;
    }
    high = Math.min(high, n);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (num(ends[middle]) <= time) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /** Position of the slice at `time`, or -1 between slices. */
  at(time: number): number {
    const i = this.after(time);
    return i < this.length && num(this.starts[i]) <= time ? i : -1;
  }

  /** Nanoseconds of `[from, to)` that slices take. */
  busy(from: number, to: number): number {
    const { starts, ends } = this;
    const first = this.after(from);
    let last = this.after(to, first);
    if (last < this.length && num(starts[last]) < to) {
      last += 1;
    }
    if (last <= first) {
      return 0;
    }
    const head = Math.max(0, from - num(starts[first]));
    const tail = Math.max(0, num(ends[last - 1]) - to);
    return Math.max(0, this.sum(first, last) - head - tail);
  }

  /** Nanoseconds of the slices in positions `[from, to)`. */
  sum(from: number, to: number): number {
    let busy = this._busy;
    if (busy === null) {
      busy = new Float64Array(this.length + 1);
      for (let i = 0; i < this.length; i += 1) {
        const size = num(this.ends[i]) - num(this.starts[i]);
        busy[i + 1] = num(busy[i]) + size;
      }
      this._busy = busy;
    }
    return num(busy[to]) - num(busy[from]);
  }

  /** Position of the longest slice in positions `[from, to)`; the range has to hold one. */
  longest(from: number, to: number): number {
    if (to - from < 8) {
      let best = from;
      for (let i = from + 1; i < to; i += 1) {
        best = this._longer(best, i);
      }
      return best;
    }
    const tree = this._tree();
    const n = this.length;
    let best = from;
    // The half-open range in the tree of 2n places, from its leaves upwards.
    for (let low = from + n, high = to + n; low < high; low >>= 1, high >>= 1) {
      if ((low & 1) === 1) {
        best = this._longer(best, num(tree[low]));
        low += 1;
      }
      if ((high & 1) === 1) {
        high -= 1;
        best = this._longer(best, num(tree[high]));
      }
    }
    return best;
  }

  private _longer(a: number, b: number): number {
    const { starts, ends } = this;
    const first = num(ends[a]) - num(starts[a]);
    return num(ends[b]) - num(starts[b]) > first ? b : a;
  }

  private _tree(): Int32Array {
    let tree = this._longest;
    if (tree === null) {
      const n = this.length;
      tree = new Int32Array(2 * n);
      for (let i = 0; i < n; i += 1) {
        tree[n + i] = i;
      }
      for (let i = n - 1; i > 0; i -= 1) {
        tree[i] = this._longer(num(tree[2 * i]), num(tree[2 * i + 1]));
      }
      this._longest = tree;
    }
    return tree;
  }

  /** The lane with only the slices that `wanted` marks. */
  pick(wanted: Uint8Array): Lane {
    let count = 0;
    for (let i = 0; i < this.length; i += 1) {
      count += wanted[num(this.slices[i])] === 1 ? 1 : 0;
    }
    const slices = new Int32Array(count);
    const starts = new Float64Array(count);
    const ends = new Float64Array(count);
    let k = 0;
    for (let i = 0; i < this.length; i += 1) {
      const slice = num(this.slices[i]);
      if (wanted[slice] === 1) {
        slices[k] = slice;
        starts[k] = num(this.starts[i]);
        ends[k] = num(this.ends[i]);
        k += 1;
      }
    }
    return new Lane(this.track, this.depth, slices, starts, ends);
  }
}

/** A clock of nanoseconds may report an end a tick after the next beginning. */
const TICK_NS = 1;

/** Lanes of one track beyond this hold what overlaps even more, one over the other. */
const MAX_LANES = 64;

/** Positions of the slices of each track, in the order of time; parents before what they hold. */
function inOrder(timeline: ITimeline): Int32Array[] {
  const { n, track, start, depth } = timeline;
  const counts = new Int32Array(timeline.tracks.length);
  for (let i = 0; i < n; i += 1) {
    const t = num(track[i]);
    counts[t] = num(counts[t]) + 1;
  }
  const lists = Array.from(counts, count => new Int32Array(count));
  counts.fill(0);
  for (let i = 0; i < n; i += 1) {
    const t = num(track[i]);
    const place = num(counts[t]);
    at(lists, t)[place] = i;
    counts[t] = place + 1;
  }
  const before = (a: number, b: number): number =>
    num(start[a]) - num(start[b]) || num(depth[a]) - num(depth[b]);
  for (const list of lists) {
    for (let i = 1; i < list.length; i += 1) {
      if (before(num(list[i - 1]), num(list[i])) > 0) {
        list.sort(before);
        break;
      }
    }
  }
  return lists;
}

/** The lanes of every track, outermost first. A track without slices has one empty lane. */
export function makeLanes(timeline: ITimeline): Lane[][] {
  const { start, dur, depth } = timeline;
  return inOrder(timeline).map((list, track) => {
    const rows: { slices: number[]; starts: number[]; ends: number[] }[] = [];
    for (const slice of list) {
      const begin = num(start[slice]);
      const end = begin + num(dur[slice]);
      let level = Math.min(num(depth[slice]), MAX_LANES - 1);
      // Slices that overlap without one holding the other go below each other.
      while (level < MAX_LANES - 1) {
        const ends = rows[level]?.ends;
        if (ends === undefined || ends.length === 0) {
          break;
        }
        if (begin >= num(ends[ends.length - 1]) - TICK_NS) {
          break;
        }
        level += 1;
      }
      while (rows.length <= level) {
        rows.push({ slices: [], starts: [], ends: [] });
      }
      const row = at(rows, level);
      const last = row.ends[row.ends.length - 1] ?? Number.NEGATIVE_INFINITY;
      row.slices.push(slice);
      row.starts.push(Math.max(begin, last));
      row.ends.push(Math.max(end, last));
    }
    // Depths that no slice has would be empty rows.
    const used = rows.filter(row => row.slices.length > 0);
    const lanes = used.map(
      (row, level) =>
        new Lane(
          track,
          level,
          Int32Array.from(row.slices),
          Float64Array.from(row.starts),
          Float64Array.from(row.ends)
        )
    );
    return lanes.length > 0
      ? lanes
      : [new Lane(track, 0, new Int32Array(0), new Float64Array(0), new Float64Array(0))];
  });
}
