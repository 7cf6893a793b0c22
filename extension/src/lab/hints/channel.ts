/** What the kernel of one notebook tells of the lines of its cells and files. */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { fits } from '../../core';
import { isHintsMessage, type IHintsOpen, type ISourceHints } from '../../proto/hints';
import { PROTOCOL } from '../../proto/messages';
import { openHints } from '../probe';

/** How long after a cell has ended a kernel is asked whether it uses maxlab. */
const QUIET_MS = 150;

export class HintChannel implements IDisposable {
  /** Sources whose hints are others now; those that have none any more have no lines. */
  readonly changed = new Signal<this, readonly ISourceHints[]>(this);

  constructor(private readonly _context: ISessionContext) {
    _context.statusChanged.connect(this._onStatus, this);
    _context.kernelChanged.connect(this._onKernel, this);
    _context.iopubMessage.connect(this._onMessage, this);
    _context.connectionStatusChanged.connect(this._onConnection, this);
    this._soon();
  }

  /** The hints of the cell with this id; null where there are none. */
  ofCell(cell: string): ISourceHints | null {
    return this._sources.get(`cell:${cell}`) ?? null;
  }

  /** The files that have hints. */
  get files(): readonly ISourceHints[] {
    return [...this._sources.values()].filter(({ path }) => path !== '');
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      Signal.disconnectBetween(this._context, this);
      this._close();
      this._clear();
      Signal.clearData(this);
    }
  }

  /** Ask once, when the kernel is idle and somebody may have imported maxlab since. */
  private _soon(): void {
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => void this._ask(), QUIET_MS);
  }

  private async _ask(): Promise<void> {
    const kernel = this._context.session?.kernel;
    if (kernel?.status !== 'idle' || this._comm !== null || this._isDisposed) {
      return;
    }
    this._isDirty = false;
    const turn = ++this._turn;
    try {
      const { language_info: language } = await kernel.info;
      const comm = language.name === 'python' ? await openHints(kernel) : null;
      if (comm !== null && turn === this._turn) {
        this._open(comm);
      }
    } catch {
      // A kernel that ends drops the question; its next status asks again.
    }
  }

  private _open(comm: Kernel.IComm): void {
    this._comm = comm;
    this._revision = -1;
    comm.onMsg = message => this._received(message);
    comm.onClose = () => {
      this._comm = null;
      this._clear();
    };
    const open: IHintsOpen = { protocol: PROTOCOL };
    void comm.open({ ...open });
  }

  private _received(message: KernelMessage.ICommMsgMsg): void {
    const { data } = message.content;
    if (!fits(isHintsMessage, data)) {
      return;
    }
    if (data.revision !== this._revision + 1) {
      // A message was lost with the connection: all are asked for again.
      this._reopen();
      return;
    }
    this._revision = data.revision;
    const told = new Map(data.sources.map(source => [keyOf(source), source]));
    const gone = data.revision > 0 ? [] : [...this._sources.values()].filter(old => !told.has(keyOf(old)));
    this._take([...gone.map(emptied), ...data.sources]);
  }

  private _take(sources: readonly ISourceHints[]): void {
    for (const source of sources) {
      if (source.lines.length > 0) {
        this._sources.set(keyOf(source), source);
      } else {
        this._sources.delete(keyOf(source));
      }
    }
    if (sources.length > 0) {
      this.changed.emit(sources);
    }
  }

  private _clear(): void {
    this._take([...this._sources.values()].map(emptied));
  }

  private _close(): void {
    window.clearTimeout(this._timer);
    this._turn += 1;
    const comm = this._comm;
    this._comm = null;
    if (comm !== null && !comm.isDisposed) {
      comm.onClose = () => undefined;
      comm.close();
    }
  }

  private _reopen(): void {
    this._close();
    this._soon();
  }

  /** The kernel is another one, or the same one without what it had in mind. */
  private _forget(): void {
    window.clearTimeout(this._timer);
    this._turn += 1;
    this._comm = null;
    this._clear();
  }

  private _onKernel(): void {
    this._forget();
    this._soon();
  }

  private _onStatus(_: ISessionContext, status: Kernel.Status): void {
    if (status === 'idle') {
      if (this._isDirty && this._comm === null) {
        this._soon();
      }
    } else if (status !== 'busy' && status !== 'unknown') {
      this._isDirty = true;
      this._forget();
    }
  }

  private _onConnection(_: ISessionContext, status: Kernel.ConnectionStatus): void {
    if (status !== 'connected') {
      this._isCut = true;
    } else if (this._isCut) {
      this._isCut = false;
      this._reopen();
    }
  }

  private _onMessage(_: ISessionContext, message: KernelMessage.IMessage): void {
    // Silent questions have no input message: only what the user runs can import maxlab.
    if (message.header.msg_type === 'execute_input') {
      this._isDirty = true;
    }
  }

  private readonly _sources = new Map<string, ISourceHints>();
  private _comm: Kernel.IComm | null = null;
  private _revision = -1;
  private _turn = 0;
  private _timer = 0;
  private _isDirty = true;
  private _isCut = false;
  private _isDisposed = false;
}

function keyOf({ cell, path }: ISourceHints): string {
  return path === '' ? `cell:${cell}` : `file:${path}`;
}

function emptied(source: ISourceHints): ISourceHints {
  return { ...source, lines: [] };
}
