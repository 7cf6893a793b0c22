/**
 * Mounts the board of a scheduler on a widget model with the traits of `IBoardTraits`: buttons that pause
 * and step it, or replay a recorded run, a slider over the steps, and the board that the kernel draws.
 */

import { child, showHtml } from './html';
import type { BoardClientMessage, IBoardTraits, IControlScheduler } from '../proto/board';
import { PROTOCOL } from '../proto/messages';

/** What this needs of an anywidget model. */
export interface IBoardModel {
  get<K extends keyof IBoardTraits>(name: K): IBoardTraits[K];
  set<K extends keyof IBoardTraits>(name: K, value: IBoardTraits[K]): void;
  save_changes(): void;
  on(event: string, callback: (...args: never[]) => void): void;
  off(event: string, callback?: (...args: never[]) => void): void;
  send(content: BoardClientMessage): void;
}

export interface IBoardContext {
  model: IBoardModel;
  el: HTMLElement;
}

/** Between two steps of a replay, at least: the next is shown when the kernel has drawn the last. */
const FRAME_MS = 250;
/** How long a kernel may take for an answer before the board is called the last one. */
const PATIENCE_MS = 4000;
const SILENT =
  'The kernel does not answer: it is busy, or it has ended. The board is that of its last answer.';

/** Whether a widget model is that of a board; others have another `kind`, or none. */
export function isBoard(context: {
  model: { get(name: string): unknown };
}): context is IBoardContext {
  return context.model.get('kind') === 'board';
}

export function renderBoard({ model, el }: IBoardContext): () => void {
  const root = child(el, 'div', 'mx-rq mx-rq-board');
  root.setAttribute('role', 'group');
  root.setAttribute('aria-label', 'steps of the scheduler');
  // Arrows and Space are those of the controls, and none of the notebook's.
  root.setAttribute('data-lm-suppress-shortcuts', 'true');
  root.addEventListener('keydown', event => {
    if (event.target instanceof HTMLInputElement && event.key !== 'Tab') {
      event.stopPropagation();
    }
  });
  const bar = child(root, 'section', 'mx-rq-buttons');
  const said = child(root, 'p', 'mx-rq-problem');
  said.setAttribute('role', 'status');
  const place = child(el, 'div', '');
  let silent = 0;
  let playing = 0;
  let silence = '';

  const wait = (): void => {
    window.clearTimeout(silent);
    silent = window.setTimeout(() => {
      silence = SILENT;
      show();
    }, PATIENCE_MS);
  };
  const go = (position: number): void => {
    if (position !== model.get('position')) {
      model.set('position', position);
      model.save_changes();
      wait();
    }
  };
  const ask = (action: IControlScheduler['action']): void => {
    model.send({ type: 'control', protocol: PROTOCOL, action });
    wait();
  };
  const button = (label: string, title: string, pressed: () => void): HTMLButtonElement => {
    const made = child(bar, 'button', '', label);
    made.type = 'button';
    made.title = title;
    made.addEventListener('click', pressed);
    return made;
  };

  const stop = (): void => {
    window.clearTimeout(playing);
    playing = 0;
  };
  /** Shows the next step of a replay some time after the last was drawn. */
  const playOn = (): void => {
    window.clearTimeout(playing);
    playing = window.setTimeout(() => {
      if (model.get('position') < model.get('count')) {
        go(model.get('position') + 1);
      } else {
        stop();
        show();
      }
    }, FRAME_MS);
  };
  const play = (): void => {
    if (playing !== 0) {
      stop();
      show();
      return;
    }
    playOn();
    if (model.get('position') >= model.get('count')) {
      go(Math.min(1, model.get('count')));
    }
    show();
  };

  const controls = model.get('can_control')
    ? {
        pause: button('Pause', 'Let the scheduler take no steps', () =>
          ask(model.get('is_paused') ? 'resume' : 'pause')
        ),
        step: button('Step', 'Let the paused scheduler take one step', () => ask('step'))
      }
    : null;
  const replay = model.get('is_live') ? null : button('Replay', 'Show one step after the other', play);
  const slider = child(bar, 'input', 'mx-rq-slider');
  slider.type = 'range';
  slider.min = '0';
  slider.step = '1';
  slider.setAttribute('aria-label', 'steps that are shown');
  slider.addEventListener('input', () => {
    stop();
    go(slider.valueAsNumber);
    show();
  });
  const told = child(bar, 'span', 'mx-rq-faint');
  const last = button('Last', 'Go to the last step, and follow the run', () => {
    stop();
    go(model.get('count'));
    show();
  });

  const show = (): void => {
    const [position, count] = [model.get('position'), model.get('count')];
    slider.max = `${count}`;
    slider.value = `${position}`;
    slider.setAttribute('aria-valuetext', `${position} of ${count} steps`);
    told.textContent = `${position.toLocaleString('en')} of ${count.toLocaleString('en')} steps`;
    last.disabled = position >= count;
    if (controls !== null) {
      const isPaused = model.get('is_paused');
      controls.pause.textContent = isPaused ? 'Go on' : 'Pause';
      controls.pause.setAttribute('aria-pressed', String(isPaused));
      controls.step.disabled = !isPaused;
    }
    if (replay !== null) {
      replay.textContent = playing === 0 ? 'Replay' : 'Stop';
      replay.disabled = count === 0;
    }
    const problem = model.get('problem') || silence;
    if (said.textContent !== problem) {
      said.textContent = problem;
    }
  };
  const answered = (): void => {
    window.clearTimeout(silent);
    silence = '';
    if (playing !== 0) {
      playOn();
    }
    show();
  };
  const showPage = (): void => showHtml(place, model.get('page'));
  const listeners: [string, () => void][] = [
    ['change:page', showPage],
    ['change:position', show],
    ['change:count', show],
    ['change:is_paused', show],
    ['change:problem', show],
    ['change:revision', answered]
  ];
  for (const [event, callback] of listeners) {
    model.on(event, callback);
  }
  showPage();
  show();

  return () => {
    window.clearTimeout(silent);
    stop();
    for (const [event, callback] of listeners) {
      model.off(event, callback);
    }
    el.replaceChildren();
  };
}
