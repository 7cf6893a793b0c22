/** The model of a view in a tab: its traits are kept in step with the kernel over a comm of the tab. */

import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';

import { messageOf } from '../core';
import { isWidgetTraits, type ClientMessage, type IWidgetTraits } from '../proto/messages';
import { fits, isAnything, isText, oneOf, read, record, table } from '../proto/shape';
import type { IWidgetModel } from '../widget';

/** The messages of widgets that matter here, as ipywidgets sends them. */
const isUpdate = record({
  method: oneOf('update'),
  state: table(isAnything)
});
const isCustom = record({
  method: oneOf('custom'),
  content: isAnything
});
/** What a kernel says that cannot show what it was asked for. */
const isRefusal = record({ error: isText });

type Callback = (...args: never[]) => void;

export class CommModel implements IWidgetModel {
  /** Resolves when the kernel has told the first traits; rejects when it refuses. */
  readonly ready: Promise<void>;

  constructor(
    private readonly _comm: Kernel.IComm,
    id: string,
    /** What the view says when the channel is closed by the other end. */
    private readonly _gone: string,
    /** Whether the view begins with editing on. */
    editing = false
  ) {
    let isTold = (): void => undefined;
    let isRefused = (_: Error): void => undefined;
    this.ready = new Promise<void>((resolve, reject) => {
      isTold = resolve;
      isRefused = reject;
    });
    _comm.onMsg = message => {
      try {
        this._received(message);
        isTold();
      } catch (error) {
        isRefused(new Error(messageOf(error)));
      }
    };
    _comm.onClose = message => {
      const { data } = message.content;
      isRefused(new Error(fits(isRefusal, data) ? data.error : this._gone));
      this.end();
    };
    void _comm.open({ id, editing });
  }

  /** Whether the kernel still answers. */
  get isOpen(): boolean {
    return !this._hasEnded && !this._comm.isDisposed;
  }

  /** Id of the channel. */
  get id(): string {
    return this._comm.commId;
  }

  get<K extends keyof IWidgetTraits>(name: K): IWidgetTraits[K] {
    return this._traits[name];
  }

  set<K extends keyof IWidgetTraits>(name: K, value: IWidgetTraits[K]): void {
    this._traits = { ...this._traits, [name]: value };
    this._unsaved.add(name);
  }

  save_changes(): void {
    const state = Object.fromEntries(
      Object.entries(this._traits).filter(([name]) => this._unsaved.has(name))
    );
    this._unsaved.clear();
    if (this.isOpen) {
      this._tell({ method: 'update', state, buffer_paths: [] });
    }
  }

  send(content: ClientMessage): void {
    if (this.isOpen) {
      this._tell({ method: 'custom', content });
    }
  }

  on(event: string, callback: Callback): void {
    this._listeners.push([event, callback]);
  }

  off(event: string, callback?: Callback): void {
    this._listeners = this._listeners.filter(
      ([name, other]) => name !== event || (callback !== undefined && other !== callback)
    );
  }

  /** Say that nobody answers any more. */
  end(): void {
    if (!this._hasEnded) {
      this._hasEnded = true;
      this._take({ ...this._traits, not_live: this._gone });
    }
  }

  /** Close the channel: the kernel lets go of its end of the view. */
  close(): void {
    if (this.isOpen) {
      this._hasEnded = true;
      this._comm.close();
    }
    this._listeners = [];
  }

  private _tell(message: object): void {
    // Through its text, as it will travel: what JSON has no words for is left out, so it is an object of JSON.
    // eslint-disable-next-line @typescript-eslint/no-unsafe-assignment
    const data: JSONObject = JSON.parse(JSON.stringify(message));
    this._comm.send(data);
  }

  private _received(message: KernelMessage.ICommMsgMsg): void {
    const { data } = message.content;
    if (fits(isUpdate, data)) {
      this._take(read(isWidgetTraits, { ...this._traits, ...data.state }, 'The view cannot be read'));
    } else if (fits(isCustom, data)) {
      this._emit('msg:custom', data.content, message.buffers);
    }
  }

  private _take(traits: IWidgetTraits): void {
    const old = this._traits;
    this._traits = traits;
    const names = ['doc', 'selection', 'height', 'theme', 'not_live', 'no_model'] as const;
    for (const name of names) {
      if (JSON.stringify(old[name]) !== JSON.stringify(traits[name])) {
        this._emit(`change:${name}`);
      }
    }
  }

  private _emit(event: string, ...args: unknown[]): void {
    for (const [name, callback] of [...this._listeners]) {
      if (name === event) {
        Reflect.apply(callback, undefined, args);
      }
    }
  }

  private _traits: IWidgetTraits = {
    doc: null,
    selection: [],
    height: 560,
    theme: 'auto',
    not_live: '',
    no_model: '',
    revision: 0,
    editing: false
  };
  private readonly _unsaved = new Set<string>();
  private _listeners: [string, Callback][] = [];
  private _hasEnded = false;
}
