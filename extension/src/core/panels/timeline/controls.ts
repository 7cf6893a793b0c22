/** What stands around the drawing of the timeline: search, what is shown, zoom, legend, messages. */

import { plural } from '../../model/format';
import { button, el, icon } from '../../view/dom';
import { KeysCard, type KeyRow } from '../help';
import { patternCss, type ColorBy, type ISliceStyle } from './styles';

/** What of the recording is wanted. */
export interface IQuery {
  runs: 'one' | 'all';
  /** Compiling, Python and whatever else the process did. */
  events: boolean;
}

export interface IControlsHost {
  search(text: string): void;
  step(direction: 1 | -1): void;
  /** The search was left with Escape. */
  leave(): void;
  colorBy(by: ColorBy): void;
  query(query: IQuery): void;
  zoom(direction: 1 | -1): void;
  fit(): void;
  table(isTable: boolean): void;
}

const HINT_MS = 2500;

const KEYS: readonly KeyRow[] = [
  ['← →', 'slice before, after'],
  ['↑ ↓', 'row above, below'],
  ['Home End', 'first, last slice of the row'],
  ['Enter', 'select the operations of the slice'],
  ['+ − W S', 'zoom; also the wheel'],
  ['A D', 'move; also Shift+← and Shift+→, and dragging'],
  ['F Z', 'show all, show the slice; double-click does the same'],
  ['M', 'measure the slice, and from there to the next; also Shift+drag'],
  ['Ctrl+drag', 'zoom to a span; also dragging on the axis'],
  ['/ N', 'find, go to the next one found'],
  ['Esc', 'leave the slice, then the selection']
];

