/**
 * The next kernel of a document comes when the one before has gone. JupyterLab takes a kernel that is
 * chosen while it shuts the old one down for the old one, and drops it: the document would have none.
 */

import type { ISessionContext, ISessionContextDialogs } from '@jupyterlab/apputils';

type Ending = Pick<ISessionContext, 'kernelDisplayStatus' | 'statusChanged' | 'disposed' | 'isDisposed'>;

/** Resolves when no kernel of `context` is being shut down. */
export function whenEnded(context: Ending): Promise<void> {
  const isOver = (): boolean => context.isDisposed || context.kernelDisplayStatus !== 'terminating';
  return new Promise(resolve => {
    const look = (): void => {
      if (isOver()) {
        context.statusChanged.disconnect(look);
        context.disposed.disconnect(look);
        // The session goes right after its status.
        void Promise.resolve().then(resolve);
      }
    };
    context.statusChanged.connect(look);
    context.disposed.connect(look);
    look();
  });
}

/** Asks for a kernel, and starts it. */
export async function chooseKernel(context: ISessionContext, dialogs: ISessionContextDialogs): Promise<void> {
  await whenEnded(context);
  await dialogs.selectKernel(context);
}

/** Starts the kernel again, or one like that which has gone. */
export async function restartKernel(context: ISessionContext): Promise<void> {
  await whenEnded(context);
  await context.restartKernel();
}
