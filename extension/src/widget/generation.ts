/**
 * Mounts an answer on a widget model with the traits of `IGenerationTraits`: its tokens as buttons, and
 * below them what is told of the chosen one. The graph of its step is a widget of its own.
 */

import { TokenButtons } from '../core';
import { showHtml } from './html';
import type { GenerationClientMessage, IGenerationTraits } from '../proto/generation';
import { PROTOCOL } from '../proto/messages';

/** What this needs of an anywidget model. */
export interface IGenerationModel {
  get<K extends keyof IGenerationTraits>(name: K): IGenerationTraits[K];
  on(event: string, callback: (...args: never[]) => void): void;
  off(event: string, callback?: (...args: never[]) => void): void;
  send(content: GenerationClientMessage): void;
}

export interface IGenerationContext {
  model: IGenerationModel;
  el: HTMLElement;
}

/** How long a kernel may take before it is called silent; it answers at once that it works. */
const PATIENCE_MS = 4000;
const SILENT =
  'The kernel does not answer: it is busy, or it has ended. After a restart, run this cell again.';

/** Whether a widget model is that of an answer; others have another `kind`, or none. */
export function isGeneration(context: {
  model: { get(name: string): unknown };
}): context is IGenerationContext {
  return context.model.get('kind') === 'generation';
}

export function renderGeneration({ model, el }: IGenerationContext): () => void {
  const place = document.createElement('div');
  const about = document.createElement('section');
  about.className = 'mx-rq-about';
  about.setAttribute('aria-live', 'polite');
  el.append(place);
  let timer = 0;
  let tokens: TokenButtons | null = null;

  const tell = (): void => {
    window.clearTimeout(timer);
    const html = model.get('about');
    about.hidden = html === '';
    showHtml(about, html);
    tokens?.mark(model.get('chosen'));
  };
  const choose = (token: number): void => {
    if (token < 0 && model.get('chosen') < 0) {
      return;
    }
    model.send({ type: 'choose', protocol: PROTOCOL, token });
    window.clearTimeout(timer);
    timer = window.setTimeout(() => {
      about.hidden = false;
      about.textContent = SILENT;
    }, PATIENCE_MS);
  };
  const showPage = (): void => {
    tokens?.dispose();
    showHtml(place, model.get('page'));
    tokens = new TokenButtons(place, choose);
    const card = place.querySelector('.mx-rq');
    card?.querySelector('.mx-rq-tokens')?.closest('section')?.after(about);
    tell();
  };
  const listeners: [string, () => void][] = [
    ['change:page', showPage],
    ['change:revision', tell]
  ];
  for (const [event, callback] of listeners) {
    model.on(event, callback);
  }
  showPage();

  return () => {
    window.clearTimeout(timer);
    tokens?.dispose();
    for (const [event, callback] of listeners) {
      model.off(event, callback);
    }
    el.replaceChildren();
  };
}
