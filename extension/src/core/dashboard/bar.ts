/** The toolbar of a dashboard: what is recorded, which stretch is shown, export, start and stop. */

import { append, button, el, icon } from '../view/dom';
import type { IState } from './wire';

export const SPANS: readonly [label: string, seconds: number | null, title: string][] = [
  ['30 s', 30, 'the last 30 seconds'],
  ['1 m', 60, 'the last minute'],
  ['5 m', 300, 'the last 5 minutes'],
  ['30 m', 1800, 'the last 30 minutes'],
  ['all', null, 'everything that was recorded']
];

const PERIODS: readonly [label: string, seconds: number][] = [
  ['every 0.1 s', 0.1],
  ['every 0.5 s', 0.5],
  ['every 1 s', 1],
  ['every 5 s', 5]
];

export interface IDashboardActions {
  follow(span: number | null): void;
  togglePause(): void;
  resetZoom(): void;
  start(period: number): void;
  stop(): void;
  savePicture(): void;
  saveTable(): void;
  saveRecording(): void;
}

export interface IBarState {
  state: IState;
  span: number | null;
  isFollowing: boolean;
  isZoomed: boolean;
  /** Why recording cannot be started or stopped from here; null when it can. */
  noControl: string | null;
  isBusy: boolean;
}

export class DashboardBar {
  readonly element = el('div', 'jp-MaxLab-dashBar');
  private readonly _title = el('span', 'jp-MaxLab-dashTitle');
  private readonly _state = el('span', 'jp-MaxLab-dashState');
  private readonly _label = el('span', 'jp-MaxLab-dashLabel');
  private readonly _spanGroup = el('div', 'jp-MaxLab-dashSpans');
  private readonly _spans = new Map<number | null, HTMLButtonElement>();
  private readonly _pause: HTMLButtonElement;
  private readonly _reset: HTMLButtonElement;
  private readonly _period = el('select', 'jp-MaxLab-dashPeriod');
  private readonly _control: HTMLButtonElement;
  private readonly _menu = el('details', 'jp-MaxLab-dashMenu');
  private _isRunning = false;

  constructor(private readonly _actions: IDashboardActions) {
    this.element.setAttribute('role', 'toolbar');
    this.element.setAttribute('aria-label', 'Dashboard tools');
    this._state.setAttribute('role', 'status');
    const spans = this._spanGroup;
    spans.setAttribute('role', 'group');
    spans.setAttribute('aria-label', 'Time shown');
    for (const [label, seconds, title] of SPANS) {
      const node = button('', `Show ${title}`, () => _actions.follow(seconds), label);
      this._spans.set(seconds, node);
      spans.append(node);
    }
    this._reset = button('jp-MaxLab-dashButton', 'Reset the zoom (0)', () => _actions.resetZoom(), 'Reset zoom');
    this._pause = button('jp-MaxLab-dashButton', '', () => _actions.togglePause());
    for (const [label, seconds] of PERIODS) {
      const option = el('option', '', label);
      option.value = String(seconds);
      option.selected = seconds === 1;
      this._period.append(option);
    }
    this._period.setAttribute('aria-label', 'How often to sample');
    this._control = button('jp-MaxLab-dashButton', '', () => this._startOrStop());
    this._fillMenu();
    append(
      this.element,
      el('div', 'jp-MaxLab-dashTitles', this._title, this._state, this._label),
      this._reset,
      spans,
      this._pause,
      this._menu,
      this._period,
      this._control
    );
  }

  private _fillMenu(): void {
    const item = (label: string, note: string, run: () => void): HTMLButtonElement => {
      const take = (): void => {
        this._menu.removeAttribute('open');
        run();
      };
      return button('', `${label}: ${note}`, take, label, el('small', '', note));
    };
    const summary = el('summary', 'jp-MaxLab-dashButton', 'Export', icon('down'));
    summary.setAttribute('aria-label', 'Export');
    const body = el(
      'div',
      'jp-MaxLab-dashMenuBody',
      item('Picture', 'the charts as they are, PNG', () => this._actions.savePicture()),
      item('Table', 'the samples that are shown, CSV', () => this._actions.saveTable()),
      item('Recording', 'all of it, to replay, .mlrec', () => this._actions.saveRecording())
    );
    this._menu.append(summary, body);
    this._menu.addEventListener('toggle', () => {
      // In a narrow panel the button comes to stand at the left, where a menu to the left of it would be cut.
      body.classList.remove('jp-mod-right');
      const whole = this.element.getBoundingClientRect();
      body.classList.toggle('jp-mod-right', body.getBoundingClientRect().left < whole.left);
    });
    this._menu.addEventListener('keydown', event => {
      if (event.key === 'Escape' && this._menu.open) {
        this._menu.open = false;
        summary.focus();
        event.stopPropagation();
      }
    });
    this._menu.addEventListener('focusout', event => {
      if (!(event.relatedTarget instanceof Node && this._menu.contains(event.relatedTarget))) {
        this._menu.open = false;
      }
    });
  }

  private _startOrStop(): void {
    if (this._control.getAttribute('aria-disabled') === 'true') {
      return;
    }
    if (this._isRunning) {
      this._actions.stop();
    } else {
      this._actions.start(Number(this._period.value));
    }
  }

  /** The period that is chosen for the next start. */
  get period(): number {
    return Number(this._period.value);
  }

  update({ state, span, isFollowing, isZoomed, noControl, isBusy }: IBarState): void {
    this._isRunning = state.running;
    this._title.textContent = state.replay ? state.title || 'Recording' : 'Diagnostics';
    this._state.textContent = describe(state);
    this._state.classList.toggle('jp-mod-running', state.running);
    this._label.textContent = state.label;
    this._label.hidden = state.label === '';
    for (const [seconds, node] of this._spans) {
      node.setAttribute('aria-pressed', String(!isZoomed && seconds === span));
    }
    this._reset.hidden = !isZoomed;
    this._spanGroup.hidden = !state.recorded;
    this._pause.hidden = state.replay || !state.recorded;
    setText(this._pause, isFollowing ? 'Pause' : 'Live');
    this._pause.title = isFollowing ? 'Hold the charts still (space)' : 'Follow the newest samples (space)';
    this._pause.setAttribute('aria-label', this._pause.title);
    this._menu.hidden = !state.recorded;
    this._period.hidden = state.replay || state.running;
    this._control.hidden = state.replay;
    setText(this._control, state.running ? 'Stop' : 'Start');
    this._control.classList.toggle('jp-mod-primary', !state.running);
    const why = isBusy ? 'working…' : noControl;
    const title = state.running ? 'Stop recording' : 'Start recording';
    this._control.setAttribute('aria-disabled', String(why !== null));
    this._control.title = why === null ? title : `${title}: ${why}`;
    this._control.setAttribute('aria-label', this._control.title);
  }
}

function setText(node: HTMLElement, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

export function describe(state: IState): string {
  if (state.replay) {
    return 'replay';
  }
  if (state.running) {
    return `recording every ${state.period} s`;
  }
  if (!state.recorded) {
    return 'not recording';
  }
  return state.ended === '' ? 'stopped unexpectedly' : state.ended;
}
