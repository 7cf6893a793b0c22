/** Runs side by side: what changed, kernel by kernel, painted on the graph. */

import { formatTime, plural } from '../../model/format';
import { asRegion, el, type Child } from '../../view/dom';
import { facts, section } from '../../view/kernel';
import type { IPanelView } from '../../view/panel';
import { DataTable } from '../parts/table';
import type { IRunPair, IRunRow } from '../../../proto/told';
import type { IComparison, ISide } from './data';
import {
  changeOf,
  forestOf,
  formatDelta,
  formatInterval,
  OVERLAY_LEGEND,
  overlayOf,
  STATE_SIGNS,
  STATE_WORDS,
  summary,
  verdict,
  widestChange
} from './words';

export class CompareView {
  readonly element = el('div', 'jp-MaxLab-columns');
  private readonly _table: DataTable<IRunRow>;
  private readonly _tools = el('div', 'jp-MaxLab-tools');
  private readonly _scroll: HTMLElement;
  private readonly _side = el('div', 'jp-MaxLab-sideColumn');
  private readonly _paint: HTMLInputElement;
  private _comparison: IComparison | null = null;
  private _pair = 0;
  private _widest = 1;
  private _isShown = false;
  private _hasPainted = false;

  /** @param _ask asks the kernel for other runs, by their numbers. */
  constructor(
    private readonly _view: IPanelView,
    private readonly _ask: (before: number, after: number) => void
  ) {
    this._table = new DataTable<IRunRow>(
      'Kernels of both runs',
      [
        { title: 'kernel', cell: row => row.kernels, key: row => row.kernels },
        { title: 'name', cell: row => row.name, key: row => row.name },
        {
          title: 'verdict',
          cell: row => el('span', `jp-MaxLab-verdict jp-mod-${row.state}`, verdict(row)),
          key: row => row.state
        },
        {
          title: 'before',
          cell: row => (row.state === 'new' ? '' : formatTime(row.before)),
          key: row => row.before,
          field: row => (row.state === 'new' ? null : row.before),
          unit: 'ns',
          isNumber: true
        },
        {
          title: 'after',
          cell: row => (row.state === 'gone' ? '' : formatTime(row.after)),
          key: row => row.after,
          field: row => (row.state === 'gone' ? null : row.after),
          unit: 'ns',
          isNumber: true
        },
        {
          title: 'change',
          unit: 'after ÷ before',
          cell: row => changeOf(row),
          key: row => (changeOf(row) === '' ? null : row.ratio),
          isNumber: true
        },
        { title: 'interval', cell: row => this._interval(row) },
        {
          title: 'difference',
          cell: row => formatDelta(row.after - row.before),
          key: row => row.after - row.before,
          unit: 'ns',
          isNumber: true
        }
      ],
      row => this._choose(row)
    );
    this._scroll = el('div', 'jp-MaxLab-scroll', this._table.element);
    this._paint = el('input');
    this._paint.type = 'checkbox';
    this._paint.checked = true;
    this._paint.addEventListener('change', () => this._overlay());
    asRegion(this._side, 'What was compared');
    this.element.append(
      el('div', 'jp-MaxLab-mainColumn', this._tools, this._scroll),
      this._side
    );
  }

  show(comparison: IComparison, more: Child): void {
    this._comparison = comparison;
    this._pair = comparison.pairs.length - 1;
    this._tools.replaceChildren();
    if (more instanceof Node) {
      this._tools.append(more);
    }
    this._tools.append(...this._choices(comparison));
    this._showPair();
  }

  selected(ids: readonly string[]): void {
    const wanted = new Set(ids);
    this._table.mark(row => row.nodes.some(node => wanted.has(node)));
    this._table.showMarked();
  }

  /** The panel came to the front, or went behind: the graph is painted while it is in front. */
  shown(isShown: boolean): void {
    this._isShown = isShown;
    this._overlay();
  }

  private get _current(): IRunPair | null {
    return this._comparison?.pairs[this._pair] ?? null;
  }

  private _choices(comparison: IComparison): Node[] {
    if (comparison.kind === 'history') {
      return this._history(comparison);
    }
    const { pairs, sides } = comparison;
    const chosen = el('select');
    pairs.forEach((pair, i) => {
      const option = el('option', '', `${sides[pair.before]?.label} → ${sides[pair.side]?.label}`);
      option.value = String(i);
      chosen.append(option);
    });
    chosen.value = String(this._pair);
    chosen.addEventListener('change', () => {
      this._pair = Number(chosen.value);
      this._showPair();
    });
    const label = el('label', '', 'Compare', chosen);
    label.hidden = pairs.length < 2;
    return [label, this._painting()];
  }

  private _history({ sides, pairs }: IComparison): Node[] {
    const pair = pairs[0];
    const isLive = this._view.notLive === null;
    const pick = (name: string, at: number): [HTMLSelectElement, HTMLElement] => {
      const select = el('select');
      sides.forEach((side, i) => {
        const option = el('option', '', `${side.label} · ${formatTime(side.wall)}${sizesOf(side)}`);
        option.value = String(i);
        select.append(option);
      });
      select.value = String(at);
      select.disabled = !isLive;
      return [select, el('label', '', name, select)];
    };
    const [before, first] = pick('Before', pair?.before ?? 0);
    const [after, second] = pick('after', pair?.side ?? sides.length - 1);
    for (const select of [before, after]) {
      select.addEventListener('change', () => {
        const numbers = [before, after].map(one => sides[Number(one.value)]?.number ?? null);
        const [from, to] = numbers;
        if (typeof from === 'number' && typeof to === 'number') {
          this._ask(from, to);
        }
      });
    }
    return sides.length < 2 ? [] : [first, second, this._painting()];
  }

