/** Mounts a dashboard on a widget model with the traits of `IDashboardTraits`. */

import { Dashboard, detailOf, frameOf } from '../core';
import { readMessage } from '../proto/border';
import {
  isDashboardServerMessage,
  type DashboardClientMessage,
  type IDashboardTraits
} from '../proto/dashboard';
import { PROTOCOL } from '../proto/messages';

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

/** Whether a widget model is that of a dashboard; others have no `kind`. */
export function isDashboard(context: {
  model: { get(name: string): unknown };
}): context is IDashboardContext {
  return context.model.get('kind') === 'dashboard';
}

/** The bytes of a buffer of a message; none where there is no buffer. */
export function bytesOf(buffer: DataView | ArrayBuffer | Uint8Array | undefined): Uint8Array {
  if (buffer === undefined) {
    return new Uint8Array(0);
  }
  return buffer instanceof ArrayBuffer
    ? new Uint8Array(buffer)
    : new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

export function renderDashboard({ model, el }: IDashboardContext): () => void {
  const dashboard = new Dashboard(el, {
    theme: model.get('theme'),
    height: model.get('height') || 'auto',
    noControl: model.get('not_live') || null
  });

  const watch = (): void => {
    if (!model.get('not_live')) {
      model.send({ type: 'watch', protocol: PROTOCOL, cursor: dashboard.data.cursor });
    }
  };
  const received = (content: unknown, buffers?: (DataView | ArrayBuffer)[]): void => {
    const bytes = bytesOf(buffers?.[0]);
    try {
      const message = readMessage(isDashboardServerMessage, content);
      switch (message.type) {
        case 'frame':
          dashboard.apply(frameOf(message, bytes));
          return;
        case 'detail':
          dashboard.applyDetail(detailOf(message, bytes));
          return;
        case 'recording':
          dashboard.saveRecording(bytes);
          return;
        case 'failed':
          dashboard.fail([message.fault.message, message.fault.fix].filter(Boolean).join('. Fix: '));
          return;
        case 'bundle':
          // The loader of the code read it.
          return;
      }
    } catch (error) {
      dashboard.fail(error instanceof Error ? error.message : String(error));
    }
  };
  const listeners: [string, (...args: never[]) => void][] = [
    ['msg:custom', received],
    ['change:theme', () => dashboard.setTheme(model.get('theme'))],
    ['change:height', () => dashboard.setHeight(model.get('height') || 'auto')],
    ['change:not_live', () => dashboard.setNoControl(model.get('not_live') || null)]
  ];
  for (const [event, callback] of listeners) {
    model.on(event, callback);
  }
  dashboard.events.on('startRequested', period => model.send({ type: 'start', protocol: PROTOCOL, period }));
  dashboard.events.on('stopRequested', () => model.send({ type: 'stop', protocol: PROTOCOL }));
  dashboard.events.on('recordingRequested', () => model.send({ type: 'recording', protocol: PROTOCOL }));
  dashboard.events.on('detailRequested', span => model.send({ type: 'detail', protocol: PROTOCOL, ...span }));
  dashboard.events.on('restartRequested', () => model.send({ type: 'watch', protocol: PROTOCOL, cursor: '' }));
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
