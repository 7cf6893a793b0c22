/** The canvas of a sweep, with pointer and keyboard. */

import { formatTime, plural } from '../../model/format';
import { Disposables } from '../../view/dom';
import type { IPanelView } from '../../view/panel';
import { familyOfKernel } from '../kernels';
import { takeKey } from '../parts/gestures';
import { ChartStage } from '../parts/stage';
import { layoutCurves, pointAt, type ICurvePoint, type IDrawn, type ILayout } from './curves';
import type { ICurve, ISweep } from './data';
import { paintCurves } from './paint';

export class CurveChart {
  readonly element: HTMLElement;
  private readonly _stage: ChartStage;
  private readonly _disposables = new Disposables();
  private _sweep: ISweep | null = null;
  private _curves: readonly ICurve[] = [];
  private _dim = '';
  private _isEach = false;
  private _layout: ILayout | null = null;
  private _current: { drawn: IDrawn; point: ICurvePoint } | null = null;
  private _selected: ReadonlySet<string> = new Set();

  constructor(
    private readonly _view: IPanelView,
    private readonly _choose: (curve: ICurve) => void
  ) {
    this._stage = new ChartStage(_view, 'jp-MaxLab-curves', [
      (ctx, width, height) => this._paint(ctx, width, height)
    ]);
    const { element, surface } = this._stage;
    this.element = element;
    const d = this._disposables;
    d.listen(element, 'pointermove', event => {
      const { x, y } = surface.at(event);
      this._setCurrent(this._layout === null ? null : pointAt(this._layout, x, y));
    });
    d.listen(element, 'pointerleave', () => this._setCurrent(null));
    d.listen(element, 'blur', () => this._setCurrent(null));
    d.listen(element, 'click', () => this._select());
    d.listen(element, 'keydown', event => takeKey(event, ({ key }) => this._key(key)));
  }

  show(sweep: ISweep, curves: readonly ICurve[], dim: string, isEach: boolean): void {
    this._sweep = sweep;
    this._curves = curves;
    this._dim = dim;
    this._isEach = isEach;
    this._setCurrent(null);
    this._stage.describe(
      `Time over ${dim}: ${plural(curves.length, 'curve')}, both axes logarithmic. Up and down go ` +
        'from curve to curve, left and right along one, Enter selects its operations.'
    );
    this._stage.resized();
  }

  /** Marks the curves of selected operations. */
  select(ids: readonly string[]): void {
    this._selected = new Set(ids);
    this._stage.surface.redraw();
  }

  redraw(): void {
    this._stage.resized();
  }

  dispose(): void {
    this._disposables.dispose();
    this._stage.dispose();
  }

  private _isSelected(curve: ICurve): boolean {
    return curve.nodes.some(node => this._selected.has(node));
  }

  private _paint(ctx: CanvasRenderingContext2D, width: number, height: number): void {
    const { _sweep: sweep, _view: view } = this;
    if (sweep === null) {
      return;
    }
    this._layout = layoutCurves(sweep, this._curves, this._dim, this._isEach, width, height);
    const { _current: current } = this;
    if (current !== null) {
      this._current = this._find(current.drawn.curve, current.point.index);
    }
    paintCurves(
      ctx,
      {
        theme: view.theme,
        layout: this._layout,
        dim: this._dim,
        isEach: this._isEach,
        colorOf: curve => view.theme.family[familyOfKernel(view, curve.id)].stripe,
        isSelected: curve => this._isSelected(curve),
        hasSelection: this._curves.some(curve => this._isSelected(curve)),
        current: this._current
      },
      width,
      height
    );
  }

  private _find(curve: ICurve, index: number): { drawn: IDrawn; point: ICurvePoint } | null {
    const drawn = this._layout?.drawn.find(other => other.curve === curve);
    const point = drawn?.points.find(other => other.index === index) ?? drawn?.points[0];
    return drawn === undefined || point === undefined ? null : { drawn, point };
  }

  private _setCurrent(found: { drawn: IDrawn; point: ICurvePoint } | null): void {
    const isSame =
      found?.drawn.curve === this._current?.drawn.curve &&
      found?.point.index === this._current?.point.index;
    this._stage.tip(found === null ? null : this._lines(found), found?.point.x, found?.point.y);
    this._current = found;
    this.element.style.cursor = found === null || found.drawn.curve.id === '' ? '' : 'pointer';
    if (!isSame) {
      this._stage.surface.redraw();
    }
  }

  private _lines({ drawn, point }: { drawn: IDrawn; point: ICurvePoint }): string[] {
    const { curve } = drawn;
    const ns = curve.ns[point.index] ?? 0;
    const power = curve.growth[this._dim]?.[0] ?? null;
    const low = formatTime(curve.low[point.index] ?? 0);
    const high = formatTime(curve.high[point.index] ?? 0);
    return [
      curve.id === '' ? curve.name : `${curve.id} ${curve.name}`,
      `${this._dim} = ${point.size.toLocaleString('en-US')}: ${formatTime(ns)}`,
      `half of the runs from ${low} to ${high}`,
      this._isEach ? `${formatTime(point.value)} for each` : '',
      power === null ? '' : `grows as ${this._dim} to the power of ${power.toFixed(2)}`
    ];
  }

  private _select(): void {
    if (this._current !== null) {
      this._choose(this._current.drawn.curve);
    }
  }

  private _key(key: string): boolean {
    const drawn = this._layout?.drawn.filter(({ points }) => points.length > 0) ?? [];
    const { _current: current } = this;
    if (key === 'Enter' || key === ' ') {
      this._select();
    } else if (key === 'Escape' && current !== null) {
      this._setCurrent(null);
    } else {
      const found = step(drawn, current, key);
      if (found === null) {
        return false;
      }
      this._setCurrent(found);
      this._view.say(this._lines(found).filter(Boolean).join(', '));
    }
    return true;
  }
}

/** Where an arrow key leads; null for other keys, and where there is nothing. */
export function step(
  drawn: readonly IDrawn[],
  current: { drawn: IDrawn; point: ICurvePoint } | null,
  key: string
): { drawn: IDrawn; point: ICurvePoint } | null {
  if (!['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown'].includes(key) || drawn.length === 0) {
    return null;
  }
  if (current === null) {
    const [first] = drawn;
    const point = first?.points[first.points.length - 1];
    return first === undefined || point === undefined ? null : { drawn: first, point };
  }
  if (key === 'ArrowLeft' || key === 'ArrowRight') {
    const { points } = current.drawn;
    const at = points.indexOf(current.point) + (key === 'ArrowLeft' ? -1 : 1);
    const point = points[Math.min(points.length - 1, Math.max(0, at))];
    return point === undefined ? null : { drawn: current.drawn, point };
  }
  // Up and down by what is seen: the next curve above or below at the same size.
  const up = key === 'ArrowUp';
  const others = drawn
    .flatMap(other => other.points.map(point => ({ drawn: other, point })))
    .filter(({ point }) => point.index === current.point.index)
    .sort((a, b) => a.point.y - b.point.y);
  const at = others.findIndex(other => other.drawn.curve === current.drawn.curve);
  return others[Math.min(others.length - 1, Math.max(0, at + (up ? -1 : 1)))] ?? null;
}
