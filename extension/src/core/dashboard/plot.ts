/** What all charts share: uPlot, the time axis, the pointer, and zooming by a drag. */

import uPlot from 'uplot';

import type { ITheme } from '../render/theme';
import type { Values } from './data';
import { formatClock, formatElapsed, TIME_STEPS } from './format';
import type { ISpan } from './range';
import type { IMark } from './wire';
import { clipped } from '../panels/parts/paint';
import { at } from '../narrow';

export const AXIS_PX = 62;
const RIGHT_PX = 34;
const LEAST_PX = AXIS_PX + RIGHT_PX + 24;

/** What a chart asks of, and tells, the dashboard that it is part of. */
export interface IPlotHost {
  readonly theme: ITheme;
  /** Milliseconds of the calendar at second 0; 0 shows the time since then. */
  readonly epoch: number;
  readonly shown: ISpan;
  readonly marks: readonly IMark[];
  /** The last second of the recording, where marks that still last are drawn to. */
  readonly end: number;
  /** CSS pixels that a chart is to fill; null gives each its own height. */
  readonly fill: number | null;
  hover(time: number | null): void;
  /** A mark was clicked. */
  chosen(mark: IMark): void;
  select(start: number, end: number): void;
  reset(): void;
}

export interface IPlot {
  readonly element: HTMLElement;
  readonly canvas: HTMLCanvasElement | null;
  readonly drawn: ISpan | null;
  setData(times: readonly number[], values: readonly Values[]): void;
  /** Draws again: the time shown, the marks or the theme have changed. */
  redraw(): void;
  /** The room that there is has changed. */
  resized(): void;
  /** Puts the line of the pointer at `time`. */
  setCursor(time: number | null): void;
  dispose(): void;
}

type Draw = (u: uPlot, context: CanvasRenderingContext2D) => void;

/** Width, height and place of the drawing area, in pixels of the canvas. */
export interface IArea {
  left: number;
  top: number;
  width: number;
  height: number;
}

export const areaOf = (u: uPlot): IArea => u.bbox;

/** Paints inside of the area of `u` alone, and leaves the context as it was. */
export function paintInside(u: uPlot, context: CanvasRenderingContext2D, paint: (area: IArea) => void): void {
  const area = areaOf(u);
  const room = { x: area.left, y: area.top, w: area.width, h: area.height };
  clipped(context, room, () => paint(area));
}

export abstract class BasePlot implements IPlot {
  readonly element = document.createElement('div');
  protected _plot: uPlot | null = null;
  protected _times: readonly number[] = [];
  protected _values: readonly Values[] = [];
  private readonly _observer: ResizeObserver | null;
  private _width = 0;
  private _tall = 0;
  private _isPressed = false;

  constructor(
    protected readonly _host: IPlotHost,
    private readonly _sync: string
  ) {
    this.element.className = 'jp-MaxLab-plot';
    this._observer =
      typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(() => this._resize());
    this._observer?.observe(this.element);
    this.element.addEventListener('mousedown', () => (this._isPressed = true), { capture: true });
  }

  /** Height of the whole chart in CSS pixels. */
  protected abstract _height(): number;
  /** The same in a room of `fill` pixels; null without one. */
  protected _filled(fill: number | null): number {
    return fill ?? this._height();
  }

  protected abstract _options(): Pick<uPlot.Options, 'series' | 'axes' | 'scales'>;
  protected abstract _data(): uPlot.AlignedData;
  /** Drawn below the lines and above them. */
  protected _below: Draw | null = null;
  protected _above: Draw | null = null;

  /** The time that is drawn; null before anything is. */
  get drawn(): ISpan | null {
    const scale = this._plot?.scales.x;
    return scale?.min === undefined || scale.max === undefined
      ? null
      : { start: scale.min, end: scale.max };
  }

  get canvas(): HTMLCanvasElement | null {
    return this._plot?.ctx.canvas ?? null;
  }

  setData(times: readonly number[], values: readonly Values[]): void {
    this._times = times;
    this._values = values;
    if (this._plot === null) {
      this._resize();
      return;
    }
    this._plot.batch(() => {
      this._plot?.setData(this._data(), false);
      this._setScale();
    });
  }

