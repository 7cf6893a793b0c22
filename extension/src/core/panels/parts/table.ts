/** A table whose columns sort and whose rows select, with one row in the tab order. */

import { csvOf, headOf, type Field } from '../../csv';
import { at } from '../../narrow';
import { csvButton } from '../../view/copying';
import { button, el, type Child } from '../../view/dom';

export interface IColumn<Row> {
  title: string;
  cell: (row: Row) => Child;
  /** What the column sorts by; null is unknown and comes last. Without it the column does not sort. */
  key?: (row: Row) => string | number | null;
  /** Numbers stand at the right, and sort largest first. */
  isNumber?: boolean;
  /** What the numbers of `key` are in, such as `ns`; they are copied as they are. */
  unit?: string;
  /** What is copied, where that is neither the number of `key` nor the text of the cell. */
  field?: (row: Row) => Field;
}

/** More rows are counted, not drawn: a page of them is slow, and nobody reads it. */
const MAX_ROWS = 500;

/** A copy of `rows` in the order of `key`; unknown ones come last either way. */
export function sortRows<Row>(
  rows: readonly Row[],
  key: (row: Row) => string | number | null,
  isDown: boolean
): Row[] {
  const sign = isDown ? -1 : 1;
  return [...rows].sort((a, b) => {
    const x = key(a);
    const y = key(b);
    if (x === null || y === null) {
      return Number(x === null) - Number(y === null);
    }
    return typeof x === 'number' && typeof y === 'number'
      ? sign * (x - y)
      : sign * String(x).localeCompare(String(y), 'en', { numeric: true });
  });
}

/** What is copied of a cell. */
function fieldIn<Row>({ field, isNumber, key, cell }: IColumn<Row>, row: Row): Field {
  if (field !== undefined) {
    return field(row);
  }
  if (isNumber === true && key !== undefined) {
    return key(row);
  }
  const shown = cell(row);
  return shown instanceof Node ? shown.textContent : String(shown ?? '');
}

export class DataTable<Row> {
  readonly element = el('table', 'jp-MaxLab-table');
  private readonly _body = el('tbody');
  private readonly _foot = el('caption', 'jp-MaxLab-note');
  private readonly _heads: HTMLElement[] = [];
  private _rows: readonly Row[] = [];
  private _shown: { row: Row; element: HTMLElement; button: HTMLButtonElement }[] = [];
  private _by = -1;
  private _isDown = false;
  private _isMarked: (row: Row) => boolean = () => false;

  /**
   * The cell of the first column is what a row is called by; it becomes a button when `choose` is
   * given for the row.
   */
  constructor(
    label: string,
    private readonly _columns: readonly IColumn<Row>[],
    private readonly _choose: (row: Row) => void
  ) {
    this.element.setAttribute('aria-label', label);
    const head = el('tr');
    _columns.forEach((column, i) => {
      const cell = el('th', column.isNumber === true ? 'jp-mod-number' : '');
      cell.scope = 'col';
      if (column.key === undefined) {
        cell.append(column.title);
      } else {
        cell.append(button('jp-MaxLab-sort', `Sort by ${column.title}`, () => this._sort(i), column.title));
      }
      this._heads.push(cell);
      head.append(cell);
    });
    // In the last head, which stays in sight when the rows are scrolled.
    this._heads[this._heads.length - 1]?.append(csvButton(() => this.csv(), this.element));
    this.element.append(this._foot, el('thead', '', head), this._body);
    this._body.addEventListener('keydown', event => this._key(event));
  }

  setRows(rows: readonly Row[]): void {
    this._rows = rows;
    this._show();
  }

  /** Sorts by a column until somebody chooses another. */
  sortBy(column: number, isDown: boolean): void {
    this._by = column;
    this._isDown = isDown;
    this._show();
  }

  /** Marks the rows that are selected elsewhere. */
  mark(isMarked: (row: Row) => boolean): void {
    this._isMarked = isMarked;
    for (const { row, element, button: name } of this._shown) {
      const on = isMarked(row);
      element.classList.toggle('jp-mod-selected', on);
      name.setAttribute('aria-pressed', String(on));
    }
  }

  /** Scrolls the first marked row into sight. */
  showMarked(): void {
    this._shown.find(({ row }) => this._isMarked(row))?.element.scrollIntoView({ block: 'nearest' });
  }

  private _sort(column: number): void {
    const { isNumber } = at(this._columns, column);
    this._isDown = this._by === column ? !this._isDown : isNumber === true;
    this._by = column;
    this._show();
  }

  /** All rows as comma-separated values, in the order in which they stand. */
  csv(): string {
    const heads = this._columns.map(({ title, unit }) => headOf(title, unit));
    return csvOf(heads, this._ordered().map(row => this._columns.map(column => fieldIn(column, row))));
  }

  private _ordered(): readonly Row[] {
    const key = this._columns[this._by]?.key;
    return key === undefined ? this._rows : sortRows(this._rows, key, this._isDown);
  }

  private _show(): void {
    const rows = this._ordered();
    this._heads.forEach((cell, i) => {
      if (i === this._by) {
        cell.setAttribute('aria-sort', this._isDown ? 'descending' : 'ascending');
      } else {
        cell.removeAttribute('aria-sort');
      }
    });
    this._shown = rows.slice(0, MAX_ROWS).map(row => this._row(row));
    this._body.replaceChildren(...this._shown.map(({ element }) => element));
    const more = rows.length - this._shown.length;
    this._foot.textContent = more > 0 ? `${this._shown.length} of ${rows.length} rows; sort to see others` : '';
    this._foot.hidden = more <= 0;
    const [first] = this._shown;
    if (first !== undefined) {
      first.button.tabIndex = 0;
    }
    this.mark(this._isMarked);
  }

  private _row(row: Row): { row: Row; element: HTMLElement; button: HTMLButtonElement } {
    const element = el('tr');
    const [first, ...rest] = this._columns;
    const name = el('button', 'jp-MaxLab-rowName', first?.cell(row));
    name.type = 'button';
    name.tabIndex = -1;
    const head = el('th', '', name);
    head.scope = 'row';
    element.append(head);
    for (const { cell, isNumber } of rest) {
      element.append(el('td', isNumber === true ? 'jp-mod-number' : '', cell(row)));
    }
    element.addEventListener('click', () => this._choose(row));
    return { row, element, button: name };
  }

  private _key(event: KeyboardEvent): void {
    const at = this._shown.findIndex(({ button: name }) => name === event.target);
    const last = this._shown.length - 1;
    const moves: Record<string, number> = {
      ArrowDown: Math.min(last, at + 1),
      ArrowUp: Math.max(0, at - 1),
      Home: 0,
      End: last
    };
    const to = moves[event.key];
    if (at < 0 || to === undefined) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    this._shown.forEach(({ button: name }, i) => {
      name.tabIndex = i === to ? 0 : -1;
    });
    this._shown[to]?.button.focus();
  }
}
