/** Pointer, wheel, touch and keys on the timeline. */

import { Disposables } from '../../view/dom';
import type { Surface } from '../surface';
import { namesWidth, OVERVIEW_PX, TOP_PX } from './paint';
import type { TimeWindow } from './window';

export type Move = 'left' | 'right' | 'up' | 'down' | 'home' | 'end';

export interface ITimelineInputHost {
  readonly window: TimeWindow;
  /** True when plain wheel turns may zoom. */
  ownsWheel(): boolean;
  hint(text: string): void;
  /** The window or the scroll has changed. */
  moved(): void;
  scrollBy(px: number): void;
  hovered(x: number, y: number): void;
  left(): void;
  clicked(x: number, y: number, extend: boolean): void;
  opened(x: number, y: number): void;
  /** A span is dragged out; `isDone` when the pointer is let go. */
  boxed(from: number, to: number, isDone: boolean): void;
  measured(from: number, to: number): void;
  step(move: Move): void;
  run(command: TimelineCommand): boolean;
}

export type TimelineCommand =
  | 'choose'
  | 'clear'
  | 'fit'
  | 'zoom-in'
  | 'zoom-out'
  | 'zoom-focus'
  | 'measure'
  | 'search'
  | 'next-match'
  | 'previous-match'
  | 'keys';

const DRAG_PX = 4;
const ZOOM_STEP = 1.4;
/** Part of the window that a key pans by. */
const PAN_PART = 0.2;

const MOVES: Record<string, Move> = {
  ArrowLeft: 'left',
  ArrowRight: 'right',
  ArrowUp: 'up',
  ArrowDown: 'down',
  Home: 'home',
  End: 'end'
};

const COMMANDS: Record<string, TimelineCommand> = {
  Enter: 'choose',
  ' ': 'choose',
  Escape: 'clear',
  f: 'fit',
  '0': 'fit',
  '+': 'zoom-in',
  '=': 'zoom-in',
  w: 'zoom-in',
  '-': 'zoom-out',
  s: 'zoom-out',
  z: 'zoom-focus',
  m: 'measure',
  '/': 'search',
  n: 'next-match',
  N: 'previous-match',
  '?': 'keys'
};

type Drag = 'pan' | 'overview' | 'box' | 'measure';

export class TimelineInput {
  private readonly _disposables = new Disposables();
  private readonly _pointers = new Map<number, { x: number; y: number }>();
  private _drag: Drag | null = null;
  private _isMoved = false;
  private _from = 0;
  private _spread = 0;

  constructor(
    private readonly _surface: Surface,
    private readonly _host: ITimelineInputHost
  ) {
    const { element } = _surface;
    const d = this._disposables;
    d.listen(element, 'pointerdown', (event: PointerEvent) => this._down(event));
    d.listen(element, 'pointermove', (event: PointerEvent) => this._move(event));
    d.listen(element, 'pointerup', (event: PointerEvent) => this._up(event));
    d.listen(element, 'pointercancel', (event: PointerEvent) => this._cancel(event));
    d.listen(element, 'pointerleave', () => this._host.left());
    d.listen(element, 'dblclick', (event: MouseEvent) => {
      const { x, y } = this._surface.at(event);
      this._host.opened(x, y);
    });
    d.listen(element, 'wheel', (event: WheelEvent) => this._wheel(event), { passive: false });
    d.listen(element, 'keydown', (event: KeyboardEvent) => this._key(event));
  }

  dispose(): void {
    this._disposables.dispose();
  }

  /** Width of the part that shows time. */
  private get _room(): number {
    return Math.max(1, this._surface.width - namesWidth(this._surface.width));
  }

  private _time(x: number): number {
    const { window } = this._host;
    const part = (x - namesWidth(this._surface.width)) / this._room;
    return window.from + part * window.span;
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
    this._from = this._time(at.x);
    if (this._pointers.size > 1) {
      this._drag = 'pan';
    } else if (at.y < OVERVIEW_PX) {
      this._drag = 'overview';
      this._center(at.x);
    } else if (event.shiftKey) {
      this._drag = 'measure';
    } else if (at.y < TOP_PX || event.ctrlKey || event.metaKey) {
      this._drag = 'box';
    } else {
      this._drag = 'pan';
    }
  }

