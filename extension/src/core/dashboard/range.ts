/** The stretch of time that a dashboard shows: it follows the newest sample, or stays where it was put. */

export interface ISpan {
  start: number;
  end: number;
}

/** Nobody can tell samples apart that are closer than a recorder takes them. */
const LEAST_S = 0.05;

export class TimeRange {
  /** Seconds that are shown while following; null shows all. */
  span: number | null = 300;
  private _held: ISpan | null = null;
  private _paused: ISpan | null = null;

  /** What to show of a recording from `first` to `last`. */
  shown(first: number, last: number): ISpan {
    const held = this._held ?? this._paused;
    if (held !== null) {
      return held;
    }
    const end = Math.max(last, first + LEAST_S);
    if (this.span === null) {
      return { start: first, end };
    }
    // A recording that is shorter than what is shown fills it: a few points in a corner say little.
    const least = Math.min(this.span, 5);
    return { start: Math.max(end - this.span, Math.min(first, end - least)), end };
  }

  get isFollowing(): boolean {
    return this._held === null && this._paused === null;
  }

  get isZoomed(): boolean {
    return this._held !== null;
  }

  /** Shows the newest `span` seconds (null: all) and goes along with them. */
  follow(span: number | null = this.span): void {
    this.span = span;
    this._held = null;
    this._paused = null;
  }

  /** Stays at what is `shown` now. */
  pause(shown: ISpan): void {
    this._paused = shown;
  }

  /** Shows `wanted`, kept inside of `first` to `last`. */
  hold(wanted: ISpan, first: number, last: number): void {
    const length = Math.max(wanted.end - wanted.start, LEAST_S);
    const all = Math.max(last - first, LEAST_S);
    if (length >= all) {
      this._held = { start: first, end: first + all };
      return;
    }
    const start = Math.min(Math.max(wanted.start, first), last - length);
    this._held = { start, end: start + length };
  }

  /** Zooms by `factor` (below 1: closer) and keeps the second `about` in its place. */
  zoom(factor: number, about: number, first: number, last: number): void {
    const { start, end } = this.shown(first, last);
    this.hold(
      { start: about - (about - start) * factor, end: about + (end - about) * factor },
      first,
      last
    );
  }

  /** Moves by a share of what is shown; at the end of what is recorded it stops. */
  pan(share: number, first: number, last: number): void {
    const { start, end } = this.shown(first, last);
    const by = (end - start) * share;
    this.hold({ start: start + by, end: end + by }, first, last);
  }
}
