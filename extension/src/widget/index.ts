/** Notebook widget entry (anywidget): mounts a graph view on a model with the traits of `IWidgetTraits`. */

import { GraphView, inflate } from '../core';
import { isDashboard, renderDashboard } from './dashboard';
import type { ClientMessage, IWidgetTraits, ServerMessage } from '../proto/messages';
import { readLines } from '../proto/validate';

/** What this entry needs of an anywidget model. */
export interface IWidgetModel {
  get<K extends keyof IWidgetTraits>(name: K): IWidgetTraits[K];
  set<K extends keyof IWidgetTraits>(name: K, value: IWidgetTraits[K]): void;
  save_changes(): void;
  on(event: string, callback: (...args: never[]) => void): void;
  off(event: string, callback?: (...args: never[]) => void): void;
  send(content: ClientMessage): void;
}

export interface IRenderContext {
  model: IWidgetModel;
  el: HTMLElement;
}

/** Joins the parts of a document; a part of a newer revision drops what came before. */
class Parts {
  private _revision = -1;
  private _parts: (Uint8Array | undefined)[] = [];

  add(message: Extract<ServerMessage, { type: 'document' }>, bytes: Uint8Array): Uint8Array | null {
    if (message.revision !== this._revision || this._parts.length !== message.count) {
      this._revision = message.revision;
      this._parts = new Array<Uint8Array | undefined>(message.count).fill(undefined);
    }
    this._parts[message.index] = bytes;
    const parts = this._parts.filter(part => part !== undefined);
    if (parts.length < message.count) {
      return null;
    }
    const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      joined.set(part, at);
      at += part.length;
    }
    this._parts = [];
    this._revision = -1;
    return joined;
  }
}

function bytesOf(buffer: DataView | ArrayBuffer | Uint8Array | undefined): Uint8Array {
  if (buffer === undefined) {
    return new Uint8Array(0);
  }
  return buffer instanceof ArrayBuffer
    ? new Uint8Array(buffer)
    : new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

export function render(context: IRenderContext): () => void {
  const { model, el } = context;
  if (isDashboard(context)) {
    return renderDashboard(context);
  }
  const reason = (): string | null => model.get('not_live') || null;
  const view = new GraphView(el, {
    theme: model.get('theme') || 'auto',
    height: model.get('height') || 560,
    noProfile: reason(),
    canReveal: true,
    canAsk: true
  });
  const parts = new Parts();

  const showDocument = (): void => {
    const doc = model.get('doc');
    if (doc !== null && doc !== undefined) {
      view.setDocument(doc);
    } else if (reason() === null) {
      model.send({ type: 'need_document' });
    } else {
      view.showProblems('No graph to show', [reason() ?? '']);
    }
  };
  const showSelection = (): void => view.syncSelection(model.get('selection') ?? []);
  const showHeight = (): void => view.setHeight(model.get('height') || 560);
  const showTheme = (): void => view.setTheme(model.get('theme') || 'auto');
  const showLive = (): void => view.setNoProfile(reason());

  const received = (message: ServerMessage, buffers?: (DataView | ArrayBuffer)[]): void => {
    switch (message.type) {
      case 'document': {
        const whole = parts.add(message, bytesOf(buffers?.[0]));
        if (whole !== null) {
          const text =
            message.encoding === 'deflate'
              ? inflate(whole)
              : Promise.resolve(new TextDecoder().decode(whole));
          text.then(
            json => {
              if (!view.isDisposed) {
                view.setDocument(json);
                // A view that was just drawn may have selected what failed.
                if (model.get('selection').length > 0) {
                  showSelection();
                }
              }
            },
            (error: unknown) => view.showProblems('This graph cannot be read', [String(error)])
          );
        }
        return;
      }
      case 'source':
        view.setKernelSource(message.kernel, String(message.source), readLines(message.lines));
        return;
      case 'answer':
        view.setAnswer(
          message.id,
          message.ok,
          message.data,
          message.error,
          (buffers ?? []).map(buffer => bytesOf(buffer).slice().buffer as ArrayBuffer)
        );
        return;
      case 'profile':
        view.setProfileStatus(message.status, message.message ?? '');
        return;
      default:
        // A message of a newer kernel side; this view does without it.
        console.warn('maxlab: unknown message', message);
    }
  };

  const listeners: [string, (...args: never[]) => void][] = [
    ['change:doc', showDocument],
    ['change:selection', showSelection],
    ['change:height', showHeight],
    ['change:theme', showTheme],
    ['change:not_live', showLive],
    ['msg:custom', received]
  ];
  for (const [event, callback] of listeners) {
    model.on(event, callback);
  }
  view.events.on('selectionChanged', ids => {
    model.set('selection', ids);
    model.save_changes();
  });
  view.events.on('profileRequested', () => {
    view.setProfileStatus('running');
    model.send({ type: 'profile' });
  });
  view.events.on('asked', asked => model.send({ type: 'ask', ...asked }));
  view.events.on('sourceRequested', kernel => model.send({ type: 'source', kernel }));
  view.events.on('revealRequested', place => {
    model.send({ type: 'reveal', ...place });
    el.dispatchEvent(new CustomEvent('maxlab:reveal', { detail: place, bubbles: true, composed: true }));
  });
  showDocument();
  showSelection();

  return () => {
    for (const [event, callback] of listeners) {
      model.off(event, callback);
    }
    view.dispose();
  };
}

export default { render };
