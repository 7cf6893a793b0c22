/** All samples that a dashboard has, column by column, as charts draw them. */

import { at } from '../narrow';
import type {
  IColumn,
  IDetail,
  IFrame,
  IMark,
  IProcessTable,
  IState,
  IUserTable,
  Process
} from './wire';

export type Values = (number | null)[];

/** Samples that a page keeps; with more, the older half goes. */
const MAX_ROWS = 200_000;
const MAX_MARKS = 20_000;
const MAX_TABLES = 2_000;

const NO_STATE: IState = {
  running: false,
  replay: false,
  title: '',
  label: '',
  period: 0,
  names: {},
  ended: '',
  epoch: 0,
  now: 0,
  recorded: false
};

export class DashboardData {
  columns: readonly IColumn[] = [];
  times: number[] = [];
  marks = new Map<string, IMark>();
  problems: Record<string, string> = {};
  processes: IProcessTable[] = [];
  users: IUserTable[] = [];
  state: IState = NO_STATE;
  cursor = '';
  /** Before this second, samples were left out. */
  thinUntil = -Infinity;
  /** Grows with every change of the columns. */
  shape = 0;
  private _values: Values[] = [];
  private _detail: { times: number[]; values: Values[]; start: number; end: number } | null = null;

  /** Takes in `frame`; false when it does not continue what is known, which is then asked for anew. */
  apply(frame: IFrame): boolean {
    if (frame.reset) {
      const before = this.columns.map(column => column.key).join();
      this.columns = frame.columns ?? [];
      this.times = [];
      this._values = this.columns.map(() => []);
      this.marks.clear();
      this.processes = [];
      this.users = [];
      this._detail = null;
      this.thinUntil = frame.thin ? (frame.times[frame.times.length - 1] ?? 0) : -Infinity;
      if (before !== this.columns.map(column => column.key).join()) {
        this.shape += 1;
      }
    } else if (frame.continues !== null && frame.continues !== this.cursor) {
      return false;
    }
    this.cursor = frame.cursor;
    this._append(frame);
    for (const mark of frame.marks) {
      this.marks.set(mark.id, mark);
    }
    this._forget();
    this.problems = frame.problems;
    this.processes.push(...frame.processes);
    this.users.push(...frame.users);
    this.state = frame.state;
    return true;
  }

  /** Lets the oldest marks and tables go, so that a page that is open for days stays in bounds. */
  private _forget(): void {
    for (const id of this.marks.keys()) {
      if (this.marks.size <= MAX_MARKS) {
        break;
      }
      this.marks.delete(id);
    }
    this.processes.splice(0, Math.max(this.processes.length - MAX_TABLES, 0));
    this.users.splice(0, Math.max(this.users.length - MAX_TABLES, 0));
  }

  private _append(frame: IFrame): void {
    const width = this.columns.length;
    if (frame.times.length > 0 && frame.values.length !== frame.times.length * width) {
      return;
    }
    const breaks = new Set(frame.breaks);
    frame.times.forEach((time, row) => {
      const last = this.times[this.times.length - 1];
      if (breaks.has(time) && last !== undefined && last < time) {
        // Nothing is known between two runs: an empty row parts the lines.
        this.times.push(last + Math.min(1e-3, (time - last) / 2));
        this._values.forEach(values => values.push(null));
      }
      this.times.push(time);
      this._values.forEach((values, n) => values.push(sampleAt(frame.values, row * width + n)));
    });
    if (this.times.length > MAX_ROWS) {
      const half = this.times.length >> 1;
      this.times = this.times.slice(half);
      this._values = this._values.map(values => values.slice(half));
    }
  }

  /** Shows the samples of `detail` in place of the thinned ones of that stretch. */
  setDetail(detail: IDetail): void {
    const width = this.columns.length;
    if (detail.values.length !== detail.times.length * width) {
      return;
    }
    const values = this.columns.map((_, n) =>
      Array.from(detail.times, (_time, row) => sampleAt(detail.values, row * width + n))
    );
    const { start, end } = detail;
    this._detail = { times: [...detail.times], values, start, end };
  }

  /** Whether a look at `start` to `end` needs samples that were left out. */
  needsDetail(start: number, end: number): boolean {
    const known = this._detail;
    const isKnown = known !== null && known.start <= start && known.end >= Math.min(end, this.thinUntil);
    return start < this.thinUntil && !isKnown;
  }

  /** Times and columns for a view of `start` to `end`: the closer look when there is one that covers it. */
  view(start: number, end: number): { times: readonly number[]; values: readonly Values[] } {
    const known = this._detail;
    if (known !== null && known.start <= start && known.end >= end && start < this.thinUntil) {
      return known;
    }
    return { times: this.times, values: this._values };
  }

  /** The values of column number `n`. */
  column(n: number): Values {
    return this._values[n] ?? [];
  }

  /** Who held memory of GPUs at `time`. */
  processesAt(time: number): Record<string, Process[]> {
    const place = placeAt(
      this.processes.map(table => table.time),
      time
    );
    return this.processes[Math.max(place, 0)]?.held ?? {};
  }

  /** What processes took of the host at `time`; null when it is not known. */
  usersAt(time: number): IUserTable | null {
    const place = placeAt(
      this.users.map(table => table.time),
      time
    );
    return this.users[Math.max(place, 0)] ?? null;
  }

  /** Whether column number `n` has any value. */
  hasValues(n: number): boolean {
    return this.column(n).some(value => value !== null);
  }

  /** Whether column number `n` has any value but 0. */
  hasSome(n: number): boolean {
    return this.column(n).some(value => value !== null && value !== 0);
  }

  get start(): number {
    return this.times[0] ?? 0;
  }

  /** The last second: now while it is recorded, else that of the last sample. */
  get end(): number {
    const last = this.times[this.times.length - 1] ?? 0;
    return this.state.running ? Math.max(this.state.now, last) : last;
  }
}

/** The sample at a place; null for a NaN, which says that there was none. */
function sampleAt(values: Float32Array, place: number): number | null {
  const value = values[place];
  return value === undefined || Number.isNaN(value) ? null : value;
}

/** The place of the sample that was taken at `time` or last before it; -1 when there is none. */
export function placeAt(times: readonly number[], time: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(times, middle) <= time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

/** The sample that is nearest to `time`, when the one at or before it is number `place`. */
export function nearest(times: readonly number[], time: number, place: number): number {
  const before = times[place];
  const after = times[place + 1];
  if (before === undefined || after === undefined) {
    return before === undefined && after !== undefined ? place + 1 : place;
  }
  return after - time < time - before ? place + 1 : place;
}
