/** Pointer, wheel and touch on the drawing; keys on the whole view. */

import type { IEdge, IItem } from '../model/scene';
import { Disposables } from './dom';
import { isTyping, keyOf } from './keys';
import type { Wheel } from './preferences';
import type { Stage } from './stage';

/** What a press has taken hold of: dragged, it follows the pointer instead of moving the camera. */
export interface IGrip {
  /** Stage coordinates, from the first move that makes the press a drag. */
  moved(x: number, y: number): void;
  dropped(x: number, y: number): void;
  /** Escape, a second finger, or the browser took the pointer away: everything stays as it was. */
  cancelled(): void;
}

/** How something is pressed. */
export interface IPress {
  /** With Shift. */
  isExtending: boolean;
  /** By a finger, which aims less well than a pointer. */
  isTouch: boolean;
}

export interface IInputHost {
  /** False where the host of the view runs its commands by keys of its own. */
  readonly hasKeys: boolean;
  /** Whether the keyboard is in the graph, and not on a button or in a panel. */
  isInGraph(target: Element): boolean;
  /** What the wheel does. */
  wheel(): Wheel;
  /** True when plain wheel turns may zoom: the page belongs to the view, or the view has focus. */
  ownsWheel(): boolean;
  run(command: string): boolean;
  hovered(item: IItem | null, edge: IEdge | null, x: number, y: number): void;
  /** What a press of the main button at a point would drag; null moves the camera. */
  grip(x: number, y: number, press: IPress): IGrip | null;
  clicked(item: IItem | null, edge: IEdge | null, extend: boolean): void;
  toggled(item: IItem): void;
  /** A double click where there is nothing. */
  doubled(x: number, y: number): void;
  moved(): void;
  hint(text: string): void;
}

/** Pointer travel that makes a press a drag; a finger rolls a little when it taps. */
const DRAG_PX = 4;
const DRAG_TOUCH_PX = 9;

/** From this far away a finger hits an edge. */
const EDGE_TOUCH_PX = 14;

const isTouch = (event: PointerEvent): boolean => event.pointerType === 'touch';

/** Clicks closer than this can be a double click. */
export const DOUBLE_MS = 350;

export class Input {
  private readonly _disposables = new Disposables();
  private readonly _pointers = new Map<number, { x: number; y: number }>();
  private _dragged = false;
  private _grip: IGrip | null = null;
  private _pinch = 0;
  private _lastClicked: IItem | null = null;
  private _clickedAt = 0;

  constructor(
    root: HTMLElement,
    private readonly _stage: Stage,
    private readonly _host: IInputHost
  ) {
    const { element } = _stage;
    const d = this._disposables;
    d.listen(element, 'pointerdown', (event: PointerEvent) => this._down(event));
    // The press would move the focus to the page, away from the tree that just took it.
    d.listen(element, 'mousedown', (event: MouseEvent) => {
      if (this._isOnCanvas(event)) {
        event.preventDefault();
      }
    });
    d.listen(element, 'pointermove', (event: PointerEvent) => this._move(event));
    d.listen(element, 'pointerup', (event: PointerEvent) => this._up(event));
    d.listen(element, 'pointercancel', (event: PointerEvent) => {
      if (this._pointers.has(event.pointerId)) {
        this.cancelDrag();
      }
      this._end(event);
    });
    d.listen(element, 'pointerleave', () => this._host.hovered(null, null, 0, 0));
    d.listen(element, 'dblclick', (event: MouseEvent) => this._double(event));
    d.listen(element, 'wheel', (event: WheelEvent) => this._wheel(event), { passive: false });
    d.listen(root, 'keydown', (event: KeyboardEvent) => this._key(event));
  }

  /** Ends a drag where nothing happens; false when nothing is dragged. */
  cancelDrag(): boolean {
    const grip = this._grip;
    this._grip = null;
    if (grip === null || !this._dragged) {
      return false;
    }
    this._pointers.clear();
    this._stage.element.style.cursor = '';
    grip.cancelled();
    return true;
  }

  dispose(): void {
    this._disposables.dispose();
  }

