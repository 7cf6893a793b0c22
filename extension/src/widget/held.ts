/**
 * The document that a view holds, kept at the newest revision: whole documents come in parts, and what
 * changed since comes as differences, each of which fits one revision only.
 */

import { inflate } from '../core';
import type { IDifference } from '../proto/difference';
import type { IDifferenceMessage, IDocumentMessage } from '../proto/messages';

export interface IHolder {
  readonly isDisposed: boolean;
  /** Shows the JSON of a document. */
  setDocument(json: string): boolean;
  /** Shows the document after a difference; false when it is not of this document. */
  setDifference(difference: IDifference): boolean;
  showProblems(title: string, problems: readonly string[]): void;
}

export interface IHeldRequests {
  needDocument(): void;
  /** What came after `revision` was missed. */
  needSince(revision: number): void;
  /** Another whole document is shown. */
  shown(): void;
}

/** No document is held: differences wait for none, because the next document is newer than they are. */
const NOTHING = -1;

export class HeldDocument {
  private _revision = NOTHING;
  /** The revision since which differences were asked for. */
  private _asked = NOTHING;
  private _parts: (Uint8Array | undefined)[] = [];
  private _partsOf = NOTHING;
  private _work: Promise<void> = Promise.resolve();

  constructor(
    private readonly _view: IHolder,
    private readonly _requests: IHeldRequests
  ) {}

  /** Takes part of a document; the last one shows it. */
  add(message: IDocumentMessage, bytes: Uint8Array): void {
    const { revision, count, index, encoding } = message;
    if (revision !== this._partsOf || this._parts.length !== count) {
      // A part of a newer revision drops what came before.
      this._partsOf = revision;
      this._parts = new Array<Uint8Array | undefined>(count).fill(undefined);
    }
    this._parts[index] = bytes;
    const parts = this._parts.filter(part => part !== undefined);
    if (parts.length < count) {
      return;
    }
    this._parts = [];
    this._partsOf = NOTHING;
    const whole = joined(parts);
    this._then(async () => {
      try {
        const json = encoding === 'deflate' ? await inflate(whole) : new TextDecoder().decode(whole);
        if (!this._view.isDisposed) {
          this._revision = this._view.setDocument(json) ? revision : NOTHING;
          this._asked = NOTHING;
          this._requests.shown();
        }
      } catch (error) {
        this._view.showProblems('This graph cannot be read', [String(error)]);
      }
    });
  }

  /** Takes a difference: draws it, or asks for what is missing before it. */
  revise(message: IDifferenceMessage): void {
    this._then(() => {
      const { since, revision, difference } = message;
      if (this._view.isDisposed || this._revision === NOTHING || revision <= this._revision) {
        return;
      }
      if (since !== this._revision) {
        if (this._asked !== this._revision) {
          this._asked = this._revision;
          this._requests.needSince(this._revision);
        }
      } else if (this._view.setDifference(difference)) {
        this._revision = revision;
      } else {
        this._start();
      }
    });
  }

  /** A difference could not be read: only a whole document helps. */
  lost(): void {
    this._then(() => {
      if (!this._view.isDisposed && this._revision !== NOTHING) {
        this._start();
      }
    });
  }

  /** Resolves when all that came until now is shown. */
  settled(): Promise<void> {
    return this._work;
  }

  private _start(): void {
    this._revision = NOTHING;
    this._requests.needDocument();
  }

  /** Does one thing after the other, in the order in which the messages came. */
  private _then(work: () => void | Promise<void>): void {
    this._work = this._work.then(work);
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
