/** The canvas of the memory plan, with pointer and keyboard. */

import { formatBytes, plural } from '../../model/format';
import { Disposables, el } from '../../view/dom';
import { Tooltip } from '../../view/hud';
import type { IPanelView } from '../../view/panel';
import {
  barAt,
  barsOf,
  bytesAt,
  frameOf,
  neighbour,
  panned,
  showing,
  stepAt,
  wholeWindow,
  zoomed,
  type IBar,
  type IFrame,
  type IWindow
} from './geometry';
import { paintPlan } from './paint';
import type { IMemoryPlan, ISlot } from './plan';

const ZOOM = 0.7;
/** A pointer that moved less than this has clicked. */
const CLICK_PX = 4;

const WAYS: Record<string, 'left' | 'right' | 'up' | 'down'> = {
  ArrowLeft: 'left',
  ArrowRight: 'right',
  ArrowUp: 'up',
  ArrowDown: 'down'
};

export class MemoryChart {
  readonly element = el('div', 'jp-MaxLab-memChart');
  private readonly _canvas = el('canvas', 'jp-MaxLab-canvas');
  private readonly _tooltip = new Tooltip();
  private readonly _disposables = new Disposables();
  private _plan: IMemoryPlan | null = null;
  private _window: IWindow = { x0: 0, x1: 1, y0: 0, y1: 1 };
  private _frame: IFrame = frameOf(1, 1);
  private _bars: IBar[] = [];
  private _current: ISlot | null = null;
  private _width = 0;
  private _height = 0;
  private _request = 0;
  private _drag: { x: number; y: number; from: IWindow; isMoved: boolean } | null = null;

  constructor(
    private readonly _view: IPanelView,
    private readonly _isSelected: (slot: ISlot) => boolean,
    private readonly _choose: (slot: ISlot) => void
  ) {
    const { element } = this;
    element.tabIndex = 0;
    element.setAttribute('role', 'application');
    this._canvas.setAttribute('aria-hidden', 'true');
    element.append(this._canvas, this._tooltip.element);
    const d = this._disposables;
    d.listen(element, 'pointerdown', (event: PointerEvent) => this._down(event));
    d.listen(element, 'pointermove', (event: PointerEvent) => this._move(event));
    d.listen(element, 'pointerup', (event: PointerEvent) => this._up(event));
    d.listen(element, 'pointercancel', () => (this._drag = null));
    d.listen(element, 'pointerleave', () => this._hover(null, 0, 0));
    d.listen(element, 'dblclick', () => this.fit());
    d.listen(element, 'wheel', (event: WheelEvent) => this._wheel(event), { passive: false });
    d.listen(element, 'keydown', (event: KeyboardEvent) => this._key(event));
    d.listen(element, 'blur', () => this._hover(null, 0, 0));
  }

  setPlan(plan: IMemoryPlan): void {
    const isAlike = this._plan?.steps.length === plan.steps.length && this._plan.arena === plan.arena;
    this._plan = plan;
    this._current = null;
    if (!isAlike) {
      this._window = wholeWindow(plan);
    }
    this.element.setAttribute(
      'aria-label',
      `The arena of ${formatBytes(plan.arena)} over ${plural(plan.steps.length, 'step')}, ` +
        `${plural(plan.arenaSlots.length, 'buffer')}. Arrow keys go from buffer to buffer, ` +
        'Enter selects who computes it, plus and minus zoom, 0 shows all.'
    );
    this.redraw();
  }

  /** Shows all of the plan. */
  fit(): void {
    if (this._plan !== null) {
      this._window = wholeWindow(this._plan);
      this.redraw();
    }
  }

  /** Moves to a slot when it is out of sight. */
  reveal(slot: ISlot): void {
    if (this._plan !== null) {
      this._window = showing(this._window, this._plan, slot);
      this.redraw();
    }
  }

  redraw(): void {
    if (this._request === 0 && typeof requestAnimationFrame === 'function') {
      this._request = requestAnimationFrame(() => {
        this._request = 0;
        this._draw();
      });
    }
  }

  dispose(): void {
    if (this._request !== 0) {
      cancelAnimationFrame(this._request);
    }
    this._disposables.dispose();
    this._canvas.width = 0;
    this._canvas.height = 0;
  }

  private _draw(): void {
    const { element, _canvas: canvas, _plan: plan } = this;
    const [width, height] = [element.clientWidth, element.clientHeight];
    if (plan === null || width === 0 || height === 0) {
      return;
    }
    const dpr = Math.min(3, globalThis.devicePixelRatio || 1);
    if (canvas.width !== Math.round(width * dpr) || canvas.height !== Math.round(height * dpr)) {
      canvas.width = Math.round(width * dpr);
      canvas.height = Math.round(height * dpr);
    }
    this._width = width;
    this._height = height;
    this._frame = frameOf(width, height);
    this._bars = barsOf(plan, this._frame.area, this._window);
    const ctx = canvas.getContext('2d', { alpha: false });
    if (ctx !== null) {
      const { model, theme } = this._view;
      const scene = {
        plan,
        model,
        theme,
        frame: this._frame,
        view: this._window,
        bars: this._bars,
        isSelected: this._isSelected,
        current: this._current
      };
      paintPlan(ctx, scene, dpr, { x: 0, y: 0, w: width, h: height });
    }
  }

