/** The canvas of the memory plan, with pointer and keyboard. */

import { formatBytes, plural } from '../../model/format';
import { Disposables } from '../../view/dom';
import type { IPanelView } from '../../view/panel';
import { Gestures, takeKey } from '../parts/gestures';
import { ChartStage } from '../parts/stage';
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
import type { IMemorySlot } from '../../../proto/checks';
import type { IMemoryPlan } from './plan';

const ZOOM = 0.7;

const WAYS: Record<string, 'left' | 'right' | 'up' | 'down'> = {
  ArrowLeft: 'left',
  ArrowRight: 'right',
  ArrowUp: 'up',
  ArrowDown: 'down'
};

export class MemoryChart {
  readonly element: HTMLElement;
  private readonly _stage: ChartStage;
  private readonly _disposables = new Disposables();
  private _plan: IMemoryPlan | null = null;
  private _window: IWindow = { x0: 0, x1: 1, y0: 0, y1: 1 };
  private _frame: IFrame = frameOf(1, 1);
  private _bars: IBar[] = [];
  private _current: IMemorySlot | null = null;

  constructor(
    private readonly _view: IPanelView,
    private readonly _isSelected: (slot: IMemorySlot) => boolean,
    private readonly _choose: (slot: IMemorySlot) => void
  ) {
    this._stage = new ChartStage(_view, 'jp-MaxLab-memChart', [
      (ctx, width, height) => this._paint(ctx, width, height)
    ]);
    const { element } = this._stage;
    this.element = element;
    const d = this._disposables;
    const gestures = new Gestures(this._stage.surface, {
      // A wheel over a page scrolls the page, until somebody has stepped in here.
      ownsWheel: () => element.contains(document.activeElement),
      refused: () => undefined,
      turned: ({ factor, at, event }) => this._zoom(1 / factor, at.x, at.y, event.shiftKey),
      hovered: at => {
        this._hover(at === null ? null : (barAt(this._bars, at.x, at.y)?.slot ?? null), at?.x, at?.y);
      },
      dragged: ({ x, y }) => {
        this._pan(x, y);
        return true;
      },
      pinched: (factor, about) => this._zoom(1 / factor, about.x, about.y, false),
      moved: () => this.redraw(),
      released: ({ x, y }, _event, isMoved) => {
        const bar = isMoved ? null : barAt(this._bars, x, y);
        if (bar !== null) {
          this._choose(bar.slot);
        }
      },
      doubled: () => this.fit()
    });
    d.add(() => gestures.dispose());
    d.listen(element, 'keydown', event => takeKey(event, ({ key }) => this._key(key)));
    d.listen(element, 'blur', () => this._hover(null));
  }

  setPlan(plan: IMemoryPlan): void {
    const isAlike = this._plan?.steps.length === plan.steps.length && this._plan.arena === plan.arena;
    this._plan = plan;
    this._current = null;
    if (!isAlike) {
      this._window = wholeWindow(plan);
    }
    this._stage.describe(
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
  reveal(slot: IMemorySlot): void {
    if (this._plan !== null) {
      this._window = showing(this._window, this._plan, slot);
      this.redraw();
    }
  }

  redraw(): void {
    this._stage.resized();
  }

  dispose(): void {
    this._disposables.dispose();
    this._stage.dispose();
  }

  private _paint(ctx: CanvasRenderingContext2D, width: number, height: number): void {
    const plan = this._plan;
    if (plan === null) {
      return;
    }
    this._frame = frameOf(width, height);
    this._bars = barsOf(plan, this._frame.area, this._window);
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
    paintPlan(ctx, scene, { x: 0, y: 0, w: width, h: height });
  }

  /** What there is to say about a slot, a line each. */
  private _lines(slot: IMemorySlot): string[] {
    const { model } = this._view;
    const steps = this._plan?.steps ?? [];
    const node = slot.node === null ? undefined : model.node(slot.node);
    const type = model.value(slot.value)?.value.type ?? '';
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

  private _hover(slot: IMemorySlot | null, x = 0, y = 0): void {
    this._stage.tip(slot === null ? null : this._lines(slot), x, y);
    if (this._current !== slot) {
      this._current = slot;
      this.redraw();
    }
  }

  /** Moves the window by so many pixels of a drag. */
  private _pan(dx: number, dy: number): void {
    if (this._plan !== null) {
      const { area } = this._frame;
      const { x0, x1, y0, y1 } = this._window;
      const steps = (-dx / area.w) * (x1 - x0);
      const bytes = (dy / area.h) * (y1 - y0);
      this._window = panned(this._window, this._plan, steps, bytes);
    }
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

  private _key(key: string): boolean {
    const plan = this._plan;
    if (plan === null) {
      return false;
    }
    const way = WAYS[key];
    const { area } = this._frame;
    const [x, y] = [area.x + area.w / 2, area.y + area.h / 2];
    if (way !== undefined) {
      this._goTo(neighbour(plan, this._current, way));
    } else if (key === 'Home' || key === 'End') {
      this._goTo(plan.arenaSlots[key === 'Home' ? 0 : plan.arenaSlots.length - 1] ?? null);
    } else if (key === 'Enter' || key === ' ') {
      if (this._current !== null) {
        this._choose(this._current);
      }
    } else if (key === '+' || key === '=') {
      this._zoom(ZOOM, x, y, false);
    } else if (key === '-') {
      this._zoom(1 / ZOOM, x, y, false);
    } else if (key === '0') {
      this.fit();
    } else {
      return false;
    }
    return true;
  }

  private _goTo(slot: IMemorySlot | null): void {
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
