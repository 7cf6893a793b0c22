/** What is shown of one tensor: what it is, its statistics, and the picture of a slice of it. */

import type { ITensorFacts } from '../../proto/files';
import { formatBytes } from '../model/format';
import { histogramText } from '../panels/check/answers';
import { paintHistogram } from '../panels/check/draw';
import { Surface } from '../panels/surface';
import type { ITheme } from '../render/theme';
import { button, el } from '../view/dom';
import { facts, section } from '../view/kernel';
import { Picture } from './picture';
import type { ISliceAsked, IWeightSource, IWindow } from './source';
import {
  clamp,
  firstAxes,
  holding,
  numberText,
  seenText,
  shapeText,
  sizeOf,
  wholeWindow,
  zoomed,
  type ITensor
} from './tensors';

/** How long a control must rest before its slice is asked for. */
const PAUSE_MS = 60;

export interface ICardHost {
  readonly source: IWeightSource;
  readonly theme: ITheme;
  /** A question was not answered. */
  failed(error: unknown): void;
}

export class TensorCard {
  readonly element = el('div', 'jp-MaxLab-weights-card');
  private readonly _picture: Picture;
  private readonly _facts = el('div', 'jp-MaxLab-weights-facts', el('p', 'jp-MaxLab-note', 'Reading…'));
  private readonly _part = el('span', 'jp-MaxLab-note');
  private readonly _at: number[];
  private _histogram: Surface | null = null;
  private _rows: number;
  private _columns: number;
  private _window: IWindow;
  private _timer = 0;
  private _asked = 0;
  private _isGone = false;
  private readonly _observer: ResizeObserver | null = null;

  constructor(
    private readonly _tensor: ITensor,
    private readonly _host: ICardHost
  ) {
    const { shape } = _tensor;
    const { rows, columns } = firstAxes(shape);
    this._rows = rows;
    this._columns = columns;
    this._at = shape.map(() => 0);
    this._window = wholeWindow(shape, rows, columns);
    this._picture = new Picture({
      zoom: (factor, row, column) =>
        this._look(zoomed(this._window, this._whole(), row, column, factor)),
      whole: () => this._look(this._whole()),
      reach: (row, column) => this._reach(row, column)
    });
    this.element.append(
      el('h3', 'jp-MaxLab-weights-name', _tensor.name),
      el(
        'p',
        'jp-MaxLab-note',
        `${_tensor.dtype} · ${shapeText(shape)} · ${formatBytes(_tensor.bytes)} at byte ${_tensor.begin.toLocaleString('en')}`
      )
    );
    if (_tensor.problem !== '') {
      this.element.append(el('p', 'jp-MaxLab-weights-refused', `${_tensor.problem}.`));
      return;
    }
    this.element.append(
      section('Picture', this._controls(), this._picture.element, this._picture.value),
      section('Numbers', this._facts)
    );
    if (typeof ResizeObserver !== 'undefined') {
      this._observer = new ResizeObserver(() => this._picture.repaint(_host.theme));
      this._observer.observe(this._picture.element);
    }
    this._look(this._window);
    void this._readFacts();
  }

  /** Draws again in the colours of the host's theme. */
  themed(): void {
    this._picture.repaint(this._host.theme);
    this._histogram?.redraw();
  }

  dispose(): void {
    this._isGone = true;
    window.clearTimeout(this._timer);
    this._observer?.disconnect();
    this._histogram?.dispose();
  }

  private _controls(): HTMLElement {
    const { shape } = this._tensor;
    const bar = el('div', 'jp-MaxLab-weights-controls');
    if (shape.length > 2) {
      const places = el('div', 'jp-MaxLab-weights-places');
      bar.append(
        this._axisChoice('Rows', this._rows, axis => this._choose(axis, this._columns, places)),
        this._axisChoice('Columns', this._columns, axis => this._choose(this._rows, axis, places)),
        places
      );
      this._showPlaces(places);
    }
    bar.append(
      el(
        'span',
        'jp-MaxLab-weights-axis',
        button('jp-MaxLab-plainButton', 'Zoom in', () => this._zoomMiddle(0.5), '+'),
        button('jp-MaxLab-plainButton', 'Zoom out', () => this._zoomMiddle(2), '−'),
        button('jp-MaxLab-plainButton', 'Show all', () => this._look(this._whole()), 'All')
      ),
      this._part
    );
    return bar;
  }

  private _axisChoice(label: string, chosen: number, choose: (axis: number) => void): HTMLElement {
    const select = el('select');
    select.setAttribute('data-axis', label);
    this._tensor.shape.forEach((size, axis) => {
      const option = el('option', '', `axis ${axis} (${size})`);
      option.value = String(axis);
      option.selected = axis === chosen;
      select.append(option);
    });
    select.addEventListener('change', () => choose(Number(select.value)));
    return el('label', 'jp-MaxLab-weights-axis', `${label} `, select);
  }

