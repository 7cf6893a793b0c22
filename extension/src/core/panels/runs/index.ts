/** The panel of runs: two or more compared, or one model at many sizes. */

import { savedAnswer } from '../../../proto/answers';
import { el } from '../../view/dom';
import type { IPanel, IPanelHost, IPanelType, IPanelView } from '../../view/panel';
import { Asked } from '../parts/asked';
import { Choice } from '../parts/choice';
import { WhenShown } from '../parts/when';
import { CompareView } from './compare';
import { RUNS_STYLES } from './css';
import { runsOf, type IComparison, type ISweep } from './data';
import { SizesView } from './sizes';

type Which = 'Runs' | 'Sizes';

class RunsPanel implements IPanel {
  readonly element = el('div', 'jp-MaxLab-runs');
  private readonly _view: IPanelView;
  private readonly _asked: Asked<'runs', IComparison | ISweep>;
  private readonly _when = new WhenShown(() => void this._asked.ask());
  private readonly _compare: CompareView;
  private readonly _sizes: SizesView;
  private readonly _which: Choice<Which>;
  private _document: unknown = null;

  constructor(host: IPanelHost) {
    this._view = host.view;
    this._asked = new Asked(host.view, 'runs', runsOf, () => this._show());
    this._compare = new CompareView(host.view, (before, after) => {
      void this._asked.ask({ before, after });
    });
    this._sizes = new SizesView(host.view);
    this._which = new Choice<Which>('Compare', ['Runs', 'Sizes'], 'Runs', () => this._show());
  }

  update(): void {
    const { name, nodes } = this._view.model.document;
    const document = `${name} ${nodes.length}`;
    if (document !== this._document) {
      this._document = document;
      this._sizes.clear();
    }
    this._when.update();
  }

  shown(isShown: boolean): void {
    this._when.shown(isShown);
    this._front();
  }

  selected(ids: readonly string[]): void {
    this._compare.selected(ids);
    this._sizes.selected(ids);
  }

  resized(): void {
    this._sizes.redraw();
  }

  dispose(): void {
    this._asked.clear();
    this._compare.shown(false);
    this._sizes.dispose();
    this.element.remove();
  }

  private get _isComparing(): boolean {
    return this._asked.value?.kind !== 'sweep' && this._which.value === 'Runs';
  }

  /** Only what is in front paints the graph. */
  private _front(): void {
    this._compare.shown(this._when.isShown && this._isComparing && this._asked.value !== null);
  }

  private _show(): void {
    const found = this._asked.value;
    const placeholder = this._asked.placeholder('Comparing the runs…');
    if (found === null) {
      // A question on its way changes nothing yet: the table stays until there is an answer.
      if (!this._asked.isAsking || this.element.firstChild === null) {
        this.element.replaceChildren(...(placeholder === null ? [] : [placeholder]));
      }
      return;
    }
    if (found.kind === 'sweep') {
      this._sizes.setSaved(found);
      this._put(this._sizes.element);
    } else {
      const choice = found.kind === 'history' ? this._which.element : null;
      if (this._which.value === 'Runs') {
        this._compare.show(found, choice);
        this._put(this._compare.element);
      } else {
        this._sizes.setDims(found.dims, choice);
        this._put(this._sizes.element);
      }
    }
    this._front();
    this._sizes.redraw();
  }

  private _put(content: HTMLElement): void {
    if (this.element.firstChild !== content) {
      this.element.replaceChildren(content);
    }
  }
}

export const runsPanel: IPanelType = {
  id: 'runs',
  title: 'Runs',
  hint: 'What changed between runs, and how costs grow with sizes',
  css: RUNS_STYLES,
  isAvailable: view => {
    const saved = savedAnswer(view.model.document, 'runs');
    if (saved !== undefined || (view.notLive === null && view.timing.profile !== null)) {
      return null;
    }
    return view.notLive === null
      ? 'There are no times yet: press Profile.'
      : 'One run is in this graph. maxlab.diff(before, after) compares runs, maxlab.sweep sizes.';
  },
  make: host => new RunsPanel(host)
};
