/**
 * Advice: what would make the model faster, ranked by what it should save; and experiments, which can
 * be tried whatever they should save. Each is tried with the press of a button.
 */

import { copyText } from '../../view/copying';
import { asRegion, el } from '../../view/dom';
import type { IPanel, IPanelHost, IPanelType, IPanelView } from '../../view/panel';
import { Asked } from '../parts/asked';
import { chosenSection } from '../parts/chosen';
import { WhenShown } from '../parts/when';
import type { IAdviceAction, IAdviceAnswer, ITryAnswer } from '../../../proto/costs';
import { Card, type ICardHost } from './card';
import { ADVICE_STYLES } from './css';

const NOTHING =
  'Nothing is known that would save a hundredth of the time: each kernel does what it has to, about as ' +
  'fast as this machine can. The roofline says how near each is to its ceiling.';

const NOTHING_SEEN = 'Nothing was found that does not need quiet times to be seen.';

function whole(answer: IAdviceAnswer): IAdviceAnswer {
  return answer;
}

/** Why no savings are predicted, above the list; null where they are. */
function withheldNote({ withheld = '' }: IAdviceAnswer): HTMLElement | null {
  return withheld === ''
    ? null
    : el('p', 'jp-MaxLab-panelNote jp-MaxLab-adviceWithheld', `No savings are predicted: ${withheld}.`);
}

class AdvicePanel implements IPanel {
  readonly element = el('div', 'jp-MaxLab-columns jp-MaxLab-advice');
  private readonly _view: IPanelView;
  private readonly _when = new WhenShown(() => this._load());
  private readonly _advice: Asked<'advice', IAdviceAnswer>;
  private readonly _experiments: Asked<'experiments', IAdviceAnswer>;
  private readonly _main = el('div', 'jp-MaxLab-scroll');
  private readonly _side = el('div', 'jp-MaxLab-sideColumn');
  private _cards: Card[] = [];
  private _trials: Card[] = [];
  /** The selection that the experiments are about. */
  private _about = '';

  constructor(host: IPanelHost) {
    this._view = host.view;
    this._advice = new Asked(host.view, 'advice', whole, () => this._show());
    this._experiments = new Asked(host.view, 'experiments', whole, () => this._showExperiments());
    for (const [node, label] of [
      [this._main, 'Advice'],
      [this._side, 'Experiments']
    ] as const) {
      asRegion(node, label);
    }
    this.element.append(el('div', 'jp-MaxLab-mainColumn', this._main), this._side);
  }

  update(): void {
    this._when.update();
  }

  shown(isShown: boolean): void {
    this._when.shown(isShown);
    if (isShown) {
      this._askExperiments(this._view.selection);
    }
  }

  selected(ids: readonly string[]): void {
    this._mark(ids);
    if (this._when.isShown) {
      this._askExperiments(ids);
    }
  }

  resized(): void {
    // The browser lays the text out.
  }

  dispose(): void {
    this._advice.clear();
    this._experiments.clear();
    this.element.remove();
  }

  private _load(): void {
    this._about = '';
    void this._advice.ask();
    this._askExperiments(this._view.selection);
  }

  private _askExperiments(ids: readonly string[]): void {
    const about = `${this._view.notLive ?? ''}:${ids.join(' ')}`;
    // A trial that was made stays in sight until somebody selects other nodes.
    if (about === this._about) {
      return;
    }
    this._about = about;
    if (this._view.notLive === null) {
      void this._experiments.ask({ nodes: [...ids] });
    } else {
      this._experiments.clear();
      this._showExperiments();
    }
  }

  private _cardHost(): ICardHost {
    return {
      notLive: () => this._view.notLive,
      tryIt: action => this._try(action),
      select: action => this._view.select(action.nodes),
      copy: copyText,
      say: text => this._view.say(text)
    };
  }

  private async _try(action: IAdviceAction): Promise<ITryAnswer> {
    return (await this._view.ask('try', { id: action.id })).data;
  }

  private _made(actions: readonly IAdviceAction[]): Card[] {
    const largest = Math.max(1, ...actions.map(action => Math.abs(action.predicted_ns ?? 0)));
    const host = this._cardHost();
    return actions.map(action => new Card(action, host, largest));
  }

  private _mark(ids: readonly string[]): void {
    const selected = new Set(ids);
    for (const card of [...this._cards, ...this._trials]) {
      card.mark(selected);
    }
  }

  private _show(): void {
    const placeholder = this._advice.placeholder('Looking for what costs time, which may first measure the machine…');
    const answer = this._advice.value;
    if (answer === null) {
      this._cards = [];
      this._main.replaceChildren(...(placeholder === null ? [] : [placeholder]));
      return;
    }
    this._cards = this._made(answer.actions);
    const note = withheldNote(answer);
    const chosen = chosenSection(answer);
    this._main.replaceChildren(
      ...(note === null ? [] : [note]),
      answer.actions.length === 0
        ? el('p', 'jp-MaxLab-panelNote', note === null ? NOTHING : NOTHING_SEEN)
        : el('ol', 'jp-MaxLab-adviceList', ...this._cards.map(card => card.element)),
      ...(chosen === null ? [] : [chosen])
    );
    this._mark(this._view.selection);
  }

  private _showExperiments(): void {
    const head = el('section', 'jp-MaxLab-section', el('h3', '', 'Experiments'));
    const { notLive } = this._view;
    const answer = this._experiments.value;
    if (notLive !== null || answer === null) {
      this._trials = [];
      const note =
        notLive === null
          ? this._experiments.placeholder('Looking for what can be tried…')
          : el('p', 'jp-MaxLab-note', `Trying things needs a running kernel: ${notLive}.`);
      head.append(...(note === null ? [] : [note]));
      this._side.replaceChildren(head);
      return;
    }
    this._trials = this._made(answer.actions);
    const about =
      this._view.selection.length > 0
        ? 'Of the model, and of the selected operations.'
        : 'Of the whole model; select operations to try them apart.';
    const list = el('ul', 'jp-MaxLab-adviceList', ...this._trials.map(card => card.element));
    head.append(el('p', 'jp-MaxLab-note', about), list);
    this._side.replaceChildren(head);
    this._mark(this._view.selection);
  }
}

export const advicePanel: IPanelType = {
  id: 'advice',
  title: 'Advice',
  hint: 'What would make the model faster, ranked by what it should save; try it and see what it does',
  css: ADVICE_STYLES,
  isAvailable: view =>
    view.timing.kernels.length > 0 ? null : 'Advice is made of measured times: press Profile first.',
  make: host => new AdvicePanel(host)
};
