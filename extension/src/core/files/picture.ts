/** The picture of a slice: cells in colour, a cursor that pointer and keys move, and the value under it. */

import type { ITheme } from '../render/theme';
import { parseColor, type Rgb } from '../render/color';
import { el } from '../view/dom';
import { at } from '../narrow';
import { divergingRamp, pixelsOf } from './colors';
import { elementOf, type ISlice } from './source';
import { clamp, numberText } from './tensors';

/** CSS pixels of the picture, at most, and of a cell. */
const MOST_HEIGHT = 340;
const MOST_CELL = 28;
/** A vector is one line: it is drawn this high. */
const LINE_HEIGHT = 36;

export interface IPictureHost {
  /** Shows `factor` of the window, around an element. */
  zoom(factor: number, row: number, column: number): void;
  whole(): void;
  /** The cursor wants to go to an element that the slice does not have. */
  reach(row: number, column: number): void;
}

export interface ICell {
  row: number;
  column: number;
}

const NO_NUMBER: Rgb = [150, 60, 160];

export class Picture {
  readonly element = el('div', 'jp-MaxLab-weights-picture');
  readonly value = el('output', 'jp-MaxLab-weights-value');
  private readonly _canvas = el('canvas');
  private readonly _legend = el('div', 'jp-MaxLab-weights-legend');
  private readonly _cursor = el('div', 'jp-MaxLab-weights-cursor');
  private _slice: ISlice | null = null;
  private _index: readonly number[] = [];
  private _cell: ICell = { row: 0, column: 0 };
  private _size = { width: 1, height: 1 };
  private _dpr = 0;

  constructor(private readonly _host: IPictureHost) {
    this._canvas.tabIndex = 0;
    this._canvas.setAttribute('role', 'img');
    this._canvas.setAttribute('aria-keyshortcuts', 'ArrowUp ArrowDown ArrowLeft ArrowRight + - 0');
    this._cursor.hidden = true;
    this.value.setAttribute('aria-live', 'polite');
    this.element.append(
      el('div', 'jp-MaxLab-weights-canvasRoom', this._canvas, this._cursor),
      this._legend
    );
    this._canvas.addEventListener('pointermove', event => this._pointed(event));
    this._canvas.addEventListener('keydown', event => this._key(event));
    this._canvas.addEventListener('focus', () => this._point(this._cell));
    this._canvas.addEventListener('wheel', event => this._wheel(event), { passive: false });
    this._canvas.addEventListener('dblclick', () => this._zoom(0.5));
  }

  /** Shows a slice; `index` are the places on the axes that it does not have. */
  show(slice: ISlice, index: readonly number[], name: string, theme: ITheme): void {
    const before = this._slice === null ? null : this._element(this._cell);
    this._slice = slice;
    this._index = index;
    const { rows, columns } = slice;
    this._canvas.setAttribute(
      'aria-label',
      `Picture of ${name}, ${rows.count} rows and ${columns.count} columns. Arrow keys move, + and − zoom, 0 shows all.`
    );
    this.repaint(theme);
    if (before !== null) {
      const cell = this._nearest(before.row, before.column);
      if (this._cursor.hidden) {
        this._cell = cell;
      } else {
        this._point(cell);
      }
    }
  }

  /** Paints again, in the colours of another theme or at another width. */
  repaint(theme: ITheme): void {
    const slice = this._slice;
    if (slice === null) {
      return;
    }
    const { rows, columns, values } = slice;
    const room = Math.max(80, this.element.clientWidth - 2);
    const cell = Math.min(MOST_CELL, room / Math.max(1, columns.count), MOST_HEIGHT / Math.max(1, rows.count));
    const width = Math.max(1, Math.round(cell * columns.count));
    const height = rows.count === 1 ? LINE_HEIGHT : Math.max(1, Math.round(cell * rows.count));
    this._size = { width, height };
    this._dpr = Math.min(3, globalThis.devicePixelRatio || 1);
    this._canvas.width = Math.round(width * this._dpr);
    this._canvas.height = Math.round(height * this._dpr);
    this._canvas.style.width = `${width}px`;
    this._canvas.style.height = `${height}px`;
    const most = Math.max(Math.abs(slice.low ?? 0), Math.abs(slice.high ?? 0));
    const ramp = divergingRamp(theme.isDark);
    const none = parseColor(theme.error) ?? NO_NUMBER;
    const ctx = this._canvas.getContext('2d');
    if (ctx === null || values.length === 0) {
      this._legend.replaceChildren('There is no number here.');
      return;
    }
    const small = el('canvas');
    small.width = columns.count;
    small.height = rows.count;
    small
      .getContext('2d')
      ?.putImageData(new ImageData(pixelsOf(values, most, ramp, none), columns.count, rows.count), 0, 0);
    // Enlarged, each number stays one square; made smaller, numbers are mixed.
    ctx.imageSmoothingEnabled = cell < 1;
    ctx.drawImage(small, 0, 0, this._canvas.width, this._canvas.height);
    this._legend.replaceChildren(...this._legendOf(most, ramp, values.some(Number.isNaN), none));
  }