  /** What there is to say about a slot, a line each. */
  private _lines(slot: ISlot): string[] {
    const { model } = this._view;
    const steps = this._plan?.steps ?? [];
    const node = slot.node === null ? undefined : model.node(slot.node);
    const type = slot.value === null ? '' : (model.value(slot.value)?.value.type ?? '');
    const maker = node === undefined ? '' : `${node.node.op} ${node.node.id}`;
    const { first, last } = slot;
    const span =
      first === last ? `only in ${steps[first] ?? first}` : `${steps[first] ?? first} to ${steps[last] ?? last}`;
    return [
      `${slot.name} · ${formatBytes(slot.bytes)}`,
      [maker === '' || maker === slot.name ? '' : `made by ${maker}`, type].filter(Boolean).join(' · '),
      `${span} · ${plural(last - first + 1, 'step')} · at ${formatBytes(slot.offset ?? 0)}`,
      slot.kind === 'scratch' ? 'scratch of one kernel' : '',
      slot.holder === '' ? '' : `kept for ${slot.holder}`
    ];
  }

  private _hover(slot: ISlot | null, x: number, y: number): void {
    if (slot === null) {
      this._tooltip.hide();
    } else {
      this._tooltip.show(this._lines(slot), x, y, this._width, this._height);
    }
    if (this._current !== slot) {
      this._current = slot;
      this.redraw();
    }
  }

  private _place(event: PointerEvent | WheelEvent): { x: number; y: number } {
    const box = this.element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private _down(event: PointerEvent): void {
    if (event.button === 0) {
      const { x, y } = this._place(event);
      this._drag = { x, y, from: this._window, isMoved: false };
      this.element.setPointerCapture?.(event.pointerId);
    }
  }

  private _move(event: PointerEvent): void {
    const { x, y } = this._place(event);
    const drag = this._drag;
    const plan = this._plan;
    if (drag === null || plan === null) {
      this._hover(barAt(this._bars, x, y)?.slot ?? null, x, y);
      return;
    }
    drag.isMoved ||= Math.hypot(x - drag.x, y - drag.y) > CLICK_PX;
    if (drag.isMoved) {
      const { area } = this._frame;
      const { x0, x1, y0, y1 } = drag.from;
      const steps = ((drag.x - x) / area.w) * (x1 - x0);
      const bytes = ((y - drag.y) / area.h) * (y1 - y0);
      this._window = panned(drag.from, plan, steps, bytes);
      this.redraw();
    }
  }

  private _up(event: PointerEvent): void {
    const drag = this._drag;
    this._drag = null;
    const { x, y } = this._place(event);
    const bar = barAt(this._bars, x, y);
    if (drag !== null && !drag.isMoved && bar !== null) {
      this._choose(bar.slot);
    }
  }

  private _wheel(event: WheelEvent): void {
    // A wheel over a page scrolls the page, until somebody has stepped in here.
    const isOurs = event.ctrlKey || this.element.contains(document.activeElement);
    if (!isOurs || this._plan === null) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const { x, y } = this._place(event);
    this._zoom(Math.exp(event.deltaY * 0.0015), x, y, event.shiftKey);
  }

  private _zoom(factor: number, x: number, y: number, isVertical: boolean): void {
    const plan = this._plan;
    const { area } = this._frame;
    if (plan !== null) {
      const at = { step: stepAt(x, area, this._window), bytes: bytesAt(y, area, this._window) };
      const both = { x: isVertical ? 1 : factor, y: isVertical ? factor : 1 };
      this._window = zoomed(this._window, plan, at, both);
      this.redraw();
    }
  }

  private _key(event: KeyboardEvent): void {
    const plan = this._plan;
    if (plan === null || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const way = WAYS[event.key];
    const { area } = this._frame;
    const [x, y] = [area.x + area.w / 2, area.y + area.h / 2];
    if (way !== undefined) {
      this._goTo(neighbour(plan, this._current, way));
    } else if (event.key === 'Home' || event.key === 'End') {
      this._goTo(plan.arenaSlots[event.key === 'Home' ? 0 : plan.arenaSlots.length - 1] ?? null);
    } else if (event.key === 'Enter' || event.key === ' ') {
      if (this._current !== null) {
        this._choose(this._current);
      }
    } else if (event.key === '+' || event.key === '=') {
      this._zoom(ZOOM, x, y, false);
    } else if (event.key === '-') {
      this._zoom(1 / ZOOM, x, y, false);
    } else if (event.key === '0') {
      this.fit();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  private _goTo(slot: ISlot | null): void {
    const plan = this._plan;
    if (slot === null || plan === null) {
      this._view.say('no buffer there');
      return;
    }
    this._window = showing(this._window, plan, slot);
    this._bars = barsOf(plan, this._frame.area, this._window);
    const bar = this._bars.find(other => other.slot === slot);
    this._hover(slot, (bar?.x ?? 0) + Math.min(20, (bar?.w ?? 0) / 2), bar?.y ?? 0);
    this.redraw();
    this._view.say(this._lines(slot).filter(Boolean).join(', '));
  }
}
