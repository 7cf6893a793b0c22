/** Which graphs live in the kernel of the current notebook; knows nothing of how they are shown. */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import { messageOf } from '../core';
import { type ILiveGraph, listGraphs } from './probe';

/**
 * `none` no notebook is open; `no-kernel` it has no kernel; `other` its kernel is not Python; `starting`;
 * `busy` a cell runs, so the list is that of before; `ready`; `failed` the kernel could not be asked.
 */
export type LiveState = 'none' | 'no-kernel' | 'other' | 'starting' | 'busy' | 'ready' | 'failed';

export interface ILiveGraphs {
  readonly state: LiveState;
  /** Why the state is `failed`; else empty. */
  readonly reason: string;
  readonly graphs: readonly ILiveGraph[];
  /** Title of the notebook they live in; empty when there is none. */
  readonly notebook: string;
  readonly stateChanged: ISignal<ILiveGraphs, void>;
  /** Ask the kernel again; resolves when the answer is in `graphs`. */
  refresh(): Promise<void>;
  /** The kernel that the graphs live in. */
  readonly kernel: Kernel.IKernelConnection | null;
}

/** What a person calls `graph`: its first variable, else the name that it was built with. */
export function nameOf(graph: ILiveGraph): string {
  return graph.names[0] ?? graph.title;
}

/** How long after a cell has ended the kernel is asked: a run of many cells asks once. */
const QUIET_MS = 250;

export class LiveGraphs implements ILiveGraphs, IDisposable {
  /** Follow `context` from now on; null when no notebook is current. */
  follow(context: ISessionContext | null, notebook: string): void {
    this._notebook = notebook;
    if (context === this._context) {
      this._changed.emit();
      return;
    }
    this._disconnect();
    this._context = context;
    this._graphs = [];
    if (context) {
      context.statusChanged.connect(this._onStatus, this);
      context.kernelChanged.connect(this._onKernel, this);
      context.iopubMessage.connect(this._onMessage, this);
      context.disposed.connect(this._onDisposed, this);
    }
    this._onKernel();
  }

  get state(): LiveState {
    return this._state;
  }

  get reason(): string {
    return this._reason;
  }

  get graphs(): readonly ILiveGraph[] {
    return this._graphs;
  }

  get notebook(): string {
    return this._notebook;
  }

  get kernel(): Kernel.IKernelConnection | null {
    return this._context?.session?.kernel ?? null;
  }

  get stateChanged(): ISignal<ILiveGraphs, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  async refresh(): Promise<void> {
    const kernel = this.kernel;
    const turn = ++this._turn;
    window.clearTimeout(this._timer);
    if (!kernel) {
      this._set(this._context ? 'no-kernel' : 'none', []);
      return;
    }
    const language = (await kernel.info.catch(() => null))?.language_info.name;
    if (turn !== this._turn) {
      return;
    }
    if (language !== 'python') {
      this._set('other', []);
      return;
    }
    try {
      const graphs = await listGraphs(kernel);
      if (turn === this._turn) {
        this._stale = false;
        this._isAgain = false;
        this._set('ready', graphs);
      }
    } catch (error) {
      // A kernel that restarts or dies drops the question; its next status asks again.
      if (turn === this._turn && !kernel.isDisposed && kernel.status !== 'restarting') {
        this._set('failed', [], messageOf(error));
        // One that was just started may have dropped it, too, and has no more to say by itself.
        if (!this._isAgain) {
          this._isAgain = true;
          this._soon();
        }
      }
    }
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._disconnect();
      Signal.clearData(this);
    }
  }

  private _disconnect(): void {
    this._turn += 1;
    window.clearTimeout(this._timer);
    if (this._context) {
      Signal.disconnectBetween(this._context, this);
    }
  }

  private _set(state: LiveState, graphs: ILiveGraph[], reason = ''): void {
    this._state = state;
    this._graphs = graphs;
    this._reason = reason;
    this._changed.emit();
  }

  private _onDisposed(): void {
    this.follow(null, '');
  }

  private _onKernel(): void {
    this._turn += 1;
    this._stale = true;
    const kernel = this.kernel;
    if (!kernel) {
      this._set(this._context ? 'no-kernel' : 'none', []);
    } else if (kernel.status === 'idle') {
      this._soon();
    } else {
      this._set('starting', []);
    }
  }

  private _onStatus(_: ISessionContext, status: Kernel.Status): void {
    switch (status) {
      case 'idle':
        if (this._stale) {
          this._soon();
        }
        break;
      case 'busy':
        break;
      case 'starting':
      case 'restarting':
      case 'autorestarting':
        this._turn += 1;
        this._stale = true;
        this._set('starting', []);
        break;
      case 'dead':
      case 'terminating':
        this._turn += 1;
        this._stale = true;
        this._set('no-kernel', []);
        break;
      default:
        break;
    }
  }

  private _onMessage(_: ISessionContext, message: KernelMessage.IMessage): void {
    // Our own silent questions have no input message: only what the user runs makes the list stale.
    if (message.header.msg_type === 'execute_input') {
      this._stale = true;
      window.clearTimeout(this._timer);
      if (this._state === 'ready' || this._state === 'failed') {
        this._set('busy', this._graphs);
      }
    }
  }

  private _soon(): void {
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => void this.refresh(), QUIET_MS);
  }

  private _context: ISessionContext | null = null;
  private _notebook = '';
  private _state: LiveState = 'none';
  private _reason = '';
  private _graphs: ILiveGraph[] = [];
  private _stale = true;
  private _isAgain = false;
  private _turn = 0;
  private _timer = 0;
  private _isDisposed = false;
  private readonly _changed = new Signal<this, void>(this);
}

export type { ILiveGraph };
