/** Notebook widget entry (anywidget): mounts a graph view on a model with the traits of `IWidgetTraits`. */

import { GraphView, plainFault } from '../core';
import { messageOf } from '../core/narrow';
import { isBoard, renderBoard } from './board';
import { bytesOf, isDashboard, renderDashboard } from './dashboard';
import { isGeneration, renderGeneration } from './generation';
import { HeldDocument } from './held';
import { isSampling, renderSampling } from './sampling';
import { readMessage, typeOf } from '../proto/border';
import {
  PROTOCOL,
  isServerMessage,
  type ClientMessage,
  type IFailedMessage,
  type IProfileMessage,
  type IWidgetTraits,
  type ServerMessage
} from '../proto/messages';
import { fits, isWhole, oneOf, record } from '../proto/shape';

/** What the user wanted with a message, by its type. */
const ACTIONS: ReadonlyMap<string, string> = new Map([
  ['source', 'Showing the source'],
  ['reveal', 'Showing the line'],
  ['need_since', 'Showing what changed'],
  ['ask', 'The question'],
  ['overlay', 'The overlay']
]);

/** An answer, of which only the number can be read. */
const isNumbered = record({ type: oneOf('answer'), id: isWhole });

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
  /** Whether the view is as high as its element, whatever the model says. */
  isFilling?: boolean;
}

export function render(context: IRenderContext): () => void {
  const { model, el } = context;
  if (isDashboard(context)) {
    return renderDashboard(context);
  }
  if (isSampling(context)) {
    return renderSampling(context);
  }
  if (isBoard(context)) {
    return renderBoard(context);
  }
  if (isGeneration(context)) {
    return renderGeneration(context);
  }
  const gone = (): string | null => model.get('not_live') || null;
  const reason = (): string | null => gone() ?? (model.get('no_model') || null);
  const height = (): number | 'fill' =>
    context.isFilling === true ? 'fill' : model.get('height') || 560;
  const view = new GraphView(el, {
    theme: model.get('theme'),
    height: height(),
    noProfile: reason(),
    canReveal: true,
    canAsk: true
  });
  let hasBegun = false;
  const held = new HeldDocument(view, {
    needDocument: () => model.send({ type: 'need_document', protocol: PROTOCOL }),
    needSince: revision => model.send({ type: 'need_since', protocol: PROTOCOL, revision }),
    shown: () => {
      // A view that was just drawn may have selected what failed.
      if (model.get('selection').length > 0) {
        showSelection();
      }
      if (!hasBegun && model.get('editing') && gone() === null) {
        hasBegun = true;
        view.execute('toggle-edit');
      }
    }
  });

  const showDocument = (): void => {
    const doc = model.get('doc');
    if (doc !== null && doc !== undefined) {
      view.setDocument(doc);
    } else {
      const why = gone();
      if (why === null) {
        model.send({ type: 'need_document', protocol: PROTOCOL });
      } else {
        view.showProblems('No graph to show', [why]);
      }
    }
  };
  const showSelection = (): void => view.syncSelection(model.get('selection'));
  const showHeight = (): void => view.setHeight(height());
  const showTheme = (): void => view.setTheme(model.get('theme'));
  const showLive = (): void => view.setNoProfile(reason());

  /** A message that cannot be read, or that the kernel could not: said where it matters. */
  const failed = ({ request, fault }: Pick<IFailedMessage, 'request' | 'fault'>): void => {
    if (request === 'profile') {
      view.setProfileStatus('failed', fault);
    } else if (request === 'document' || request === 'need_document') {
      view.showProblems('This graph cannot be read', [fault.message]);
    } else {
      view.showFault(ACTIONS.get(request) ?? `The message ${JSON.stringify(request)}`, fault);
    }
    console.warn(`maxlab: ${fault.message}`);
  };
  const understood = (content: unknown): ServerMessage | null => {
    try {
      return readMessage(isServerMessage, content);
    } catch (error) {
      const message = messageOf(error);
      if (fits(isNumbered, content)) {
        view.setAnswer(content.id, false, null, message, []);
      } else if (typeOf(content) === 'difference') {
        console.warn(`maxlab: ${message}`);
        held.lost();
      } else {
        failed({ request: typeOf(content), fault: plainFault(message) });
      }
      return null;
    }
  };
  /** Done is what is drawn: the document that came before has to be read and laid out. */
  const profiled = ({ status, fault }: IProfileMessage): void => {
    if (status !== 'done') {
      view.setProfileStatus(status, fault);
      return;
    }
    view.working.drawing();
    void held
      .settled()
      .then(() => view.layoutDone())
      .then(() => {
        if (!view.isDisposed) {
          view.setProfileStatus(status);
        }
      });
  };
  const received = (content: unknown, buffers?: (DataView | ArrayBuffer)[]): void => {
    const message = understood(content);
    switch (message?.type) {
      case 'document':
        held.add(message, bytesOf(buffers?.[0]));
        return;
      case 'difference':
        held.revise(message);
        return;
      case 'marks':
        view.setMarks(message.marks);
        return;
      case 'source':
        view.setKernelSource(message.kernel, message.source, message.lines);
        return;
      case 'answer':
        view.setAnswer(
          message.id,
          message.ok,
          message.data,
          message.error,
          (buffers ?? []).map(buffer => bytesOf(buffer).slice().buffer)
        );
        return;
      case 'profile':
        profiled(message);
        return;
      case 'progress':
        view.working.told(message);
        return;
      case 'failed':
        failed(message);
        return;
      default:
        // The loader read the bundle; and what could not be read was told of.
        return;
    }
  };

  const listeners: [string, (...args: never[]) => void][] = [
    ['change:doc', showDocument],
    ['change:selection', showSelection],
    ['change:height', showHeight],
    ['change:theme', showTheme],
    ['change:not_live', showLive],
    ['change:no_model', showLive],
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
    model.send({ type: 'profile', protocol: PROTOCOL });
  });
  view.events.on('cancelRequested', id => model.send({ type: 'cancel', protocol: PROTOCOL, id }));
  view.events.on('asked', asked => model.send({ type: 'ask', protocol: PROTOCOL, ...asked }));
  view.events.on('overlayGiven', given => model.send({ type: 'overlay', protocol: PROTOCOL, ...given }));
  view.events.on('sourceRequested', kernel => model.send({ type: 'source', protocol: PROTOCOL, kernel }));
  view.events.on('revealRequested', place => {
    const { file, line, col, node } = place;
    model.send({ type: 'reveal', protocol: PROTOCOL, file, line, col, node });
    const options = { detail: place, bubbles: true, composed: true, cancelable: true };
    // Who can show the place takes the event.
    if (el.dispatchEvent(new CustomEvent('maxlab:reveal', options))) {
      const text = /^cell\b/.test(file)
        ? `${file} is no cell of this notebook now`
        : `${file} is not a file that can be opened here`;
      view.announcer.hint(text);
      view.announcer.say(text);
    }
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