export class TimelineControls {
  readonly element = el('div', 'jp-MaxLab-timeline');
  private readonly _search = el('input', 'jp-MaxLab-searchInput');
  private readonly _count = el('span', 'jp-MaxLab-searchCount');
  private readonly _runs = el('select', 'jp-MaxLab-select');
  private readonly _events = el('input');
  private readonly _status = el('span', 'jp-MaxLab-panelStatus');
  private readonly _problem = el('p', 'jp-MaxLab-panelProblem');
  private readonly _table = el('div', 'jp-MaxLab-tableRoom');
  private readonly _tableButton: HTMLButtonElement;
  private readonly _legend = el('ul', 'jp-MaxLab-panelLegend');
  private readonly _keys: KeysCard;
  private _facts = '';
  private _timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly _stage: HTMLElement,
    host: IControlsHost
  ) {
    const search = this._search;
    search.type = 'search';
    search.placeholder = 'Find slices  ( / )';
    search.setAttribute('aria-label', 'Find slices by name, kernel, operation or line');
    search.spellcheck = false;
    search.addEventListener('input', () => host.search(search.value));
    search.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        host.step(event.shiftKey ? -1 : 1);
      } else if (event.key === 'Escape') {
        search.value = '';
        host.search('');
        host.leave();
      } else {
        return;
      }
      event.preventDefault();
      event.stopPropagation();
    });
    const color = select('Colours', [
      ['family', 'by kind of work'],
      ['time', 'by time']
    ]);
    color.addEventListener('change', () => host.colorBy(color.value as ColorBy));
    fill(this._runs, 'Runs', [
      ['one', 'one run'],
      ['all', 'all runs']
    ]);
    this._events.type = 'checkbox';
    const ask = (): void =>
      host.query({ runs: this._runs.value as IQuery['runs'], events: this._events.checked });
    this._runs.addEventListener('change', ask);
    this._events.addEventListener('change', ask);
    const events = el('label', 'jp-MaxLab-check', this._events, 'compiler and Python');
    const zoom = (title: string, name: 'plus' | 'minus' | 'fit', go: () => void): HTMLElement => {
      const made = button('jp-MaxLab-iconButton', title, go);
      made.append(icon(name));
      return made;
    };
    this._tableButton = button(
      'jp-MaxLab-iconButton',
      'Show as a table',
      () => {
        const isTable = !this.isTable;
        this._tableButton.setAttribute('aria-pressed', String(isTable));
        host.table(isTable);
      },
      'Table'
    );
    this._tableButton.setAttribute('aria-pressed', 'false');
    this._keys = new KeysCard(this._stage, KEYS);
    this._status.setAttribute('role', 'status');
    this._problem.setAttribute('role', 'status');
    this._problem.hidden = true;
    this._table.hidden = true;
    this._table.tabIndex = 0;
    this._table.setAttribute('role', 'region');
    this._table.setAttribute('aria-label', 'Timeline as a table');
    this._legend.setAttribute('aria-label', 'Colours');
    this.element.append(
      el(
        'div',
        'jp-MaxLab-panelBar',
        el('div', 'jp-MaxLab-search', icon('search'), search, this._count),
        color,
        this._runs,
        events,
        this._status,
        el(
          'div',
          'jp-MaxLab-group',
          zoom('Zoom in (+)', 'plus', () => host.zoom(1)),
          zoom('Zoom out (−)', 'minus', () => host.zoom(-1)),
          zoom('Show all (F)', 'fit', () => host.fit()),
          this._tableButton,
          this._keys.button
        )
      ),
      this._problem,
      this._stage,
      this._table,
      this._legend
    );
  }

  get query(): string {
    return this._search.value;
  }

  get isTable(): boolean {
    return this._tableButton.getAttribute('aria-pressed') === 'true';
  }

  toggleKeys(): void {
    this._keys.toggle();
  }

  focusSearch(): void {
    this._search.focus();
    this._search.select();
  }

  /** Other runs and events can only be asked of a kernel. */
  setLive(notLive: string | null): void {
    for (const control of [this._runs, this._events]) {
      control.disabled = notLive !== null;
      control.title = notLive === null ? '' : `This needs a running kernel: ${notLive}.`;
    }
  }

  setQuery({ runs, events }: IQuery): void {
    this._runs.value = runs;
    this._events.checked = events;
  }

  busy(isBusy: boolean): void {
    const wasBusy = this.element.getAttribute('aria-busy') === 'true';
    this.element.setAttribute('aria-busy', String(isBusy));
    if (isBusy || wasBusy) {
      this._status.textContent = isBusy ? 'Reading the timeline…' : this._facts;
    }
  }

  /** Facts about what is shown, in the bar. */
  status(facts: readonly string[]): void {
    this._facts = facts.join(' · ');
    this._status.textContent = this._facts;
  }

  /** Shows a sentence in the bar for a while. */
  hint(text: string): void {
    clearTimeout(this._timer);
    this._status.textContent = text;
    this._timer = setTimeout(() => {
      this._status.textContent = this._facts;
    }, HINT_MS);
  }

  /** Says why there is nothing to draw; null when there is. */
  problem(text: string | null): void {
    this._problem.hidden = text === null;
    this._problem.textContent = text ?? '';
    this._stage.hidden = text !== null;
    if (text !== null) {
      this.status([]);
      this._legend.replaceChildren();
      this._table.hidden = true;
    }
  }

  /** Slices that the search finds; null without a search. */
  count(found: number | null): void {
    this._count.textContent = found === null ? '' : found === 0 ? 'none' : plural(found, 'slice');
  }

  /** The table in place of the drawing; null for the drawing. */
  table(table: HTMLElement | null): void {
    this._table.replaceChildren(...(table === null ? [] : [table]));
    this._table.hidden = table === null;
    this._stage.hidden = table !== null || !this._problem.hidden;
    this._legend.hidden = table !== null;
  }

  legend(styles: readonly ISliceStyle[]): void {
    this._legend.replaceChildren(
      ...styles.map(style => {
        const swatch = el('span', 'jp-MaxLab-swatch');
        swatch.style.background = patternCss(style);
        return el('li', '', swatch, style.name);
      })
    );
  }

  dispose(): void {
    clearTimeout(this._timer);
    this.element.remove();
  }
}

function fill(
  node: HTMLSelectElement,
  label: string,
  options: readonly (readonly [string, string])[]
): void {
  node.setAttribute('aria-label', label);
  for (const [value, text] of options) {
    const option = el('option', '', text);
    option.value = value;
    node.append(option);
  }
}

function select(
  label: string,
  options: readonly (readonly [string, string])[]
): HTMLSelectElement {
  const node = el('select', 'jp-MaxLab-select');
  fill(node, label, options);
  return node;
}
