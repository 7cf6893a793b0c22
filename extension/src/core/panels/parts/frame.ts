/** What stands around the drawing of a chart: a bar, facts, zoom, messages, a table, a legend. */

import { csvButton } from '../../view/copying';
import { asRegion, button, el, icon, type Child } from '../../view/dom';
import { KeysCard, type KeyRow } from '../help';

export interface IFrameOptions {
  className: string;
  /** What is charted, at the start of a sentence. */
  name: string;
  legendLabel: string;
  stage: HTMLElement;
  keys: readonly KeyRow[];
  /** Controls of the bar, before and behind its facts. */
  before?: readonly Child[];
  behind?: readonly Child[];
  zoom(direction: 1 | -1): void;
  fit(): void;
  /** The table was asked for, or the drawing. */
  table(isTable: boolean): void;
}

/** A table in place of a drawing, and all of it as it is copied: its rows are all there are. */
export interface IFramedTable {
  element: HTMLTableElement;
  csv: () => string;
}

/** How long a sentence stands in the place of the facts. */
const HINT_MS = 2500;

export class ChartFrame {
  readonly element: HTMLElement;
  private readonly _status = el('span', 'jp-MaxLab-panelStatus');
  private readonly _problem = el('p', 'jp-MaxLab-panelProblem');
  private readonly _table = el('div', 'jp-MaxLab-tableRoom');
  private readonly _legend = el('ul', 'jp-MaxLab-panelLegend');
  private readonly _tableButton: HTMLButtonElement;
  private readonly _keys: KeysCard;
  /** In the last head of the table, as in other tables. The room has the focus when it is scrolled by keys. */
  private readonly _copy = csvButton(() => this._csv(), this._table);
  private _csv: () => string = () => '';
  private _facts = '';
  private _timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly _options: IFrameOptions) {
    const { className, name, legendLabel, stage, keys, before = [], behind = [] } = _options;
    this._keys = new KeysCard(stage, keys);
    this._tableButton = button('jp-MaxLab-iconButton', 'Show as a table', () => this._toggle(), 'Table');
    this._tableButton.setAttribute('aria-pressed', 'false');
    this._status.setAttribute('role', 'status');
    this._problem.setAttribute('role', 'status');
    this._problem.hidden = true;
    this._table.hidden = true;
    asRegion(this._table, `${name} as a table`);
    this._legend.setAttribute('aria-label', legendLabel);
    const group = el(
      'div',
      'jp-MaxLab-group',
      iconButton('Zoom in (+)', 'plus', () => _options.zoom(1)),
      iconButton('Zoom out (−)', 'minus', () => _options.zoom(-1)),
      iconButton('Show all (F)', 'fit', () => _options.fit()),
      this._tableButton,
      this._keys.button
    );
    this.element = el(
      'div',
      className,
      el('div', 'jp-MaxLab-panelBar', ...before, this._status, ...behind, group),
      this._problem,
      stage,
      this._table,
      this._legend
    );
  }

  get isTable(): boolean {
    return this._tableButton.getAttribute('aria-pressed') === 'true';
  }

  get hasProblem(): boolean {
    return !this._problem.hidden;
  }

  toggleKeys(): void {
    this._keys.toggle();
  }

  /** The chart is being asked for; when that is over the facts come back. */
  busy(isBusy: boolean): void {
    const wasBusy = this.element.getAttribute('aria-busy') === 'true';
    this.element.setAttribute('aria-busy', String(isBusy));
    if (isBusy || wasBusy) {
      const reading = `Reading the ${this._options.name.toLowerCase()}…`;
      this._status.textContent = isBusy ? reading : this._facts;
    }
  }

  /** Facts about what is shown, in the bar. */
  status(facts: readonly string[]): void {
    this._facts = facts.join(' · ');
    this._status.textContent = this._facts;
    this._status.title = this._facts;
  }

  /** Shows a sentence in the bar for a while. */
  hint(text: string): void {
    clearTimeout(this._timer);
    this._status.textContent = text;
    this._timer = setTimeout(() => {
      this._status.textContent = this._facts;
    }, HINT_MS);
  }

  /** Says why a plain turn of the wheel does nothing. */
  hintWheel(): void {
    this.hint(`Click the ${this._options.name.toLowerCase()}, or hold Ctrl, to zoom with the wheel`);
  }

  /** Says why there is nothing to draw; null when there is. */
  problem(text: string | null): void {
    this._problem.hidden = text === null;
    this._problem.textContent = text ?? '';
    this._options.stage.hidden = text !== null;
    if (text !== null) {
      this.status([]);
      this._legend.replaceChildren();
      this._table.hidden = true;
    }
  }

  /** The table in place of the drawing; null for the drawing. */
  table(table: IFramedTable | null): void {
    if (table !== null) {
      this._csv = table.csv;
      table.element.querySelector('thead th:last-child')?.append(this._copy);
    }
    this._table.replaceChildren(...(table === null ? [] : [table.element]));
    this._table.hidden = table === null;
    this._options.stage.hidden = table !== null || this.hasProblem;
    this._legend.hidden = table !== null;
  }

  legend(entries: readonly HTMLElement[]): void {
    this._legend.replaceChildren(...entries);
  }

  dispose(): void {
    clearTimeout(this._timer);
    this.element.remove();
  }

  private _toggle(): void {
    const isTable = !this.isTable;
    this._tableButton.setAttribute('aria-pressed', String(isTable));
    this._options.table(isTable);
  }
}

function iconButton(title: string, name: 'plus' | 'minus' | 'fit', go: () => void): HTMLElement {
  const made = button('jp-MaxLab-iconButton', title, go);
  made.append(icon(name));
  return made;
}

/** An entry of a legend: a swatch of a background, and what it stands for. */
export function legendEntry(background: string, text: string): HTMLElement {
  const swatch = el('span', 'jp-MaxLab-swatch');
  swatch.style.background = background;
  return el('li', '', swatch, text);
}