  private _distance(): number {
    const [a, b] = [...this._pointers.values()];
    return a === undefined || b === undefined ? 0 : Math.hypot(a.x - b.x, a.y - b.y);
  }

  /** Puts the middle of the window where the overview was pressed. */
  private _center(x: number): void {
    const { window } = this._host;
    const part = (x - namesWidth(this._surface.width)) / this._room;
    window.pan(part * window.length - (window.from + window.to) / 2);
    this._host.moved();
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
    const { window } = this._host;
    switch (this._drag) {
      case 'overview':
        this._center(at.x);
        break;
      case 'measure':
        this._host.measured(this._from, this._time(at.x));
        break;
      case 'box':
        this._host.boxed(this._from, this._time(at.x), false);
        break;
      default:
        window.pan((-dx / this._pointers.size / this._room) * window.span);
        this._host.scrollBy(-dy / this._pointers.size);
        this._pinch();
        this._surface.element.style.cursor = 'grabbing';
        this._host.moved();
    }
  }

  private _pinch(): void {
    const spread = this._distance();
    const [a, b] = [...this._pointers.values()];
    if (a !== undefined && b !== undefined && spread > 0 && this._spread > 0) {
      this._host.window.zoom(spread / this._spread, this._time((a.x + b.x) / 2));
    }
    this._spread = spread;
  }

  private _cancel(event: PointerEvent): void {
    this._pointers.delete(event.pointerId);
    this._spread = this._distance();
    this._surface.element.style.cursor = '';
    if (this._pointers.size === 0) {
      this._drag = null;
    }
  }

  private _up(event: PointerEvent): void {
    const at = this._surface.at(event);
    const drag = this._drag;
    const wasDown = this._pointers.has(event.pointerId);
    this._cancel(event);
    if (!wasDown || this._pointers.size > 0 || event.button !== 0) {
      return;
    }
    if (this._isMoved) {
      if (drag === 'box') {
        this._host.boxed(this._from, this._time(at.x), true);
      }
    } else if (at.y >= TOP_PX) {
      this._host.clicked(at.x, at.y, event.shiftKey || event.ctrlKey || event.metaKey);
    }
  }

  private _wheel(event: WheelEvent): void {
    const isZoom = event.ctrlKey || event.metaKey;
    if (!isZoom && !this._host.ownsWheel()) {
      this._host.hint('Click the timeline, or hold Ctrl, to zoom with the wheel');
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const { window } = this._host;
    if (event.altKey) {
      this._host.scrollBy(event.deltaY * unit);
    } else if (!isZoom && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) {
      window.pan((((event.deltaX || event.deltaY) * unit) / this._room) * window.span);
    } else {
      // Pinching a touchpad arrives as small turns with Ctrl.
      const speed = event.ctrlKey && Math.abs(event.deltaY) < 50 ? 0.01 : 0.0016;
      const { x } = this._surface.at(event);
      window.zoom(Math.exp(-event.deltaY * unit * speed), this._time(x));
    }
    this._host.moved();
  }

  private _key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    if (this._run(event.key, event.shiftKey)) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  private _run(key: string, isShift: boolean): boolean {
    const { window } = this._host;
    const pan = (part: number): boolean => {
      window.pan(part * window.span);
      this._host.moved();
      return true;
    };
    const lower = key.toLowerCase();
    if (lower === 'a' || (isShift && key === 'ArrowLeft')) {
      return pan(-PAN_PART);
    }
    if (lower === 'd' || (isShift && key === 'ArrowRight')) {
      return pan(PAN_PART);
    }
    if (isShift && (key === 'ArrowUp' || key === 'ArrowDown')) {
      this._host.scrollBy(key === 'ArrowUp' ? -40 : 40);
      this._host.moved();
      return true;
    }
    const move = MOVES[key];
    if (move !== undefined) {
      this._host.step(move);
      return true;
    }
    const command = COMMANDS[key] ?? COMMANDS[lower];
    return command !== undefined && this._host.run(command);
  }
}

/** Scales a window by one step of the keys and buttons, about its middle if nothing else is said. */
export function zoomStep(
  window: TimeWindow,
  direction: 1 | -1,
  about = (window.from + window.to) / 2
): void {
  window.zoom(direction > 0 ? ZOOM_STEP : 1 / ZOOM_STEP, about);
}