  private _legendOf(most: number, ramp: readonly Rgb[], hasNone: boolean, none: Rgb): HTMLElement[] {
    const bar = el('span', 'jp-MaxLab-weights-scale');
    const stops = Array.from({ length: 17 }, (_, n) => {
      const [r, g, b] = at(ramp, Math.round((n / 16) * (ramp.length - 1)));
      return `rgb(${r}, ${g}, ${b})`;
    });
    bar.style.background = `linear-gradient(to right, ${stops.join(', ')})`;
    const words = el('span', 'jp-MaxLab-weights-scaleWords');
    words.append(
      el('span', '', numberText(-most)),
      el('span', '', '0'),
      el('span', '', numberText(most))
    );
    const made = [el('span', 'jp-MaxLab-weights-scaleBox', bar, words)];
    if (hasNone) {
      const swatch = el('span', 'jp-MaxLab-swatch');
      swatch.style.background = `rgb(${none.join(', ')})`;
      made.push(el('span', 'jp-MaxLab-weights-none', swatch, 'NaN'));
    }
    return made;
  }

  private _element({ row, column }: ICell): ICell {
    const slice = this._slice;
    return slice === null
      ? { row: 0, column: 0 }
      : { row: elementOf(slice.rows, row), column: elementOf(slice.columns, column) };
  }

  private _nearest(row: number, column: number): ICell {
    const slice = this._slice;
    if (slice === null) {
      return { row: 0, column: 0 };
    }
    const { rows, columns } = slice;
    return {
      row: clamp(Math.round((row - rows.start) / rows.step), 0, Math.max(0, rows.count - 1)),
      column: clamp(Math.round((column - columns.start) / columns.step), 0, Math.max(0, columns.count - 1))
    };
  }

  private _pointed(event: MouseEvent): void {
    const slice = this._slice;
    if (slice === null) {
      return;
    }
    const box = this._canvas.getBoundingClientRect();
    const place = (from: number, length: number, count: number): number =>
      clamp(Math.floor((from / Math.max(1, length)) * count), 0, Math.max(0, count - 1));
    this._point({
      row: place(event.clientY - box.top, box.height, slice.rows.count),
      column: place(event.clientX - box.left, box.width, slice.columns.count)
    });
  }

  private _point(cell: ICell): void {
    const slice = this._slice;
    if (slice === null || slice.values.length === 0) {
      return;
    }
    this._cell = cell;
    const { rows, columns, values } = slice;
    const element = this._element(cell);
    const index = [...this._index];
    if (rows.axis >= 0) {
      index[rows.axis] = element.row;
    }
    if (columns.axis >= 0) {
      index[columns.axis] = element.column;
    }
    const value = values[cell.row * columns.count + cell.column] ?? NaN;
    this.value.textContent = `[${index.join(', ')}] = ${numberText(value)}`;
    const width = this._size.width / columns.count;
    const height = this._size.height / rows.count;
    this._cursor.hidden = false;
    this._cursor.style.left = `${cell.column * width}px`;
    this._cursor.style.top = `${cell.row * height}px`;
    this._cursor.style.width = `${Math.max(3, width)}px`;
    this._cursor.style.height = `${Math.max(3, height)}px`;
  }

  private _key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const moves: Record<string, ICell> = {
      ArrowDown: { row: 1, column: 0 },
      ArrowUp: { row: -1, column: 0 },
      ArrowRight: { row: 0, column: 1 },
      ArrowLeft: { row: 0, column: -1 }
    };
    const move = moves[event.key];
    if (move !== undefined) {
      this._move(move);
    } else if (event.key === '+' || event.key === '=') {
      this._zoom(0.5);
    } else if (event.key === '-') {
      this._zoom(2);
    } else if (event.key === '0') {
      this._host.whole();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  private _move({ row, column }: ICell): void {
    const slice = this._slice;
    if (slice === null) {
      return;
    }
    const to = { row: this._cell.row + row, column: this._cell.column + column };
    const isInside =
      to.row >= 0 && to.row < slice.rows.count && to.column >= 0 && to.column < slice.columns.count;
    if (isInside) {
      this._point(to);
    } else {
      const element = this._element(this._cell);
      this._host.reach(
        element.row + row * slice.rows.step,
        element.column + column * slice.columns.step
      );
    }
  }

  private _wheel(event: WheelEvent): void {
    event.preventDefault();
    this._pointed(event);
    this._zoom(event.deltaY < 0 ? 0.7 : 1 / 0.7);
  }

  private _zoom(factor: number): void {
    const { row, column } = this._element(this._cell);
    this._host.zoom(factor, row, column);
  }
}