  private _painting(): HTMLElement {
    return el('label', '', this._paint, 'Paint the graph');
  }

  private _showPair(): void {
    const { _current: pair, _comparison: comparison } = this;
    if (pair === null || comparison === null) {
      this._table.setRows([]);
      this._scroll.replaceChildren(el('p', 'jp-MaxLab-panelNote jp-MaxLab-note', ONE_RUN));
      this._side.hidden = true;
      this._overlay();
      return;
    }
    this._side.hidden = false;
    this._scroll.replaceChildren(this._headline(pair, comparison), this._table.element);
    this._widest = widestChange(pair.rows);
    this._table.setRows(pair.rows);
    this._side.replaceChildren(...this._about(pair, comparison));
    this.selected(this._view.selection);
    this._overlay();
    this._view.say(summary(pair, labelsOf(pair, comparison)));
  }

  private _headline(pair: IRunPair, { confidence }: IComparison): HTMLElement {
    const line = (name: string, found: IRunPair['wall']): HTMLElement =>
      el(
        'p',
        'jp-MaxLab-runsLine',
        el('span', 'jp-MaxLab-sub', name),
        el('strong', '', `${formatTime(found.before)} → ${formatTime(found.after)}`),
        el('span', '', changeOf(found)),
        el('span', 'jp-MaxLab-sub', formatInterval(found)),
        el(
          'span',
          `jp-MaxLab-verdict jp-mod-${found.state}`,
          `${STATE_SIGNS[found.state]} ${STATE_WORDS[found.state]}`
        )
      );
    const share = `${(100 * confidence).toFixed(0)}% intervals`;
    const head = el('div', 'jp-MaxLab-runsHead', line('one run', pair.wall), line('its kernels', pair.total));
    head.title = share;
    return head;
  }

  private _about(pair: IRunPair, comparison: IComparison): Node[] {
    const found: Node[] = [];
    if (pair.notes.length > 0) {
      const notes = el('ul', 'jp-MaxLab-runsNotes', ...pair.notes.map(note => el('li', '', note)));
      found.push(section('To know first', notes));
    }
    const [one, other] = [comparison.sides[pair.before], comparison.sides[pair.side]];
    for (const [title, side, against] of [
      ['Before', one, other],
      ['After', other, one]
    ] as const) {
      if (side !== undefined) {
        found.push(section(`${title}: ${side.label}`, facts(told(side, against, title === 'After'))));
      }
    }
    if (pair.more > 0) {
      found.push(el('p', 'jp-MaxLab-note', `${plural(pair.more, 'kernel')} that changed least left out`));
    }
    return found;
  }

  private _interval(row: IRunRow): Child {
    const forest = forestOf(row, this._widest);
    if (forest === null) {
      return '';
    }
    const bar = el('span', `jp-MaxLab-forest jp-mod-${row.state}`);
    bar.setAttribute('aria-hidden', 'true');
    const place = (className: string, from: number, to: number): void => {
      const part = el('i', className);
      part.style.left = `${(100 * from).toFixed(2)}%`;
      part.style.width = `${(100 * (to - from)).toFixed(2)}%`;
      bar.append(part);
    };
    place('jp-mod-zero', forest.zero, forest.zero);
    place('jp-mod-range', forest.low, forest.high);
    place('jp-mod-at', forest.at, forest.at);
    return el('span', 'jp-MaxLab-interval', bar, el('span', '', formatInterval(row)));
  }

  private _choose(row: IRunRow): void {
    const known = row.nodes.filter(node => this._view.model.node(node) !== undefined);
    if (known.length === 0) {
      const why = row.state === 'gone' ? 'is not in this graph any more' : 'computes no operation of the graph';
      this._view.say(`${row.kernels} ${why}`);
      return;
    }
    this._view.select(known);
    this._view.say(`${row.kernels} ${row.name} selected, ${verdict(row)}`);
  }

  private _overlay(): void {
    const pair = this._current;
    const isPainted = this._isShown && this._paint.checked && pair !== null;
    if (isPainted) {
      this._view.setOverlay(overlayOf(pair), OVERLAY_LEGEND);
    } else if (this._hasPainted) {
      this._view.setOverlay(null);
    }
    this._hasPainted = isPainted;
  }
}

const ONE_RUN = 'One run is remembered. Profile again, and the two are compared here.';

function labelsOf(pair: IRunPair, { sides }: IComparison): [string, string] {
  return [sides[pair.before]?.label ?? '?', sides[pair.side]?.label ?? '?'];
}

function sizesOf(side: ISide): string {
  const sizes = side.facts.find(([name]) => name === 'sizes')?.[1];
  const options = side.facts.find(([name]) => name === 'options')?.[1] ?? 'defaults';
  return `${sizes === undefined ? '' : ` · ${sizes}`}${options === 'defaults' ? '' : ` · ${options}`}`;
}

/** What to say of a side: everything of the first, and of the other what differs. */
function told(side: ISide, against: ISide | undefined, isSecond: boolean): [string, string][] {
  if (!isSecond || against === undefined) {
    return side.facts;
  }
  const known = new Map(against.facts);
  const other = side.facts.filter(([name, value]) => known.get(name) !== value);
  return other.length > 0 ? other : [['all of this', 'as before']];
}
