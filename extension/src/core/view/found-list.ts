/** The list of what a query found: sortable columns, of which only the rows in sight are elements. */

import { formatTime } from '../model/format';
import type { IMatch } from '../query/search';
import { csvOf, headOf } from '../csv';
import { csvButton } from './copying';
import { button, el } from './dom';

export const ROW_PX = 26;
const LEAST_ROWS = 1;
const MOST_ROWS = 7;

type Column = 'what' | 'scope' | 'shape' | 'ns';

const COLUMNS: readonly (readonly [Column, string])[] = [
  ['what', 'Operation'],
  ['scope', 'Scope'],
  ['shape', 'Shape'],
  ['ns', 'Time']
];

export interface IFoundHost {
  /** The rows stand in another order. */
  ordered(matches: IMatch[]): void;
  /** A row was pressed. */
  chosen(index: number): void;
}

let lists = 0;

export class FoundList {
  readonly element = el('div', 'jp-MaxLab-found');
  readonly id = `jp-MaxLab-found-${(lists += 1)}`;
  private readonly _note = el('div', 'jp-MaxLab-foundNote');
  private readonly _grid = el('div', 'jp-MaxLab-foundGrid');
  private readonly _head = el('div', 'jp-MaxLab-foundRow jp-MaxLab-foundHead');
  private readonly _scroll = el('div', 'jp-MaxLab-foundScroll');
  private readonly _rows = el('div', 'jp-MaxLab-foundRows');
  private readonly _copy: HTMLElement;
  private _given: IMatch[] = [];
  private _shown: IMatch[] = [];
  private _current = -1;
  private _sort: { column: Column; isDown: boolean } | null = null;

