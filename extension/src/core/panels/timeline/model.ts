/** A timeline beside its graph: which slices are of which operations, found, selected, next. */

import type { Family } from '../../model/families';
import { plural } from '../../model/format';
import type { GraphModel } from '../../model/graph';
import type { Timing } from '../../model/timing';
import { familyOfKernel, kernelsOf, nodesOf, type IKernels } from '../kernels';
import type { ITimeline } from './data';
import { makeLanes, type Lane } from './lanes';
import { placeRows, type ILaneRow, type IRows } from './rows';
import { num } from '../../num';

export interface IPlaceOf {
  row: ILaneRow;
  /** Position in the lane. */
  at: number;
}

/** Time of all slices with one name, or of one kernel. */
export interface ITotal {
  label: string;
  kernel: string | null;
  count: number;
  ns: number;
  longestNs: number;
  /** Index of the longest slice. */
  slice: number;
}

export class TimelineModel implements IKernels {
  readonly lanes: Lane[][];
  readonly rows: IRows;
  private _busyness = new Float32Array(0);

  constructor(
    readonly timeline: ITimeline,
    readonly model: GraphModel,
    readonly timing: Timing
  ) {
    this.lanes = makeLanes(timeline);
    this.rows = placeRows(timeline.tracks, this.lanes);
  }

  start(slice: number): number {
    return this.timeline.start[slice] ?? 0;
  }

  dur(slice: number): number {
    return this.timeline.dur[slice] ?? 0;
  }

  end(slice: number): number {
    return this.start(slice) + this.dur(slice);
  }

  label(slice: number): string {
    return this.timeline.names[this.timeline.name[slice] ?? -1] ?? '';
  }

  /** The name, and how many turns of a loop the slice stands for. */
  title(slice: number): string {
    const turns = this.timeline.turns[slice] ?? 1;
    return turns > 1 ? `${this.label(slice)} × ${plural(turns, 'turn')}` : this.label(slice);
  }

  /** Id of the kernel of a slice; null when it is of none. */
  kernelOf(slice: number): string | null {
    return this.timeline.kernels[this.timeline.kernel[slice] ?? -1] ?? null;
  }

  /** Ids of the operations that a kernel computes. */
  nodesOf(kernel: string): string[] {
    return nodesOf(this, kernel);
  }

  familyOf(kernel: string): Family {
    return familyOfKernel(this, kernel);
  }

  /** Indexes of the kernels that compute any of the operations `ids`. */
  kernelsOf(ids: readonly string[]): Set<number> {
    const { kernels } = this.timeline;
    const found = new Set(kernelsOf(this, kernels, ids));
    return new Set(kernels.flatMap((id, index) => (found.has(id) ? [index] : [])));
  }

  /** Marks (1) of the slices of the kernels with these indexes; null when there are none. */
  ofKernels(kernels: ReadonlySet<number>): Uint8Array | null {
    const { n, kernel } = this.timeline;
    if (kernels.size === 0) {
      return null;
    }
    const wanted = new Uint8Array(this.timeline.kernels.length);
    for (const index of kernels) {
      wanted[index] = 1;
    }
    const marks = new Uint8Array(n);
    let any = 0;
    for (let i = 0; i < n; i += 1) {
      const k = num(kernel[i]);
      marks[i] = k >= 0 ? num(wanted[k]) : 0;
      any |= num(marks[i]);
    }
    return any === 1 ? marks : null;
  }

