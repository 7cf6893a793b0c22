/** One action: what to change, what it should save, how; and what it saved when it was tried. */

import { formatShare } from '../../model/format';
import { asRegion, button, el } from '../../view/dom';
import type { IAdviceAction, ITryAnswer } from '../../../proto/costs';
import { formatSaving, intervalText, spokenPrediction } from './advice';
import { trialView } from './result';

export interface ICardHost {
  /** Why nothing can be tried; null while a kernel answers. */
  notLive(): string | null;
  tryIt(action: IAdviceAction): Promise<ITryAnswer>;
  select(action: IAdviceAction): void;
  copy(text: string): Promise<boolean>;
  say(text: string): void;
}

const CHANGES: Record<string, string> = {
  rounding: 'may change the last digits',
  precision: 'changes the precision'
};

export class Card {
  readonly element: HTMLElement;
  private readonly _title: HTMLElement;
  private readonly _result = el('div', 'jp-MaxLab-adviceOutcome');
  private readonly _try: HTMLButtonElement | null = null;
  private _isTrying = false;

  /** @param _largest the largest prediction of the list, which fills the bar. */
  constructor(
    readonly action: IAdviceAction,
    private readonly _host: ICardHost,
    private readonly _largest: number
  ) {
    this._title = button(
      'jp-MaxLab-adviceTitle',
      `${action.title}: ${spokenPrediction(action)}. Selects what it is about`,
      () => this._host.select(action),
      action.title
    );
    this._result.setAttribute('role', 'status');
    const tools = el('div', 'jp-MaxLab-adviceTools');
    if (action.can_try) {
      this._try = button('jp-MaxLab-plainButton jp-mod-primary', `Try it: ${action.title}`, () => void this._run(), 'Try it');
      tools.append(this._try);
    }
    if (action.how !== '') {
      const copy = button('jp-MaxLab-plainButton', `Copy the code for: ${action.title}`, () => void this._copy(copy), 'Copy code');
      tools.append(copy);
    }
    const notes = [CHANGES[action.changes], action.can_try ? undefined : 'a change to make in the graph'];
    const note = notes.filter(words => words !== undefined).join(' · ');
    if (note !== '') {
      tools.append(el('span', 'jp-MaxLab-note', note));
    }
    this.element = el(
      'li',
      'jp-MaxLab-adviceCard',
      el('div', 'jp-MaxLab-adviceHead', this._title, this._prediction()),
      el('p', 'jp-MaxLab-adviceWhy', action.why),
      this._how(),
      tools,
      this._result
    );
    this.refresh();
  }

  mark(selected: ReadonlySet<string>): void {
    const on = this.action.nodes.some(id => selected.has(id));
    this.element.classList.toggle('jp-mod-selected', on);
    this._title.setAttribute('aria-pressed', String(on));
  }

  /** Whether somebody answers may have changed. */
  refresh(): void {
    if (this._try !== null) {
      const why = this._host.notLive();
      this._try.disabled = why !== null || this._isTrying;
      this._try.title = why === null ? `Try it: ${this.action.title}` : `This needs a running kernel: ${why}.`;
    }
  }

  private _prediction(): HTMLElement {
    const { predicted_ns: predictedNs, predicted_share: predictedShare } = this.action;
    if (predictedNs === null || predictedShare === null) {
      return el('span', 'jp-MaxLab-adviceSaving jp-MaxLab-note', 'no prediction');
    }
    const { low_ns: low = null, high_ns: high = null } = this.action;
    const interval = el('span', 'jp-MaxLab-adviceInterval', intervalText(low, high));
    interval.title =
      'Where the saving should lie: how much the runs varied, and how far such predictions were off where they were tried';
    const share = predictedShare >= 0 ? formatShare(predictedShare) : `+${formatShare(-predictedShare)}`;
    const fill = el('span', predictedNs < 0 ? 'jp-mod-worse' : '');
    const bar = el('span', 'jp-MaxLab-adviceGauge', fill);
    fill.style.width = `${100 * Math.min(1, Math.abs(predictedNs) / Math.max(this._largest, 1))}%`;
    bar.setAttribute('aria-hidden', 'true');
    return el(
      'span',
      'jp-MaxLab-adviceSaving',
      bar,
      el('strong', '', formatSaving(predictedNs)),
      el('span', 'jp-MaxLab-note', share),
      interval
    );
  }

  private _how(): HTMLElement | null {
    if (this.action.how === '') {
      return null;
    }
    const text = el('pre', 'jp-MaxLab-adviceCode', this.action.how);
    asRegion(text, `Code for: ${this.action.title}`);
    return el('details', 'jp-MaxLab-adviceHow', el('summary', '', 'How'), text);
  }

  private async _copy(node: HTMLElement): Promise<void> {
    const done = await this._host.copy(this.action.how);
    node.textContent = done ? 'Copied' : 'Copy code';
    this._host.say(done ? 'Code copied' : 'This page may not copy: open “How” and copy it by hand');
    setTimeout(() => {
      node.textContent = 'Copy code';
    }, 1500);
  }

  private async _run(): Promise<void> {
    this._isTrying = true;
    this.refresh();
    this._result.replaceChildren(el('p', 'jp-MaxLab-note', 'Compiling, and running both in turns…'));
    try {
      const trial = await this._host.tryIt(this.action);
      this._result.replaceChildren(trialView(trial));
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error);
      this._result.replaceChildren(el('p', 'jp-MaxLab-adviceProblem', words));
    }
    this._isTrying = false;
    this.refresh();
  }
}
