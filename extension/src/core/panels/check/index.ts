/**
 * Is it right? Every kernel beside the references, painted on the graph; the operation that makes NaN;
 * and what flows along the edge of the selected operation.
 */

import type {
  ICheckedNode,
  IComparisonAnswer,
  INanAnswer,
  IReproAnswer
} from '../../../proto/checks';
import type { IToneNote } from '../../render/tones';
import { asRegion, button, el } from '../../view/dom';
import type { IPanel, IPanelHost, IPanelView } from '../../view/panel';
import { Asked } from '../parts/asked';
import { compiledPanel } from '../parts/compiled';
import { DataTable } from '../parts/table';
import { WhenShown } from '../parts/when';
import { comparisonOf, noteOf, ofTolerance, short } from './answers';
import { CHECK_STYLES } from './css';
import { ValueSection } from './value';

class CheckPanel implements IPanel {
  readonly element = el('div', 'jp-MaxLab-checkPanel');
  private readonly _view: IPanelView;
  private readonly _comparison: Asked<'compare', IComparisonAnswer | null>;
  private readonly _search: Asked<'nan', INanAnswer>;
  private readonly _repro: Asked<'repro', IReproAnswer>;
  private readonly _value: ValueSection;
  private readonly _table: DataTable<ICheckedNode>;
  private readonly _result = el('div', 'jp-MaxLab-checkResult');
  private readonly _compare: HTMLButtonElement;
  private readonly _nan: HTMLButtonElement;
  private readonly _script: HTMLButtonElement;
  private readonly _all = el('input');
  private readonly _when: WhenShown;
  private _newest: 'comparison' | 'search' | null = null;
  private _isPainted = false;

  constructor(host: IPanelHost) {
    this._view = host.view;
    this._comparison = new Asked(host.view, 'compare', comparisonOf, () => this._compared());
    this._search = new Asked(host.view, 'nan', search => search, () => this._searched());
    this._repro = new Asked(host.view, 'repro', repro => repro, () => this._show());
    this._value = new ValueSection(host.view);
    this._when = new WhenShown(() => this._loaded());
    this._compare = button(
      'jp-MaxLab-plainButton jp-mod-primary',
      'Compare every kernel with the references',
      () => this._ask('comparison'),
      'Compare'
    );
    this._nan = button(
      'jp-MaxLab-plainButton',
      'Find the operation that makes NaN or an infinity',
      () => this._ask('search'),
      'Find NaN'
    );
    this._script = button(
      'jp-MaxLab-plainButton',
      'Write a script that runs the wrong kernel alone',
      () => void this._repro.ask(),
      'Write repro'
    );
    this._all.type = 'checkbox';
    this._table = new DataTable<ICheckedNode>(
      'Operations beside their references',
      [
        { title: 'operation', cell: n => `${n.op} ${n.id}`, key: n => n.id },
        { title: 'kernel', cell: n => n.kernel, key: n => n.kernel },
        { title: 'verdict', cell: n => verdict(n), key: n => (n.ok ? 1 : 0) },
        {
          title: 'error',
          cell: n => ofTolerance(n.excess) || '–',
          key: n => n.excess ?? null,
          unit: 'of the tolerance',
          isNumber: true
        },
        { title: 'absolute', cell: n => short(n.max_abs), key: n => n.max_abs, isNumber: true },
        { title: 'relative', cell: n => short(n.max_rel), key: n => n.max_rel, isNumber: true },
        { title: 'NaN', cell: n => short(n.nan), key: n => n.nan, isNumber: true },
        { title: 'inf', cell: n => short(n.inf), key: n => n.inf, isNumber: true }
      ],
      node => this._view.select([node.id])
    );
    const scroll = el('div', 'jp-MaxLab-scroll', this._table.element);
    const side = el('div', 'jp-MaxLab-sideColumn', this._value.element);
    asRegion(side, 'Value of the selected operation');
    this._result.setAttribute('role', 'status');
    this._table.element.hidden = true;
    this.element.append(
      el(
        'div',
        'jp-MaxLab-columns jp-MaxLab-checkMain',
        el(
          'div',
          'jp-MaxLab-mainColumn',
          el(
            'div',
            'jp-MaxLab-panelBar',
            this._compare,
            this._nan,
            this._script,
            el('label', 'jp-MaxLab-check', this._all, 'go on behind the first wrong one')
          ),
          this._result,
          scroll
        ),
        side
      )
    );
    this._show();
  }

  update(): void {
    this._when.update();
    this._value.update();
  }

  shown(isShown: boolean): void {
    this._when.shown(isShown);
    this._value.on(isShown);
    if (isShown) {
      this._value.selected(this._view.selection);
      this._paint();
    } else {
      this._clear();
    }
  }

  selected(ids: readonly string[]): void {
    const selected = new Set(ids);
    this._table.mark(node => selected.has(node.id));
    this._table.showMarked();
    this._value.selected(ids);
  }

  resized(): void {
    this._value.resized();
  }