  redraw(): void {
    this._plot?.batch(() => this._setScale());
  }

  /** The room that there is has changed. */
  resized(): void {
    this._resize();
  }

  /** Builds the chart anew: its colours have changed. */
  rebuild(): void {
    this._plot?.destroy();
    this._plot = null;
    this._resize();
  }

  private _setScale(): void {
    const { start, end } = this._host.shown;
    const scale = this._plot?.scales.x;
    if (scale?.min === start && scale.max === end) {
      this._plot?.redraw(true, true);
    } else {
      // Not both: in one batch, to redraw would set the old scale again.
      this._plot?.setScale('x', { min: start, max: end });
    }
  }

  setCursor(time: number | null): void {
    const plot = this._plot;
    if (plot !== null) {
      const left = time === null ? -10 : plot.valToPos(time, 'x');
      plot.setCursor({ left, top: time === null ? -10 : 0 }, false);
    }
  }

  private _resize(): void {
    const width = this.element.clientWidth;
    if (width < LEAST_PX) {
      return; // hidden, as in a closed tab, or without room for more than the axis
    }
    const tall = this._filled(this._host.fill);
    if (this._plot === null) {
      this._make(width, tall);
    } else if (width !== this._width || tall !== this._tall) {
      this._plot.setSize({ width, height: tall });
    }
    this._width = width;
    this._tall = tall;
  }

  private _make(width: number, height: number): void {
    const host = this._host;
    const { start, end } = host.shown;
    const own = this._options();
    const options: uPlot.Options = {
      width,
      height,
      legend: { show: false },
      padding: [6, RIGHT_PX, 0, 0],
      pxAlign: 1,
      ...own,
      scales: { x: { time: false, auto: false, min: start, max: end }, ...own.scales },
      cursor: {
        y: false,
        sync: { key: this._sync, setSeries: false },
        points: { size: 7, width: 2, fill: host.theme.surface },
        drag: { x: true, y: false, setScale: false, dist: 4 },
        bind: { dblclick: () => () => (host.reset(), null) }
      },
      hooks: {
        drawClear: [u => this._below?.(u, u.ctx)],
        draw: [u => this._above?.(u, u.ctx)],
        setCursor: [u => this._pointed(u)],
        setSelect: [u => this._selected(u)]
      }
    };
    this._plot = new uPlot(options, this._data(), this.element);
    this._plot.over.setAttribute('aria-hidden', 'true');
    this._plot.ctx.canvas.setAttribute('aria-hidden', 'true');
  }

  private _pointed(u: uPlot): void {
    // Charts that follow the pointer of another have no event of their own.
    if (u.cursor.event) {
      const left = u.cursor.left ?? -10;
      this._host.hover(left < 0 ? null : u.posToVal(left, 'x'));
    }
  }

  private _selected(u: uPlot): void {
    const { left, width } = u.select;
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    // The selection is shown in every chart, and made in one.
    if (width > 3 && this._isPressed) {
      this._isPressed = false;
      this._host.select(u.posToVal(left, 'x'), u.posToVal(left + width, 'x'));
    }
  }

  /** The axis of values beside a chart. */
  protected _valueAxis(): uPlot.Axis {
    const { theme } = this._host;
    return {
      scale: 'y',
      size: AXIS_PX,
      gap: 6,
      stroke: theme.muted,
      font: `11px ${theme.fontUi}`,
      ticks: { show: false }
    };
  }

  /** The time axis below a chart. */
  protected _timeAxis(): uPlot.Axis {
    const { theme } = this._host;
    return {
      scale: 'x',
      size: 28,
      gap: 8,
      stroke: theme.muted,
      font: `11px ${theme.fontUi}`,
      space: 74,
      incrs: TIME_STEPS,
      grid: { stroke: theme.line, width: 1 },
      ticks: { show: false },
      values: (_u, splits) => {
        const step = splits.length > 1 ? at(splits, 1) - at(splits, 0) : 1;
        const { epoch } = this._host;
        return splits.map(second =>
          epoch === 0 ? formatElapsed(second, step) : formatClock(second, epoch, step)
        );
      }
    };
  }

  dispose(): void {
    this._observer?.disconnect();
    this._plot?.destroy();
    this._plot = null;
    this.element.remove();
  }
}
