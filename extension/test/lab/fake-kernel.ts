/** A kernel that answers silent requests, and the session around it. */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

type Request = KernelMessage.IExecuteRequestMsg['content'];

/** What Python shows of a text that is sent as base64. */
export function reprOf(text: string): object {
  const base64 = btoa(String.fromCharCode(...new TextEncoder().encode(text)));
  return { status: 'ok', data: { 'text/plain': `'${base64}'` }, metadata: {} };
}

/** A kernel whose answer to a silent request is what `answer` returns. */
export function answering(
  answer: (request: Request) => string | Promise<string>,
  language = 'python'
): Kernel.IKernelConnection {
  return {
    status: 'idle',
    isDisposed: false,
    info: Promise.resolve({ language_info: { name: language } }),
    requestExecute: (request: Request) => ({
      done: Promise.resolve(answer(request)).then(text => ({
        content: { status: 'ok', user_expressions: { maxlab: reprOf(text) } }
      }))
    })
  } as unknown as Kernel.IKernelConnection;
}

/** A session whose signals a test sends. */
export class FakeContext {
  session: { kernel: Kernel.IKernelConnection } | null = null;
  readonly statusChanged = new Signal<this, Kernel.Status>(this);
  readonly kernelChanged = new Signal<this, unknown>(this);
  readonly iopubMessage = new Signal<this, unknown>(this);
  readonly disposed = new Signal<this, void>(this);

  /** As if the user had run a cell. */
  run(): void {
    this.iopubMessage.emit({ header: { msg_type: 'execute_input' } });
  }

  get context(): ISessionContext {
    return this as unknown as ISessionContext;
  }
}