  dispose(): void {
    this._comparison.clear();
    this._search.clear();
    this._repro.clear();
    this._value.dispose();
    this._clear();
    this.element.remove();
  }

  /** There is another document: what was compared is another run. A saved one is shown. */
  private _loaded(): void {
    this._comparison.clear();
    this._search.clear();
    this._repro.clear();
    this._newest = null;
    this._clear();
    this._newest = 'comparison';
    // A saved one where there is no kernel; where there is one, what was compared in a cell.
    const args = this._view.notLive === null ? { newest: true } : {};
    void this._comparison.ask(args).then(() => {
      const { value, isAsking, problem } = this._comparison;
      if (value === null && !isAsking && problem === null) {
        this._newest = null;
        this._show();
      }
    });
    this._show();
  }

  private _ask(what: 'comparison' | 'search'): void {
    this._newest = what;
    this._repro.clear();
    if (what === 'comparison') {
      void this._comparison.ask(this._all.checked ? { all: true } : {});
    } else {
      void this._search.ask({ infinities: true });
    }
  }

  private _compared(): void {
    const found = this._comparison.value;
    if (found !== null) {
      this._view.say(found.message);
      this._table.setRows(found.nodes);
    }
    this._show();
    this._paint();
    this._choose(found?.first ?? null);
  }

  /** Selects an operation, after the graph was painted: painting would stop the flight to it. */
  private _choose(node: string | null): void {
    if (node !== null && this._view.model.node(node) !== undefined) {
      this._view.select([node]);
    }
  }

  private _searched(): void {
    const found = this._search.value;
    if (found !== null) {
      this._view.say(found.message);
    }
    this._show();
    this._paint();
    this._choose(found?.trip?.node ?? null);
  }

  private _show(): void {
    const isBusy = this._comparison.isAsking || this._search.isAsking || this._repro.isAsking;
    const { notLive } = this._view;
    const comparison = this._comparison.value;
    for (const each of [this._compare, this._nan]) {
      each.disabled = isBusy || notLive !== null;
    }
    this._all.disabled = isBusy || notLive !== null;
    this._script.disabled = isBusy || notLive !== null || comparison?.can_repro !== true;
    this._table.element.hidden = comparison === null || comparison.nodes.length === 0;
    const lines: (HTMLElement | null)[] = [];
    if (this._newest === null) {
      lines.push(
        el(
          'p',
          'jp-MaxLab-note',
          'Compare runs the model step by step, and beside each kernel what NumPy computes from the same ' +
            'memory. Select an operation to see its values.'
        )
      );
    } else if (this._newest === 'comparison') {
      lines.push(
        this._comparison.placeholder('Running every kernel beside its references…') ??
          message(comparison?.message ?? '', comparison?.ok === false)
      );
    } else {
      const search = this._search.value;
      lines.push(
        this._search.placeholder('Looking for NaN behind every kernel…') ??
          message(search?.message ?? '', search?.trip !== null)
      );
    }
    const written = this._repro.value;
    if (written !== null) {
      lines.push(el('p', '', `Written: ${written.path}, with ${written.files.length - 1} files beside it.`));
    } else if (this._repro.isAsking || this._repro.problem !== null) {
      lines.push(this._repro.placeholder('Writing the script…'));
    }
    this._result.replaceChildren(...lines.filter((line): line is HTMLElement => line !== null));
  }

  private _paint(): void {
    if (!this._when.isShown) {
      return;
    }
    const overlay = new Map<string, IToneNote>();
    let legend = '';
    if (this._newest === 'comparison' && this._comparison.value !== null) {
      for (const node of this._comparison.value.nodes) {
        overlay.set(node.id, noteOf(node));
      }
      legend = '✗ wrong · ! behind what is wrong, or not finite · ✓ right';
    } else if (this._newest === 'search') {
      const trip = this._search.value?.trip ?? null;
      if (trip !== null && !trip.is_given) {
        overlay.set(trip.node, { tone: 'bad', text: trip.kind });
        legend = `✗ makes ${trip.kind}`;
      }
    }
    if (overlay.size === 0) {
      this._clear();
      return;
    }
    this._isPainted = true;
    this._view.setOverlay(overlay, legend);
  }

  private _clear(): void {
    if (this._isPainted) {
      this._isPainted = false;
      this._view.setOverlay(null);
    }
  }
}

function message(words: string, isBad: boolean): HTMLElement {
  return el('p', isBad ? 'jp-mod-bad' : '', words);
}

function verdict(node: ICheckedNode): string {
  if (!node.ok) {
    return `✗ ${node.message || 'wrong'}`;
  }
  if (node.message !== '') {
    return `! ${node.message}`;
  }
  return node.by === 'value' ? '✓ right' : '✓ its kernel is right';
}

export const checkPanel = compiledPanel({
  id: 'check',
  title: 'Check',
  hint: 'Whether every kernel computes what the graph says, who makes NaN, and what flows where',
  css: CHECK_STYLES,
  uncompiled: 'Only what is compiled can be checked: press Profile, or load the graph in a session.',
  make: host => new CheckPanel(host)
});
