/** The span of time that is shown, and the axis over it. */

/** Spans shorter than this have nothing to show: clocks tick in nanoseconds. */
export const MIN_SPAN_NS = 20;

/** Time left free on both sides of everything, as a fraction. */
const MARGIN = 0.015;

export interface ISpan {
  from: number;
  to: number;
}

/** The window onto the time of a run of `length` nanoseconds. */
export class TimeWindow implements ISpan {
  from = 0;
  to = 1;

  constructor(public length: number) {
    this.fit();
  }

  get span(): number {
    return this.to - this.from;
  }

  /** Shows everything. */
  fit(): void {
    const all = Math.max(this.length, MIN_SPAN_NS);
    this.from = -all * MARGIN;
    this.to = all * (1 + MARGIN);
  }

  /** Everything is shown. */
  get isWhole(): boolean {
    return this.from <= 0 && this.to >= this.length;
  }

  show(from: number, to: number): void {
    const all = Math.max(this.length, MIN_SPAN_NS) * (1 + 2 * MARGIN);
    const span = Math.min(all, Math.max(MIN_SPAN_NS, Math.abs(to - from)));
    const middle = (from + to) / 2;
    this.from = middle - span / 2;
    this.to = this.from + span;
    this._keep();
  }

  pan(ns: number): void {
    this.from += ns;
    this.to += ns;
    this._keep();
  }

  /** Scales by `factor` (above 1 is closer) about a time, which keeps its place. */
  zoom(factor: number, about: number): void {
    const all = Math.max(this.length, MIN_SPAN_NS) * (1 + 2 * MARGIN);
    const span = Math.min(all, Math.max(MIN_SPAN_NS, this.span / factor));
    const part = (about - this.from) / this.span;
    this.from = about - part * span;
    this.to = this.from + span;
    this._keep();
  }

  /** Moves to a slice that is out of sight, and out to one that is longer than the window. */
  reveal(from: number, to: number): void {
    const size = to - from;
    const isSeen = from < this.to && to > this.from && (size > this.span || from >= this.from);
    if (isSeen && (size > this.span || to <= this.to)) {
      return;
    }
    if (size > this.span) {
      this.show(from - size * 0.1, to + size * 0.1);
    } else {
      this.pan((from + to) / 2 - (this.from + this.to) / 2);
    }
  }

  private _keep(): void {
    const { span } = this;
    const margin = Math.max(this.length, MIN_SPAN_NS) * MARGIN;
    // Less than half of the window may lie outside of the run.
    const low = -Math.min(margin, span / 2);
    const high = this.length + Math.min(margin, span / 2);
    if (span >= high - low) {
      this.from = (low + high - span) / 2;
    } else {
      this.from = Math.min(high - span, Math.max(low, this.from));
    }
    this.to = this.from + span;
  }
}

export interface ITick {
  time: number;
  label: string;
}

const UNITS: readonly (readonly [number, string])[] = [
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'µs'],
  [1, 'ns']
];

/** A step of 1, 2 or 5 times a power of ten that is at least `least`. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const part = least / power;
  // A hair above, as 2 × 10^n is not exact for every n.
  return power * (part <= 1.0001 ? 1 : part <= 2.0001 ? 2 : part <= 5.0001 ? 5 : 10);
}

/** Times with labels for an axis of `width` pixels, each label at most `room` wide. */
export function ticks({ from, to }: ISpan, width: number, room = 84): ITick[] {
  if (width < room || !(to > from)) {
    return [];
  }
  const step = niceStep(((to - from) * room) / width);
  const largest = Math.max(Math.abs(from), Math.abs(to));
  const [unit, name] = UNITS.find(([size]) => largest >= size * 0.999) ?? [1, 'ns'];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  const found: ITick[] = [];
  for (let i = Math.ceil(from / step); i * step <= to; i += 1) {
    const time = i * step;
    const label = i === 0 ? '0' : `${(time / unit).toFixed(Math.min(digits, 9))} ${name}`;
    found.push({ time, label });
  }
  return found;
}
