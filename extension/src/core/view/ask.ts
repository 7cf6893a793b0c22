/** Questions to the kernel: each gets one answer, an error, or silence for longer than anybody waits. */

import type { IGraphDocument } from '../../proto/document';
import type { IAnswer } from './panel';

export interface IAsked {
  id: number;
  what: string;
  args: Record<string, unknown>;
}

interface IWaiting {
  resolve(answer: IAnswer<unknown>): void;
  reject(error: Error): void;
}

export class Questions {
  private _next = 1;
  private readonly _waiting = new Map<number, IWaiting>();

  /** @param _send tells the kernel; false when there is none. */
  constructor(
    private readonly _send: (asked: IAsked) => boolean,
    private readonly _document: () => IGraphDocument,
    private readonly _notLive: () => string | null
  ) {}

  ask<T>(what: string, args: Readonly<Record<string, unknown>> = {}): Promise<IAnswer<T>> {
    const saved = this._document().answers?.[what];
    const notLive = this._notLive();
    const isPlain = Object.keys(args).length === 0;
    if (notLive !== null) {
      return isPlain && saved !== undefined
        ? Promise.resolve({ data: saved as T, buffers: [], isSaved: true })
        : Promise.reject(new Error(`This needs a running kernel: ${notLive}.`));
    }
    return new Promise<IAnswer<T>>((resolve, reject) => {
      const id = this._next++;
      this._waiting.set(id, { resolve: resolve as IWaiting['resolve'], reject });
      if (!this._send({ id, what, args: { ...args } })) {
        this._waiting.delete(id);
        reject(new Error('This needs a running kernel.'));
      }
    });
  }

  /** Hands an answer to whoever asked; one that nobody waits for is dropped. */
  answered(
    id: number,
    isGood: boolean,
    data: unknown,
    error: string,
    buffers: readonly ArrayBuffer[]
  ): void {
    const waiting = this._waiting.get(id);
    this._waiting.delete(id);
    if (isGood) {
      waiting?.resolve({ data, buffers, isSaved: false });
    } else {
      waiting?.reject(new Error(error || 'The kernel could not answer.'));
    }
  }

  /** Nobody will answer any more. */
  drop(reason: string): void {
    const all = [...this._waiting.values()];
    this._waiting.clear();
    for (const waiting of all) {
      waiting.reject(new Error(reason));
    }
  }
}
