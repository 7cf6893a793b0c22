/** What stands around the drawing of the timeline: search, what is shown, zoom, legend, messages. */

import { plural } from '../../model/format';
import { el, icon } from '../../view/dom';
import type { KeyRow } from '../help';
import { ChartFrame, legendEntry, type IFramedTable } from '../parts/frame';
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
  readonly element: HTMLElement;
  private readonly _frame: ChartFrame;
  private readonly _search = el('input', 'jp-MaxLab-searchInput');
  private readonly _count = el('span', 'jp-MaxLab-searchCount');
  private readonly _runs = el('select', 'jp-MaxLab-select');
  private readonly _events = el('input');

  constructor(stage: HTMLElement, host: IControlsHost) {
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
    color.addEventListener('change', () => host.colorBy(color.value === 'time' ? 'time' : 'family'));
    fill(this._runs, 'Runs', [
      ['one', 'one run'],
      ['all', 'all runs']
    ]);
    this._events.type = 'checkbox';
    const ask = (): void =>
      host.query({ runs: this._runs.value === 'all' ? 'all' : 'one', events: this._events.checked });
    this._runs.addEventListener('change', ask);
    this._events.addEventListener('change', ask);
    const events = el('label', 'jp-MaxLab-check', this._events, 'compiler and Python');
    this._frame = new ChartFrame({
      className: 'jp-MaxLab-timeline',
      name: 'Timeline',
      legendLabel: 'Colours',
      stage,
      keys: KEYS,
      before: [
        el('div', 'jp-MaxLab-search', icon('search'), search, this._count),
        color,
        this._runs,
        events
      ],
      zoom: direction => host.zoom(direction),
      fit: () => host.fit(),
      table: isTable => host.table(isTable)
    });
    this.element = this._frame.element;
  }

  get query(): string {
    return this._search.value;
  }

  get isTable(): boolean {
    return this._frame.isTable;
  }

  toggleKeys(): void {
    this._frame.toggleKeys();
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
    this._frame.busy(isBusy);
  }

  /** Facts about what is shown, in the bar. */
  status(facts: readonly string[]): void {
    this._frame.status(facts);
  }

  /** Shows a sentence in the bar for a while. */
  hint(text: string): void {
    this._frame.hint(text);
  }

  hintWheel(): void {
    this._frame.hintWheel();
  }

  /** Says why there is nothing to draw; null when there is. */
  problem(text: string | null): void {
    this._frame.problem(text);
  }

  /** Slices that the search finds; null without a search. */
  count(found: number | null): void {
    this._count.textContent = found === null ? '' : found === 0 ? 'none' : plural(found, 'slice');
  }

  /** The table in place of the drawing; null for the drawing. */
  table(table: IFramedTable | null): void {
    this._frame.table(table);
  }

  legend(styles: readonly ISliceStyle[]): void {
    this._frame.legend(styles.map(style => legendEntry(patternCss(style), style.name)));
  }

  dispose(): void {
    this._frame.dispose();
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
