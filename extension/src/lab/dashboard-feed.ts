/** The session's recording in this page: asked of the server once, for all views that show it. */

import { type IDetail, type IFrame, messageOf, SharedRecording } from '../core';
import type { MonitorServer } from './dashboard-server';

/** Between two requests while something is recorded, and while nothing is. */
const FAST_MS = 500;
const SLOW_MS = 1000;
const IDLE_MS = 3000;

/** Where samples come from: the session's monitor, or a file. */
export interface IDashboardSource {
  frame(cursor: string): Promise<IFrame>;
  detail(start: number, end: number): Promise<IDetail>;
  recording(): Promise<Uint8Array>;
  start(period: number): Promise<void>;
  stop(): Promise<void>;
}

export class MonitorFeed<S extends IDashboardSource = MonitorServer> {
  readonly shared = new SharedRecording();

  constructor(readonly server: S) {}

  /** Keeps the recording up to date while one of its viewers is seen; returns how to end that. */
  add(isSeen: () => boolean): () => void {
    this._viewers.add(isSeen);
    this.wake();
    return () => {
      this._viewers.delete(isSeen);
      if (this._viewers.size === 0) {
        window.clearTimeout(this._timer);
      }
    };
  }

  /** Asks now: somebody looks, or something was started. */
  wake(): void {
    window.clearTimeout(this._timer);
    void this._ask();
  }

  /** Asks for all of it again. */
  restart(): void {
    this._fromStart = true;
    this.wake();
  }

  /** Does `work` at the server; what goes wrong is said in the views. */
  async try(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.wake();
    } catch (error) {
      this.shared.fail(messageOf(error));
    }
  }

  /** Asks for what is new, and again after a while: one request at a time, none when nobody looks. */
  private async _ask(): Promise<void> {
    if (this._isAsking) {
      return;
    }
    let pause = IDLE_MS;
    if (document.visibilityState === 'visible' && [...this._viewers].some(isSeen => isSeen())) {
      this._isAsking = true;
      try {
        const cursor = this._fromStart ? '' : this.shared.data.cursor;
        this._fromStart = false;
        const frame = await this.server.frame(cursor);
        if (!this.shared.apply(frame)) {
          this._fromStart = true;
          pause = FAST_MS;
        } else {
          const { running, period } = frame.state;
          pause = running ? (period < 1 ? FAST_MS : SLOW_MS) : IDLE_MS;
        }
      } catch (error) {
        this.shared.fail(messageOf(error));
      } finally {
        this._isAsking = false;
      }
    }
    if (this._viewers.size > 0) {
      window.clearTimeout(this._timer);
      this._timer = window.setTimeout(() => void this._ask(), pause);
    }
  }

  private readonly _viewers = new Set<() => boolean>();
  private _fromStart = false;
  private _isAsking = false;
  private _timer = 0;
}