  private _choose(rows: number, columns: number, places: HTMLElement): void {
    // The axis that the other choice had changes over to it.
    const [before, after] = [this._rows, this._columns];
    this._rows = rows;
    this._columns = columns;
    if (rows === columns) {
      this._rows = rows === before ? after : rows;
      this._columns = columns === after ? before : columns;
    }
    for (const select of this.element.querySelectorAll('select')) {
      select.value = String(select.dataset['axis'] === 'Rows' ? this._rows : this._columns);
    }
    this._showPlaces(places);
    this._look(this._whole());
  }

  private _showPlaces(places: HTMLElement): void {
    places.replaceChildren(
      ...this._tensor.shape.flatMap((size, axis) => {
        if (axis === this._rows || axis === this._columns) {
          return [];
        }
        const input = el('input');
        input.type = 'number';
        input.min = '0';
        input.max = String(Math.max(0, size - 1));
        input.value = String(this._at[axis] ?? 0);
        input.addEventListener('input', () => {
          this._at[axis] = clamp(Math.floor(Number(input.value) || 0), 0, Math.max(0, size - 1));
          this._look(this._window);
        });
        return [el('label', 'jp-MaxLab-weights-axis', `Axis ${axis} at `, input, ` of ${size}`)];
      })
    );
  }

  private _whole(): IWindow {
    return wholeWindow(this._tensor.shape, this._rows, this._columns);
  }

  private _zoomMiddle(factor: number): void {
    const { top, left, height, width } = this._window;
    this._look(zoomed(this._window, this._whole(), top + height / 2, left + width / 2, factor));
  }

  private _reach(row: number, column: number): void {
    const { shape } = this._tensor;
    const isInside =
      row >= 0 && row < sizeOf(shape, this._rows) && column >= 0 && column < sizeOf(shape, this._columns);
    if (isInside) {
      this._look(holding(this._window, row, column));
    }
  }

  private _look(window_: IWindow): void {
    this._window = window_;
    const { shape } = this._tensor;
    const all = this._whole();
    const isWhole = window_.height === all.height && window_.width === all.width;
    this._part.textContent = isWhole
      ? ''
      : `rows ${window_.top}–${window_.top + window_.height - 1} of ${sizeOf(shape, this._rows)}, ` +
        `columns ${window_.left}–${window_.left + window_.width - 1} of ${sizeOf(shape, this._columns)}`;
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => void this._ask(), PAUSE_MS);
  }

  private async _ask(): Promise<void> {
    const number = (this._asked += 1);
    const asked: ISliceAsked = {
      tensor: this._tensor.index,
      rows: this._rows,
      columns: this._columns,
      at: [...this._at],
      window: this._window
    };
    try {
      const slice = await this._host.source.slice(asked);
      if (number === this._asked && !this._isGone) {
        this._picture.show(slice, asked.at, this._tensor.name, this._host.theme);
        const { rows, columns } = slice;
        if (rows.step > 1 || columns.step > 1) {
          const words = `every ${rows.step} × ${columns.step} is shown`;
          const before = this._part.textContent ?? '';
          this._part.textContent = before === '' ? words : `${before}; ${words}`;
        }
      }
    } catch (error) {
      if (!this._isGone) {
        this._host.failed(error);
      }
    }
  }

  private async _readFacts(): Promise<void> {
    try {
      const found = await this._host.source.facts(this._tensor.index);
      if (!this._isGone) {
        this._showFacts(found);
      }
    } catch (error) {
      if (!this._isGone) {
        this._facts.replaceChildren(el('p', 'jp-MaxLab-note', 'They could not be read.'));
        this._host.failed(error);
      }
    }
  }

  private _showFacts(found: ITensorFacts): void {
    const number = (value: number | null): string => (value === null ? '–' : numberText(value));
    const rows: [string, string][] = [
      ['read', seenText(found.seen, found.count)],
      ['range', `${number(found.low)} to ${number(found.high)}`],
      ['mean', number(found.mean)],
      ['deviation', number(found.deviation)],
      ['zeros', found.zeros.toLocaleString('en')]
    ];
    if (found.nans + found.infinities > 0) {
      rows.push(['NaN, ∞', `${found.nans.toLocaleString('en')}, ${found.infinities.toLocaleString('en')}`]);
    }
    this._facts.replaceChildren(facts(rows));
    const { histogram } = found;
    if (histogram !== null) {
      const surface = new Surface('jp-MaxLab-weights-histogram', [
        (ctx, width, height) => paintHistogram(ctx, histogram, width, height, this._host.theme)
      ]);
      surface.element.setAttribute('role', 'img');
      surface.element.setAttribute('aria-label', histogramText(histogram));
      this._histogram = surface;
      this._facts.append(surface.element);
      surface.measure();
    }
  }
}