  constructor(private readonly _host: IFoundHost) {
    this.element.hidden = true;
    this._grid.id = this.id;
    this._grid.setAttribute('role', 'grid');
    this._grid.setAttribute('aria-label', 'What was found');
    this._head.setAttribute('role', 'row');
    this._rows.setAttribute('role', 'rowgroup');
    this._scroll.setAttribute('role', 'presentation');
    this._scroll.append(this._rows);
    this._grid.append(this._head, this._scroll);
    this._copy = csvButton(() => this.csv(), this.element);
    this.element.append(this._note, this._grid);
    // The search keeps the keyboard while the mouse is in the list.
    this.element.addEventListener('mousedown', event => event.preventDefault());
    this._scroll.addEventListener('scroll', () => this._draw());
    this._scroll.addEventListener('click', event => this._clicked(event));
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  /** Id of the row that is the current one; null when there is none. */
  get active(): string | null {
    return this.isOpen && this._current >= 0 ? this._rowId(this._current) : null;
  }

  show(matches: IMatch[]): void {
    this._given = matches;
    this._current = -1;
    this._note.hidden = matches.length > 0;
    this._note.replaceChildren('Nothing was found');
    this._grid.hidden = matches.length === 0;
    this._order();
    this._scroll.scrollTop = 0;
    this._draw();
  }

  /** What was found as comma-separated values, in the order in which it stands. */
  csv(): string {
    return csvOf(
      ['id', ...COLUMNS.map(([column, title]) => headOf(title, column === 'ns' ? 'ns' : '')), 'estimated by'],
      this._shown.map(({ id, what, scope, shape, ns, split }) => [id, what, scope, shape, ns, split])
    );
  }

  /** Says instead of rows why there are none. */
  explain(...text: (Node | string)[]): void {
    this._given = [];
    this._shown = [];
    this._grid.hidden = true;
    this._note.hidden = false;
    this._note.replaceChildren(...text);
  }

  setCurrent(index: number): void {
    this._current = index;
    const top = index * ROW_PX;
    const { scrollTop, clientHeight } = this._scroll;
    if (index >= 0 && (top < scrollTop || top + ROW_PX > scrollTop + clientHeight)) {
      this._scroll.scrollTop = Math.max(0, top - clientHeight / 2);
    }
    this._draw();
  }

  private _rowId(index: number): string {
    return `${this.id}-${index}`;
  }

  private _clicked(event: Event): void {
    const { target } = event;
    const row = target instanceof Element ? target.closest('[data-index]') : null;
    const index = Number(row?.getAttribute('data-index') ?? '-1');
    if (index >= 0) {
      this._host.chosen(index);
    }
  }

  private _sortBy(column: Column): void {
    const isSame = this._sort?.column === column;
    const startsDown = column === 'ns';
    const isTurned = isSame && this._sort?.isDown === startsDown;
    this._sort = isSame && !isTurned ? null : { column, isDown: isTurned ? !startsDown : startsDown };
    this._current = -1;
    this._order();
    this._draw();
  }

  private _order(): void {
    const sort = this._sort;
    this._shown = [...this._given];
    if (sort !== null) {
      const sign = sort.isDown ? -1 : 1;
      this._shown.sort((a, b) => sign * compare(a, b, sort.column));
    }
    this._head.replaceChildren(
      ...COLUMNS.map(([column, title]) => {
        const isIt = sort?.column === column;
        const arrow = isIt ? (sort.isDown ? ' ↓' : ' ↑') : '';
        const sorter = button('jp-MaxLab-foundSort', `Sort by ${title.toLowerCase()}`, () => this._sortBy(column), title + arrow);
        sorter.tabIndex = -1;
        const cell = el('div', `jp-MaxLab-foundCell jp-mod-${column}`, sorter);
        cell.setAttribute('role', 'columnheader');
        cell.setAttribute('aria-sort', isIt ? (sort.isDown ? 'descending' : 'ascending') : 'none');
        if (column === 'ns') {
          cell.append(this._copy);
        }
        return cell;
      })
    );
    this._host.ordered(this._shown);
  }

  private _draw(): void {
    const count = this._shown.length;
    this._grid.setAttribute('aria-rowcount', String(count + 1));
    this._rows.style.height = `${count * ROW_PX}px`;
    this._scroll.style.height = `${Math.min(MOST_ROWS, Math.max(LEAST_ROWS, count)) * ROW_PX}px`;
    const first = Math.max(0, Math.floor(this._scroll.scrollTop / ROW_PX) - 2);
    const last = Math.min(count, first + MOST_ROWS + 5);
    const rows: HTMLElement[] = [];
    for (let index = first; index < last; index += 1) {
      const match = this._shown[index];
      if (match !== undefined) {
        rows.push(this._row(match, index));
      }
    }
    this._rows.replaceChildren(...rows);
  }

  private _row(match: IMatch, index: number): HTMLElement {
    const row = el('div', 'jp-MaxLab-foundRow');
    row.id = this._rowId(index);
    row.dataset.index = String(index);
    row.dataset.key = match.id;
    row.style.top = `${index * ROW_PX}px`;
    row.setAttribute('role', 'row');
    row.setAttribute('aria-rowindex', String(index + 2));
    row.setAttribute('aria-selected', String(index === this._current));
    const time = match.ns === null ? '' : `${match.split === '' ? '' : '≈'}${formatTime(match.ns)}`;
    for (const [column, text] of [
      ['what', match.what],
      ['scope', match.scope],
      ['shape', match.shape],
      ['ns', time]
    ] as const) {
      const cell = el('div', `jp-MaxLab-foundCell jp-mod-${column}`, text);
      cell.setAttribute('role', 'gridcell');
      cell.title =
        column === 'ns' && match.split !== ''
          ? `${time}: part of a kernel that computes others too, by ${match.split}`
          : text;
      row.append(cell);
    }
    return row;
  }
}

function compare(a: IMatch, b: IMatch, column: Column): number {
  if (column === 'ns') {
    return (a.ns ?? -1) - (b.ns ?? -1);
  }
  return a[column].localeCompare(b[column], 'en', { numeric: true });
}