  private _at(event: MouseEvent): { x: number; y: number } {
    const box = this._stage.element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private _isOnCanvas(event: Event): boolean {
    // While a pointer is captured, its events go to the stage itself.
    return event.target instanceof HTMLCanvasElement || event.target === this._stage.element;
  }

  private _down(event: PointerEvent): void {
    if (!this._isOnCanvas(event) || (event.button !== 0 && event.button !== 1)) {
      return;
    }
    this._stage.element.setPointerCapture(event.pointerId);
    const at = this._at(event);
    if (this._pointers.size > 0 && this.cancelDrag()) {
      return;
    }
    this._pointers.set(event.pointerId, at);
    const isFirst = this._pointers.size === 1;
    this._dragged = !isFirst;
    this._grip = isFirst && event.button === 0 ? this._host.grip(at.x, at.y, { isExtending: event.shiftKey, isTouch: isTouch(event) }) : null;
    this._pinch = this._spread();
    this._stage.stopFlight();
    this._host.run('focus-graph');
  }

  private _spread(): number {
    const [a, b] = [...this._pointers.values()];
    return a === undefined || b === undefined ? 0 : Math.hypot(a.x - b.x, a.y - b.y);
  }

  private _move(event: PointerEvent): void {
    const at = this._at(event);
    const last = this._pointers.get(event.pointerId);
    if (last === undefined) {
      if (!this._isOnCanvas(event)) {
        this._host.hovered(null, null, 0, 0);
        return;
      }
      const hit = this._stage.hit(at.x, at.y);
      const item = hit?.isSolid === true ? hit.item : null;
      const edge = item === null ? this._stage.hitEdge(at.x, at.y) : null;
      this._stage.element.style.cursor = item !== null || edge !== null ? 'pointer' : '';
      this._host.hovered(item, edge, at.x, at.y);
      return;
    }
    const dx = at.x - last.x;
    const dy = at.y - last.y;
    if (!this._dragged && Math.hypot(dx, dy) < (isTouch(event) ? DRAG_TOUCH_PX : DRAG_PX)) {
      return;
    }
    this._dragged = true;
    this._pointers.set(event.pointerId, at);
    if (this._grip !== null) {
      this._stage.element.style.cursor = 'grabbing';
      this._host.hovered(null, null, 0, 0);
      this._grip.moved(at.x, at.y);
      return;
    }
    this._stage.history.leave(false);
    const { camera } = this._stage;
    const fingers = this._pointers.size;
    camera.tx += dx / fingers;
    camera.ty += dy / fingers;
    if (fingers === 2) {
      const spread = this._spread();
      if (this._pinch > 0 && spread > 0) {
        const [a, b] = [...this._pointers.values()];
        camera.zoomAt(
          spread / this._pinch,
          ((a?.x ?? 0) + (b?.x ?? 0)) / 2,
          ((a?.y ?? 0) + (b?.y ?? 0)) / 2
        );
      }
      this._pinch = spread;
    }
    this._stage.element.style.cursor = 'grabbing';
    this._host.hovered(null, null, 0, 0);
    this._host.moved();
  }

  private _end(event: PointerEvent): void {
    this._pointers.delete(event.pointerId);
    this._pinch = this._spread();
    this._stage.element.style.cursor = '';
  }

  private _up(event: PointerEvent): void {
    const wasDown = this._pointers.has(event.pointerId);
    const wasDragged = this._dragged;
    const grip = wasDown && this._pointers.size === 1 ? this._grip : null;
    this._end(event);
    if (grip !== null && wasDragged) {
      this._grip = null;
      const { x, y } = this._at(event);
      grip.dropped(x, y);
      return;
    }
    if (!wasDown || wasDragged || this._pointers.size > 0 || event.button !== 0) {
      return;
    }
    const at = this._at(event);
    const hit = this._stage.hit(at.x, at.y);
    if (hit?.onChevron === true) {
      this._lastClicked = null;
      this._host.toggled(hit.item);
      return;
    }
    const item = hit?.isSolid === true ? hit.item : null;
    const now = performance.now();
    if (now - this._clickedAt > DOUBLE_MS || item !== null) {
      this._lastClicked = item;
    }
    this._clickedAt = now;
    const reach = isTouch(event) ? EDGE_TOUCH_PX : undefined;
    const edge = item === null ? this._stage.hitEdge(at.x, at.y, reach) : null;
    this._host.clicked(item, edge, event.shiftKey || event.ctrlKey || event.metaKey);
  }

  private _double(event: MouseEvent): void {
    if (!this._isOnCanvas(event)) {
      return;
    }
    // The item of the first click: what is under the pointer may have moved since.
    const item = this._lastClicked;
    if (item !== null && item.box !== null) {
      this._lastClicked = null;
      this._host.toggled(item);
    } else if (item === null) {
      const { x, y } = this._at(event);
      if (this._stage.hit(x, y)?.isSolid !== true && this._stage.hitEdge(x, y) === null) {
        this._host.doubled(x, y);
      }
    }
    event.preventDefault();
  }

  private _wheel(event: WheelEvent): void {
    if (!this._isOnCanvas(event)) {
      return;
    }
    const isZoom = event.ctrlKey || event.metaKey;
    const wheel = this._host.wheel();
    if (!isZoom && wheel === 'ctrl') {
      return;
    }
    if (!isZoom && !this._host.ownsWheel()) {
      this._host.hint(
        wheel === 'zoom'
          ? 'Click the graph, or hold Ctrl, to zoom with the wheel'
          : 'Click the graph to scroll it with the wheel, or hold Ctrl to zoom'
      );
      return;
    }
    event.preventDefault();
    const { camera } = this._stage;
    const at = this._at(event);
    this._stage.history.leave(false);
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    this._stage.stopFlight();
    if (!isZoom && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) {
      camera.tx -= (event.deltaX || event.deltaY) * unit;
    } else if (!isZoom && wheel === 'scroll') {
      camera.ty -= event.deltaY * unit;
    } else {
      const speed = event.ctrlKey && Math.abs(event.deltaY) < 50 ? 0.01 : 0.0016;
      camera.zoomAt(Math.exp(-event.deltaY * unit * speed), at.x, at.y);
    }
    this._host.moved();
  }

  private _key(event: KeyboardEvent): void {
    const { target } = event;
    if (isTyping(event)) {
      // Nothing that is typed here is a shortcut, of the view or of the page.
      event.stopPropagation();
      return;
    }
    if (!this._host.hasKeys || !(target instanceof Element)) {
      return;
    }
    if (event.key === 'Escape' && this.cancelDrag()) {
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    const key = keyOf(event);
    if (key === undefined || (key.isPlace && !this._host.isInGraph(target))) {
      return;
    }
    this._host.run(key.command);
    event.preventDefault();
    event.stopPropagation();
  }
}
