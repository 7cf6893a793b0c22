/** The next kernel of a document is asked for when the one before has gone. */

import type { ISessionContext, ISessionContextDialogs } from '@jupyterlab/apputils';
import { Signal } from '@lumino/signaling';
import { describe, expect, it } from 'vitest';

import { chooseKernel, restartKernel } from '../../src/lab/editor/ending';

class Context {
  kernelDisplayStatus = 'idle';
  isDisposed = false;
  readonly statusChanged = new Signal<this, string>(this);
  readonly disposed = new Signal<this, void>(this);
  readonly done: string[] = [];

  async restartKernel(): Promise<void> {
    this.done.push('restart');
  }

  become(status: string): void {
    this.kernelDisplayStatus = status;
    this.statusChanged.emit(status);
  }
}

const turns = async (): Promise<void> => {
  for (let n = 0; n < 6; n += 1) {
    await Promise.resolve();
  }
};

function world(): { context: Context; ask: () => Promise<void>; restart: () => Promise<void> } {
  const context = new Context();
  const dialogs = {
    selectKernel: async () => void context.done.push('select')
  } as unknown as ISessionContextDialogs;
  const given = context as unknown as ISessionContext;
  return { context, ask: () => chooseKernel(given, dialogs), restart: () => restartKernel(given) };
}

describe('a kernel that is chosen', () => {
  it('is asked for at once where none is being shut down', async () => {
    const { context, ask } = world();
    await ask();
    expect(context.done).toEqual(['select']);
  });

  it('is asked for when the shutdown of the one before is over', async () => {
    const { context, ask, restart } = world();
    context.become('terminating');
    const asked = Promise.all([ask(), restart()]);
    await turns();
    context.become('terminating');
    await turns();
    expect(context.done).toEqual([]);
    context.become('unknown');
    await asked;
    expect(context.done).toEqual(['select', 'restart']);
  });
});
