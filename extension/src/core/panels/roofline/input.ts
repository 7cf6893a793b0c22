/** Pointer, wheel, touch and keys on the roofline. */

import { Disposables } from '../../view/dom';
import type { Surface } from '../surface';
import type { ChartWindow, IBox } from './chart';

export interface IRooflineInputHost {
  readonly window: ChartWindow;
  chart(): IBox;
  /** True when plain wheel turns may zoom. */
  ownsWheel(): boolean;
  hint(text: string): void;
  moved(): void;
  /** Zoom by a key: about what the keyboard is at. */
  zoomed(factor: number): void;
  /** The pointer is at a place; negative when it has left. */
  hovered(x: number, y: number): void;
  clicked(x: number, y: number, extend: boolean): void;
  step(step: -1 | 1 | 'first' | 'last'): void;
  choose(): void;
  /** False when there is nothing to clear. */
  clear(): boolean;
  fit(): void;
  keys(): void;
}

const DRAG_PX = 4;
export const ZOOM_STEP = 1.3;
/** Part of the window that a key pans by. */
const PAN_PART = 0.15;

const PANS: Record<string, readonly [number, number]> = {
  ArrowLeft: [-PAN_PART, 0],
  ArrowRight: [PAN_PART, 0],
  ArrowUp: [0, PAN_PART],
  ArrowDown: [0, -PAN_PART]
};

const STEPS: Record<string, -1 | 1 | 'first' | 'last'> = {
  ArrowLeft: -1,
  ArrowUp: -1,
  ArrowRight: 1,
  ArrowDown: 1,
  Home: 'first',
  End: 'last'
};

export class RooflineInput {
  private readonly _disposables = new Disposables();
  private readonly _pointers = new Map<number, { x: number; y: number }>();
  private _isMoved = false;
  private _spread = 0;

  constructor(
    private readonly _surface: Surface,
    private readonly _host: IRooflineInputHost
  ) {
    const { element } = _surface;
    const d = this._disposables;
    d.listen(element, 'pointerdown', (event: PointerEvent) => this._down(event));
    d.listen(element, 'pointermove', (event: PointerEvent) => this._move(event));
    d.listen(element, 'pointerup', (event: PointerEvent) => this._up(event));
    d.listen(element, 'pointercancel', (event: PointerEvent) => this._end(event));
    d.listen(element, 'pointerleave', () => this._host.hovered(-1, -1));
    d.listen(element, 'dblclick', (event: MouseEvent) => {
      const { x, y } = this._surface.at(event);
      this._zoomAt(ZOOM_STEP * ZOOM_STEP, x, y);
    });
    d.listen(element, 'wheel', (event: WheelEvent) => this._wheel(event), { passive: false });
    d.listen(element, 'keydown', (event: KeyboardEvent) => this._key(event));
  }

  dispose(): void {
    this._disposables.dispose();
  }

  private _zoomAt(factor: number, x: number, y: number): void {
    const chart = this._host.chart();
    const part = (at: number): number => Math.min(1, Math.max(0, at));
    this._host.window.zoom(
      factor,
      part((x - chart.x) / chart.w),
      1 - part((y - chart.y) / chart.h)
    );
    this._host.moved();
  }

  private _distance(): number {
    const [a, b] = [...this._pointers.values()];
    return a === undefined || b === undefined ? 0 : Math.hypot(a.x - b.x, a.y - b.y);
  }

  private _down(event: PointerEvent): void {
    if (event.button === 0 || event.button === 1) {
      this._surface.element.setPointerCapture(event.pointerId);
      this._pointers.set(event.pointerId, this._surface.at(event));
      this._isMoved = this._pointers.size > 1;
      this._spread = this._distance();
    }
  }

  private _move(event: PointerEvent): void {
    const at = this._surface.at(event);
    const last = this._pointers.get(event.pointerId);
    if (last === undefined) {
      this._host.hovered(at.x, at.y);
      return;
    }
    const dx = at.x - last.x;
    const dy = at.y - last.y;
    if (!this._isMoved && Math.hypot(dx, dy) < DRAG_PX) {
      return;
    }
    this._isMoved = true;
    this._pointers.set(event.pointerId, at);
    const chart = this._host.chart();
    const fingers = this._pointers.size;
    this._host.window.pan(-dx / chart.w / fingers, dy / chart.h / fingers);
    const spread = this._distance();
    const [a, b] = [...this._pointers.values()];
    if (a !== undefined && b !== undefined && spread > 0 && this._spread > 0) {
      this._zoomAt(spread / this._spread, (a.x + b.x) / 2, (a.y + b.y) / 2);
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
    if (wasDown && !this._isMoved && event.button === 0) {
      const { x, y } = this._surface.at(event);
      this._host.clicked(x, y, event.shiftKey || event.ctrlKey || event.metaKey);
    }
  }

  private _wheel(event: WheelEvent): void {
    const isZoom = event.ctrlKey || event.metaKey;
    if (!isZoom && !this._host.ownsWheel()) {
      this._host.hint('Click the roofline, or hold Ctrl, to zoom with the wheel');
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    // Pinching a touchpad arrives as small turns with Ctrl.
    const speed = event.ctrlKey && Math.abs(event.deltaY) < 50 ? 0.01 : 0.0016;
    const { x, y } = this._surface.at(event);
    this._zoomAt(Math.exp(-event.deltaY * unit * speed), x, y);
  }

  private _key(event: KeyboardEvent): void {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && this._run(event)) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  private _run({ key, shiftKey }: KeyboardEvent): boolean {
    const { window } = this._host;
    const pan = shiftKey ? PANS[key] : undefined;
    if (pan !== undefined) {
      window.pan(...pan);
      this._host.moved();
      return true;
    }
    const step = STEPS[key];
    if (step !== undefined) {
      this._host.step(step);
      return true;
    }
    switch (key) {
      case '+':
      case '=':
      case '-':
        this._host.zoomed(key === '-' ? 1 / ZOOM_STEP : ZOOM_STEP);
        return true;
      case 'f':
      case 'F':
        this._host.fit();
        return true;
      case '?':
        this._host.keys();
        return true;
      case 'Enter':
      case ' ':
        this._host.choose();
        return true;
      case 'Escape':
        return this._host.clear();
      default:
        return false;
    }
  }
}
