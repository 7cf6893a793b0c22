/** Mounts a dashboard on a widget model with the traits of `IDashboardTraits`. */

import { Dashboard, readDetail, readFrame } from '../core';
import type {
  DashboardClientMessage,
  DashboardServerMessage,
  IDashboardTraits
} from '../proto/messages';

/** What this needs of an anywidget model. */
export interface IDashboardModel {
  get<K extends keyof IDashboardTraits>(name: K): IDashboardTraits[K];
  on(event: string, callback: (...args: never[]) => void): void;
  off(event: string, callback?: (...args: never[]) => void): void;
  send(content: DashboardClientMessage): void;
}

export interface IDashboardContext {
  model: IDashboardModel;
  el: HTMLElement;
}

/** How often the kernel is told that somebody still watches; it forgets a page after three times that. */
const WATCH_MS = 10_000;

export function isDashboard(context: unknown): context is IDashboardContext {
  const { model } = context as IDashboardContext;
  return model.get('kind') === 'dashboard';
}

function bytesOf(buffer: DataView | ArrayBuffer | Uint8Array | undefined): Uint8Array {
  if (buffer === undefined) {
    return new Uint8Array(0);
  }
  return buffer instanceof ArrayBuffer
    ? new Uint8Array(buffer)
    : new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

export function renderDashboard({ model, el }: IDashboardContext): () => void {
  const dashboard = new Dashboard(el, {
    theme: model.get('theme') || 'auto',
    height: model.get('height') || 'auto',
    noControl: model.get('not_live') || null
  });

  const watch = (): void => {
    if (!model.get('not_live')) {
      model.send({ type: 'watch', cursor: dashboard.data.cursor });
    }
  };
  const received = (message: DashboardServerMessage, buffers?: (DataView | ArrayBuffer)[]): void => {
    const bytes = bytesOf(buffers?.[0]);
    try {
      switch (message.type) {
        case 'frame':
          dashboard.apply(readFrame(message, bytes));
          return;
        case 'detail':
          dashboard.applyDetail(readDetail(message, bytes));
          return;
        case 'recording':
          dashboard.saveRecording(bytes);
          return;
        case 'failed':
          dashboard.fail(message.message);
          return;
        default:
          // A message of a newer kernel side; this view does without it.
          console.warn('maxlab: unknown message', message);
      }
    } catch (error) {
      dashboard.fail(error instanceof Error ? error.message : String(error));
    }
  };
  const listeners: [string, (...args: never[]) => void][] = [
    ['msg:custom', received],
    ['change:theme', () => dashboard.setTheme(model.get('theme') || 'auto')],
    ['change:height', () => dashboard.setHeight(model.get('height') || 'auto')],
    ['change:not_live', () => dashboard.setNoControl(model.get('not_live') || null)]
  ];
  for (const [event, callback] of listeners) {
    model.on(event, callback);
  }
  dashboard.events.on('startRequested', period => model.send({ type: 'start', period }));
  dashboard.events.on('stopRequested', () => model.send({ type: 'stop' }));
  dashboard.events.on('recordingRequested', () => model.send({ type: 'recording' }));
  dashboard.events.on('detailRequested', span => model.send({ type: 'detail', ...span }));
  dashboard.events.on('restartRequested', () => model.send({ type: 'watch', cursor: '' }));
  watch();
  const timer = window.setInterval(() => {
    // A page in the background is not drawn: it asks again when it is looked at.
    if (document.visibilityState === 'visible' && el.isConnected) {
      watch();
    }
  }, WATCH_MS);
  const shown = (): void => {
    if (document.visibilityState === 'visible') {
      watch();
    }
  };
  document.addEventListener('visibilitychange', shown);

  return () => {
    window.clearInterval(timer);
    document.removeEventListener('visibilitychange', shown);
    for (const [event, callback] of listeners) {
      model.off(event, callback);
    }
    dashboard.dispose();
  };
}
