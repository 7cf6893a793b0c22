/** Pointers, touch and wheel on a chart: pressing, dragging, pinching and turning. */

import { Disposables } from '../../view/dom';
import type { Surface } from '../surface';

export interface IPlace {
  x: number;
  y: number;
}

/** A turn of the wheel. */
export interface ITurn {
  event: WheelEvent;
  /** Pixels that one unit of the event stands for. */
  unit: number;
  /** What a zoom by this turn scales by. */
  factor: number;
  at: IPlace;
}

export interface IGestureHost {
  /** True when plain wheel turns may zoom. */
  ownsWheel(): boolean;
  /** A plain turn of the wheel is not the chart's. */
  refused(): void;
  turned(turn: ITurn): void;
  /** The pointer is at a place; null when it has left. */
  hovered(at: IPlace | null): void;
  /** A press begins, with so many fingers. */
  pressed?(at: IPlace, event: PointerEvent, fingers: number): void;
  /** A press moves on by `by`, its share among all fingers; false when that is not to move the chart. */
  dragged(by: IPlace, at: IPlace): boolean;
  /** Two fingers that move the chart went apart, or together, by a factor. */
  pinched(factor: number, about: IPlace): void;
  /** The chart was moved by a drag. */
  moved(): void;
  /** A press with the first button ends; `isMoved` when it was a drag. */
  released(at: IPlace, event: PointerEvent, isMoved: boolean): void;
  doubled(at: IPlace): void;
}

/** Pointer travel that makes a press a drag. */
const DRAG_PX = 4;

/** Scale of a zoom by one pixel of the wheel; pinching a touchpad arrives as small turns with Ctrl. */
const WHEEL_ZOOM = 0.0016;
const PINCH_ZOOM = 0.01;

export class Gestures {
  private readonly _disposables = new Disposables();
  private readonly _pointers = new Map<number, IPlace>();
  private _isMoved = false;
  private _spread = 0;

  constructor(
    private readonly _surface: Surface,
    private readonly _host: IGestureHost
  ) {
    const { element } = _surface;
    const d = this._disposables;
    d.listen(element, 'pointerdown', event => this._down(event));
    d.listen(element, 'pointermove', event => this._move(event));
    d.listen(element, 'pointerup', event => this._up(event));
    d.listen(element, 'pointercancel', event => this._end(event));
    d.listen(element, 'pointerleave', () => _host.hovered(null));
    d.listen(element, 'dblclick', event => _host.doubled(_surface.at(event)));
    d.listen(element, 'wheel', event => this._wheel(event), { passive: false });
  }

  dispose(): void {
    this._disposables.dispose();
  }

  private _two(): [IPlace, IPlace] | null {
    const [a, b] = this._pointers.values();
    return a === undefined || b === undefined ? null : [a, b];
  }

  private _distance(): number {
    const two = this._two();
    return two === null ? 0 : Math.hypot(two[0].x - two[1].x, two[0].y - two[1].y);
  }

  private _down(event: PointerEvent): void {
    if (event.button !== 0 && event.button !== 1) {
      return;
    }
    const at = this._surface.at(event);
    this._surface.element.setPointerCapture(event.pointerId);
    this._pointers.set(event.pointerId, at);
    this._isMoved = this._pointers.size > 1;
    this._spread = this._distance();
    this._host.pressed?.(at, event, this._pointers.size);
  }

  private _move(event: PointerEvent): void {
    const at = this._surface.at(event);
    const last = this._pointers.get(event.pointerId);
    if (last === undefined) {
      this._host.hovered(at);
      return;
    }
    const dx = at.x - last.x;
    const dy = at.y - last.y;
    if (!this._isMoved && Math.hypot(dx, dy) < DRAG_PX) {
      return;
    }
    this._isMoved = true;
    this._pointers.set(event.pointerId, at);
    const fingers = this._pointers.size;
    if (!this._host.dragged({ x: dx / fingers, y: dy / fingers }, at)) {
      return;
    }
    const spread = this._distance();
    const two = this._two();
    if (two !== null && spread > 0 && this._spread > 0) {
      const [a, b] = two;
      this._host.pinched(spread / this._spread, { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });
    }
    this._spread = spread;
    this._surface.element.style.cursor = 'grabbing';
    this._host.moved();
  }

  private _end(event: PointerEvent): void {
    this._pointers.delete(event.pointerId);
    this._spread = this._distance();
    this._surface.element.style.cursor = '';
  }

  private _up(event: PointerEvent): void {
    const wasDown = this._pointers.has(event.pointerId);
    this._end(event);
    if (wasDown && this._pointers.size === 0 && event.button === 0) {
      this._host.released(this._surface.at(event), event, this._isMoved);
    }
  }

  private _wheel(event: WheelEvent): void {
    const isZoom = event.ctrlKey || event.metaKey;
    if (!isZoom && !this._host.ownsWheel()) {
      this._host.refused();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const speed = event.ctrlKey && Math.abs(event.deltaY) < 50 ? PINCH_ZOOM : WHEEL_ZOOM;
    const factor = Math.exp(-event.deltaY * unit * speed);
    this._host.turned({ event, unit, factor, at: this._surface.at(event) });
  }
}

/** Whether a selection is to grow by what was clicked, instead of being replaced. */
export function extendsSelection(event: MouseEvent): boolean {
  return event.shiftKey || event.ctrlKey || event.metaKey;
}

/** Hands a plain key to `run`; the page does not see it when that returns true. */
export function takeKey(event: KeyboardEvent, run: (event: KeyboardEvent) => boolean): void {
  if (!event.ctrlKey && !event.metaKey && !event.altKey && run(event)) {
    event.preventDefault();
    event.stopPropagation();
  }
}
