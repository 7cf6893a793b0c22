/**
 * What all views of one recording share: its samples, the stretch of time that is shown, and the second
 * that is read. A zoom or the pointer in one of them shows in all, wherever they stand.
 */

import { DashboardData } from './data';
import { TimeRange } from './range';
import type { IFrame, IMark } from './wire';

/** A view of the recording. */
export interface ISharer {
  /** New samples have come. */
  received(): void;
  /** Draws what there is now. */
  refresh(): void;
  /** Reads another second. */
  read(): void;
  /** Says that something that was asked for went wrong. */
  fail(message: string): void;
}

let recordings = 0;

export class SharedRecording {
  readonly data = new DashboardData();
  readonly range = new TimeRange();
  /** By this name the charts of all views follow one pointer. */
  readonly sync: string;
  /** The second that is read; null reads the newest. */
  hovered: number | null = null;
  /** What kernels did, by its start. */
  marks: readonly IMark[] = [];
  private readonly _views = new Set<ISharer>();

  constructor() {
    recordings += 1;
    this.sync = `jp-MaxLab-dash-${recordings}`;
  }

  /** Adds a view; returns how to take it off again. */
  join(view: ISharer): () => void {
    this._views.add(view);
    return () => {
      this._views.delete(view);
    };
  }

  /** Takes in `frame`; false when it does not continue what is known, which is then asked for anew. */
  apply(frame: IFrame): boolean {
    if (!this.data.apply(frame)) {
      return false;
    }
    if (frame.reset && frame.state.replay && this.range.isFollowing) {
      this.range.follow(null);
    }
    if (frame.reset || frame.marks.length > 0) {
      this.marks = [...this.data.marks.values()].sort((a, b) => a.start - b.start);
    }
    this._views.forEach(view => view.received());
    return true;
  }

  /** Another stretch of time is shown. */
  changed(): void {
    this._views.forEach(view => view.refresh());
  }

  hover(time: number | null): void {
    if (time !== this.hovered) {
      this.hovered = time;
      this._views.forEach(view => view.read());
    }
  }

  fail(message: string): void {
    this._views.forEach(view => view.fail(message));
  }
}
