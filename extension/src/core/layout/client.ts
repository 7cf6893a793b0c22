/**
 * Runs layouts in a worker, newest first: a request that is overtaken is dropped. Where workers are not
 * allowed (strict content policies), or one does not answer in time, the same code runs here.
 */

import { layoutHierarchy, type ILayoutRequest, type ILayoutResult, type LayoutCache } from './hierarchy';
import type { ISeed } from './seeded';
import type { IWorkerRequest, WorkerAnswer } from './worker';

export interface ILayoutAnswer {
  results: ILayoutResult[];
  /** Time spent in the layout itself. */
  ms: number;
  where: 'worker' | 'page';
}

/** Text of the bundled worker; the build puts it in place, tests run without one. */
declare const __MAXLAB_WORKER__: string;

interface IPending {
  id: number;
  request: ILayoutRequest;
  resolve: (answer: ILayoutAnswer | null) => void;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/** A worker that is silent for this much longer than the budget is replaced by the page itself. */
const SILENCE_MS = 6000;

/** Requests of fewer nodes run at once: crossing to a worker would cost more. */
const SMALL = 120;

export class LayoutClient {
  /**
   * Makes the worker. Bundles carry its text inside; an application whose bundler knows workers sets this
   * to `() => new Worker(new URL('../core/layout/worker.js', import.meta.url))` instead.
   */
  static createWorker: (() => Worker) | null = null;

  private _worker: Worker | null = null;
  private _url = '';
  private _canWork = true;
  private _pending: IPending | null = null;
  private _waiting: IPending | null = null;
  private _nextId = 1;
  private readonly _cache: LayoutCache = new Map();

  /** The layouts for `request`, or null when a newer request overtook it. */
  layout(request: ILayoutRequest): Promise<ILayoutAnswer | null> {
    const size = request.containers.reduce((sum, c) => sum + c.w.length, 0);
    if (size <= SMALL || !this._start()) {
      this._cancel();
      return Promise.resolve(this._here(request));
    }
    return new Promise(resolve => {
      const pending: IPending = { id: this._nextId++, request, resolve, timer: undefined };
      if (this._pending === null) {
        this._send(pending);
        return;
      }
      this._waiting?.resolve(null);
      this._waiting = pending;
    });
  }

  /** The layouts for `request` at once, from an earlier layout; what was asked before is dropped. */
  layoutSeeded(request: ILayoutRequest, seeds: readonly (ISeed | null)[]): ILayoutAnswer {
    this._cancel();
    return this._here(request, seeds);
  }

  dispose(): void {
    this._cancel();
    this._stop();
    this._canWork = false;
    this._cache.clear();
  }

  private _here(request: ILayoutRequest, seeds: readonly (ISeed | null)[] = []): ILayoutAnswer {
    const started = performance.now();
    const results = layoutHierarchy(request, this._cache, () => performance.now(), seeds);
    return { results, ms: performance.now() - started, where: 'page' };
  }

  private _start(): boolean {
    if (this._worker !== null || !this._canWork) {
      return this._worker !== null;
    }
    try {
      if (LayoutClient.createWorker !== null) {
        this._worker = LayoutClient.createWorker();
      } else {
        this._worker = this._fromText();
      }
      this._worker.onmessage = (event: MessageEvent<WorkerAnswer>) => this._answered(event.data);
      this._worker.onerror = event => {
        event.preventDefault();
        this._fallBack();
      };
      return true;
    } catch {
      this._canWork = false;
      this._stop();
      return false;
    }
  }

  private _fromText(): Worker {
    const source = typeof __MAXLAB_WORKER__ === 'string' ? __MAXLAB_WORKER__ : '';
    if (source === '' || typeof Worker === 'undefined') {
      throw new Error('no worker');
    }
    this._url = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
    return new Worker(this._url);
  }

  private _send(pending: IPending): void {
    this._pending = pending;
    pending.timer = setTimeout(() => this._fallBack(), pending.request.budgetMs + SILENCE_MS);
    const message: IWorkerRequest = { id: pending.id, request: pending.request };
    this._worker?.postMessage(message);
  }

  private _answered(answer: WorkerAnswer): void {
    const pending = this._pending;
    if (pending === null || pending.id !== answer.id) {
      return;
    }
    if ('error' in answer) {
      console.warn(`maxlab: layout failed in the worker: ${answer.error}`);
      this._fallBack();
      return;
    }
    clearTimeout(pending.timer);
    this._pending = null;
    const { results, ms } = answer;
    const overtaken = this._waiting !== null;
    pending.resolve(overtaken ? null : { results, ms, where: 'worker' });
    const next = this._waiting;
    this._waiting = null;
    if (next !== null) {
      this._send(next);
    }
  }

  private _fallBack(): void {
    this._canWork = false;
    this._stop();
    const newest = this._waiting ?? this._pending;
    if (newest !== this._pending) {
      this._pending?.resolve(null);
    }
    clearTimeout(this._pending?.timer);
    this._pending = null;
    this._waiting = null;
    newest?.resolve(this._here({ ...newest.request, budgetMs: 500 }));
  }

  private _cancel(): void {
    clearTimeout(this._pending?.timer);
    this._pending?.resolve(null);
    this._waiting?.resolve(null);
    this._pending = null;
    this._waiting = null;
  }

  private _stop(): void {
    this._worker?.terminate();
    this._worker = null;
    if (this._url !== '') {
      URL.revokeObjectURL(this._url);
      this._url = '';
    }
  }
}
