/** Questions to the kernel: each gets one answer, an error, or silence for longer than anybody waits. */

import { readAnswer, savedAnswer } from '../../proto/answers';
import type { IGraphDocument } from '../../proto/document';
import type { IQuestions, QuestionName } from '../../proto/questions';
import type { IAnswer } from './panel';

export interface IAsked {
  id: number;
  what: string;
  args: Record<string, unknown>;
}

interface IWaiting {
  /** Throws a sentence to show when the answer cannot be read. */
  resolve(data: unknown, buffers: readonly ArrayBuffer[]): void;
  reject(error: Error): void;
}

/** Whoever was asked has gone without an answer. */
export class UnansweredError extends Error {}

export class Questions {
  private _next = 1;
  private readonly _waiting = new Map<number, IWaiting>();

  /** @param _send tells the kernel; false when there is none. */
  constructor(
    private readonly _send: (asked: IAsked) => boolean,
    private readonly _document: () => IGraphDocument,
    private readonly _notLive: () => string | null
  ) {}

  async ask<K extends QuestionName>(
    what: K,
    args?: IQuestions[K]['args']
  ): Promise<IAnswer<IQuestions[K]['answer']>> {
    const saved = savedAnswer(this._document(), what);
    const notLive = this._notLive();
    const given = { ...args };
    if (notLive !== null) {
      if (saved === undefined || Object.keys(given).length > 0) {
        throw new Error(`This needs a running kernel: ${notLive}.`);
      }
      return { data: readAnswer(what, saved), buffers: [], isSaved: true };
    }
    return new Promise((done, reject) => {
      const id = this._next++;
      const resolve = (data: unknown, buffers: readonly ArrayBuffer[]): void =>
        done({ data: readAnswer(what, data), buffers, isSaved: false });
      this._waiting.set(id, { resolve, reject });
      if (!this._send({ id, what, args: given })) {
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
    if (waiting === undefined) {
      return;
    }
    if (!isGood) {
      waiting.reject(new Error(error || 'The kernel could not answer.'));
      return;
    }
    try {
      waiting.resolve(data, buffers);
    } catch (problem) {
      waiting.reject(problem instanceof Error ? problem : new Error(String(problem)));
    }
  }

  /** Nobody will answer any more. */
  drop(reason: string): void {
    const all = [...this._waiting.values()];
    this._waiting.clear();
    for (const waiting of all) {
      waiting.reject(new UnansweredError(reason));
    }
  }
}