  /** Marks (1) of the slices that `query` finds: each word in the name, kernel, operations or line. */
  search(query: string): { marks: Uint8Array; count: number } | null {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) {
      return null;
    }
    const { n, name, kernel, names, kernels, tracks, track } = this.timeline;
    const nameText = names.map(text => text.toLowerCase());
    const kernelText = ['', ...kernels.map(id => this._text(id).toLowerCase())];
    const trackText = tracks.map(one => `${one.name} ${one.kind}`.toLowerCase());
    const marks = new Uint8Array(n);
    // A million slices have few different texts: each is looked at once.
    const known = new Map<number, number>();
    const width = kernelText.length;
    const depth = trackText.length;
    let count = 0;
    for (let i = 0; i < n; i += 1) {
      const m = num(name[i]);
      const k = num(kernel[i]) + 1;
      const t = num(track[i]);
      const key = (m * width + k) * depth + t;
      let hit = known.get(key);
      if (hit === undefined) {
        const text = `${nameText[m] ?? ''} ${kernelText[k] ?? ''} ${trackText[t] ?? ''}`;
        hit = words.every(word => text.includes(word)) ? 1 : 0;
        known.set(key, hit);
      }
      marks[i] = hit;
      count += hit;
    }
    return { marks, count };
  }

  private _text(kernel: string): string {
    const parts = [kernel, this.model.kernels.get(kernel)?.name ?? ''];
    for (const id of this.nodesOf(kernel)) {
      const node = this.model.node(id)?.node;
      if (node !== undefined) {
        parts.push(id, node.op, node.scope, node.source?.text ?? '');
      }
    }
    return parts.join(' ');
  }

  /** Where a slice is drawn. */
  locate(slice: number): IPlaceOf | null {
    const row = this.rows.tracks.find(one => one.index === this.timeline.track[slice]);
    for (const lane of row?.lanes ?? []) {
      const { slices, starts } = lane.lane;
      const start = this.start(slice);
      // Slices of no length end where they begin: the search is for ends after the tick before.
      for (let at = lane.lane.after(start - 2); at < slices.length; at += 1) {
        if (slices[at] === slice) {
          return { row: lane, at };
        }
        if (num(starts[at]) > start + 2) {
          break;
        }
      }
    }
    return null;
  }

  /** The slice before (`-1`) or after (`1`) on the same lane; null at the ends. */
  beside(slice: number, step: 1 | -1): number | null {
    const place = this.locate(slice);
    return place === null ? null : (place.row.lane.slices[place.at + step] ?? null);
  }

  /** The slice on the row above (`-1`) or below (`1`) that is nearest in time; null at the ends. */
  across(slice: number, step: 1 | -1): number | null {
    const place = this.locate(slice);
    if (place === null) {
      return null;
    }
    const { lanes } = this.rows;
    const next = lanes[lanes.indexOf(place.row) + step];
    return next === undefined
      ? null
      : nearest(next.lane, this.start(slice) + this.dur(slice) / 2);
  }

  /** The slice of the first thread or stream that is nearest to a time: where the keyboard begins. */
  first(time: number): number | null {
    const [lane] = this.workers;
    return lane === undefined ? null : nearest(lane, time);
  }

  /** The next (`1`) or previous (`-1`) of the marked slices in the order of time, round and round. */
  step(marks: Uint8Array, from: number | null, step: 1 | -1): number | null {
    const { n, start } = this.timeline;
    const after = (a: number, b: number): boolean =>
      num(start[a]) === num(start[b])
        ? a > b
        : num(start[a]) > num(start[b]);
    let best: number | null = null;
    let wrap: number | null = null;
    for (let i = 0; i < n; i += 1) {
      if (marks[i] !== 1) {
        continue;
      }
      const isAhead = from !== null && i !== from && after(i, from) === step > 0;
      const isNearer = (other: number | null): boolean =>
        other === null || after(other, i) === step > 0;
      if (isAhead && isNearer(best)) {
        best = i;
      }
      if (isNearer(wrap)) {
        wrap = i;
      }
    }
    return best ?? wrap;
  }

  /** The outermost lanes of threads and streams: those of other tracks when there are none. */
  get workers(): Lane[] {
    const lanes = (isAny: boolean): Lane[] =>
      this.rows.tracks.flatMap(({ track, lanes: [outer] }) =>
        outer !== undefined && outer.lane.length > 0 && (isAny || /thread|stream/.test(track.kind))
          ? [outer.lane]
          : []
      );
    const found = lanes(false);
    return found.length > 0 ? found : lanes(true);
  }

  /** For each of `columns` equal parts of the run, how much of the threads and streams is busy. */
  busyness(columns: number): Float32Array {
    if (this._busyness.length !== columns) {
      const found = new Float32Array(columns);
      const outer = this.workers;
      const step = this.timeline.length / columns;
      for (let i = 0; i < columns && step > 0; i += 1) {
        let busy = 0;
        for (const lane of outer) {
          busy += lane.busy(i * step, (i + 1) * step);
        }
        found[i] = busy / (step * outer.length);
      }
      this._busyness = found;
    }
    return this._busyness;
  }

  /** Nanoseconds of all slices of kernels. */
  get kernelNs(): number {
    const { n, kernel, dur } = this.timeline;
    let sum = 0;
    for (let i = 0; i < n; i += 1) {
      sum += num(kernel[i]) >= 0 ? num(dur[i]) : 0;
    }
    return sum;
  }

  /** Totals by kernel, and by name for what is of no kernel; the longest first. */
  totals(limit = Number.POSITIVE_INFINITY): ITotal[] {
    const { n, kernel, name, dur } = this.timeline;
    const found = new Map<number, ITotal>();
    for (let i = 0; i < n; i += 1) {
      const k = num(kernel[i]);
      const key = k >= 0 ? k : -1 - num(name[i]);
      let total = found.get(key);
      if (total === undefined) {
        const id = this.kernelOf(i);
        total = { label: this.label(i), kernel: id, count: 0, ns: 0, longestNs: -1, slice: i };
        found.set(key, total);
      }
      const ns = num(dur[i]);
      total.count += 1;
      total.ns += ns;
      if (ns > total.longestNs) {
        total.longestNs = ns;
        total.slice = i;
      }
    }
    return [...found.values()].sort((a, b) => b.ns - a.ns).slice(0, limit);
  }
}

/** The slice of a lane at a time, else the one nearest to it. */
function nearest(lane: Lane, time: number): number | null {
  const i = lane.after(time);
  const next = lane.slices[i];
  const before = lane.slices[i - 1];
  if (next === undefined || before === undefined) {
    return next ?? before ?? null;
  }
  const gap = num(lane.starts[i]) - time;
  return gap <= 0 || gap <= time - num(lane.ends[i - 1]) ? next : before;
}
