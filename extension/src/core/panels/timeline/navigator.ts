/**
 * Where the timeline is looked at: its window, its scroll, what the keyboard and the pointer are at, and
 * a span that is measured. It does what keys and pointer ask for.
 */

import type { IPlace } from '../parts/gestures';
import type { ChartStage } from '../parts/stage';
import { zoomStep, type ITimelineInputHost, type Move, type TimelineCommand } from './input';
import type { Lane } from './lanes';
import type { TimelineModel } from './model';
import { namesWidth, TOP_PX, type IOverlay } from './paint';
import { hitRows, LANE_PX, type IHit } from './rows';
import { TimeWindow, type ISpan } from './window';
import { describeSlice, hitLines, measuredText } from './words';
import { num } from '../../num';

/** The layer over the slices: hovering and selecting repaint only this one. */
export const OVERLAY = 1;

export interface INavigatorHost {
  /** Selects the operations of a slice's kernel in the graph. */
  choose(slice: number, extend: boolean): void;
  /** Goes to the next or previous slice of a search; false without one. */
  stepMatch(direction: 1 | -1): boolean;
  focusSearch(): void;
  toggleKeys(): void;
  /** Shows a sentence for a while. */
  hint(text: string): void;
  hintWheel(): void;
  /** Tells a screen reader. */
  say(text: string): void;
}

export class TimelineNavigator implements ITimelineInputHost {
  readonly window = new TimeWindow(0);
  readonly over: IOverlay = {
    selected: null,
    focus: null,
    hover: null,
    measured: null,
    box: null,
    pointer: null
  };
  scroll = 0;
  private _data: TimelineModel | null = null;

  constructor(
    private readonly _stage: ChartStage,
    private readonly _host: INavigatorHost
  ) {}

  /** Looks at all of another timeline; null is none. */
  setData(data: TimelineModel | null): void {
    this._data = data;
    Object.assign(this.over, {
      selected: null,
      focus: null,
      hover: null,
      measured: null,
      box: null,
      pointer: null
    });
    this._stage.tip(null);
    this.window.length = data?.timeline.length ?? 0;
    this.window.fit();
    this.scroll = 0;
  }

  ownsWheel(): boolean {
    return this._stage.ownsWheel;
  }

  refused(): void {
    this._host.hintWheel();
  }

  // --- moving -----------------------------------------------------------------------------------------

  moved(): void {
    this._stage.tip(null);
    this.over.hover = null;
    this._stage.surface.redraw();
  }

  scrollBy(px: number): void {
    this._scrollTo(this.scroll + px);
  }

  private _scrollTo(px: number): void {
    const room = this._stage.surface.height - TOP_PX;
    const most = Math.max(0, (this._data?.rows.height ?? 0) - room);
    this.scroll = Math.min(most, Math.max(0, px));
    this._stage.surface.redraw();
  }

  /** Scrolls and moves the window so that a slice is seen. */
  private _reveal(slice: number): void {
    const data = this._data;
    const place = data?.locate(slice) ?? null;
    if (data === null || place === null) {
      return;
    }
    this.window.reveal(data.start(slice), data.end(slice));
    const { y } = place.row;
    const room = this._stage.surface.height - TOP_PX;
    if (y < this.scroll || y + LANE_PX > this.scroll + room) {
      this._scrollTo(y - room / 2);
    }
    this.moved();
  }

  /** Shows the first slice of a selection that was made elsewhere, unless one is seen already. */
  bringIn(lanes: ReadonlyMap<Lane, Lane> | null): void {
    const { from, to } = this.window;
    let first: number | null = null;
    for (const lane of lanes?.values() ?? []) {
      const i = lane.after(from);
      if (i < lane.length && num(lane.starts[i]) < to) {
        return;
      }
      first ??= lane.slices[0] ?? null;
    }
    if (first !== null) {
      this._reveal(first);
    }
  }

  /** Puts the keyboard at a slice, and says which one that is. */
  focus(slice: number): void {
    this.over.focus = slice;
    this._reveal(slice);
    if (this._data !== null) {
      this._host.say(describeSlice(this._data, slice));
    }
  }

  step(move: Move): void {
    const data = this._data;
    if (data === null) {
      return;
    }
    const { focus } = this.over;
    if (focus === null) {
      const first = data.first((this.window.from + this.window.to) / 2);
      if (first !== null) {
        this.focus(first);
      }
      return;
    }
    const lane = data.locate(focus)?.row.lane;
    const next =
      move === 'home'
        ? (lane?.slices[0] ?? null)
        : move === 'end'
          ? (lane?.slices[lane.length - 1] ?? null)
          : move === 'left' || move === 'right'
            ? data.beside(focus, move === 'left' ? -1 : 1)
            : data.across(focus, move === 'up' ? -1 : 1);
    if (next === null) {
      this._host.say('no more slices there');
    } else {
      this.focus(next);
    }
  }

  run(command: TimelineCommand): boolean {
    const { focus } = this.over;
    const data = this._data;
    switch (command) {
      case 'fit':
        this.window.fit();
        this.moved();
        return true;
      case 'zoom-in':
      case 'zoom-out':
        this._zoom(command === 'zoom-in' ? 1 : -1);
        return true;
      case 'zoom-focus':
        if (focus !== null) {
          this._zoomTo(focus);
        }
        return true;
      case 'choose':
        if (focus !== null) {
          this._host.choose(focus, false);
        }
        return true;
      case 'measure':
        if (focus !== null && data !== null) {
          // The first press takes the slice, the next reaches from there to where the keyboard is.
          const { measured } = this.over;
          const from = Math.min(measured?.from ?? Infinity, data.start(focus));
          this.measured(from, Math.max(measured?.to ?? -Infinity, data.end(focus)));
          this._host.say(this.over.measured?.text ?? '');
        }
        return true;
      case 'search':
        this._host.focusSearch();
        return true;
      case 'keys':
        this._host.toggleKeys();
        return true;
      case 'next-match':
      case 'previous-match':
        return this._host.stepMatch(command === 'next-match' ? 1 : -1);
      case 'clear':
        if (this.over.measured === null && focus === null) {
          return false;
        }
        this.over.measured = null;
        this.over.focus = null;
        this._stage.surface.redraw(OVERLAY);
        return true;
    }
  }

  /** Zooms about the slice that the keyboard is at while it is seen, else about the middle. */
  private _zoom(direction: 1 | -1): void {
    const { focus } = this.over;
    const { window } = this;
    const data = this._data;
    const middle =
      focus === null || data === null ? NaN : data.start(focus) + data.dur(focus) / 2;
    if (middle >= window.from && middle <= window.to) {
      zoomStep(window, direction, middle);
    } else {
      zoomStep(window, direction);
    }
    this.moved();
  }

  private _zoomTo(slice: number): void {
    const data = this._data;
    if (data !== null) {
      const room = Math.max(data.dur(slice), 1) * 0.15;
      this.window.show(data.start(slice) - room, data.end(slice) + room);
      this.moved();
    }
  }

  // --- pointer ------------------------------------------------------------------------------------------

  private _hit(x: number, y: number): IHit | null {
    const left = namesWidth(this._stage.surface.width);
    if (this._data === null || x < left || y < TOP_PX) {
      return null;
    }
    return hitRows(
      this._data.rows,
      this.window,
      this._stage.surface.width - left,
      x - left,
      y - TOP_PX + this.scroll
    );
  }

  hovered(at: IPlace | null): void {
    if (at === null) {
      this.over.hover = null;
      this.over.pointer = null;
      this._stage.tip(null);
      this._stage.surface.redraw(OVERLAY);
      return;
    }
    const { x, y } = at;
    const data = this._data;
    const hit = this._hit(x, y);
    this.over.hover = hit;
    this.over.pointer = x;
    this._stage.element.style.cursor = hit !== null ? 'pointer' : y < TOP_PX ? 'ew-resize' : '';
    this._stage.tip(hit === null || data === null ? null : hitLines(data, hit), x, y);
    this._stage.surface.redraw(OVERLAY);
  }

  clicked({ x, y }: IPlace, extend: boolean): void {
    const hit = this._hit(x, y);
    if (hit === null) {
      this.over.measured = null;
      this.over.focus = null;
      this._stage.surface.redraw(OVERLAY);
      return;
    }
    this.over.focus = hit.slice;
    this._host.choose(hit.slice, extend);
    this._stage.surface.redraw(OVERLAY);
  }

  opened({ x, y }: IPlace): void {
    const hit = this._hit(x, y);
    if (hit !== null) {
      this._zoomTo(hit.slice);
    } else if (y < TOP_PX) {
      this.run('fit');
    }
  }

  boxed(from: number, to: number, isDone: boolean): void {
    const box: ISpan = { from: Math.min(from, to), to: Math.max(from, to) };
    this.over.box = isDone ? null : box;
    if (isDone && box.to > box.from) {
      this.window.show(box.from, box.to);
      this.moved();
    }
    this._stage.surface.redraw(OVERLAY);
  }

  measured(from: number, to: number): void {
    const span: ISpan = { from: Math.min(from, to), to: Math.max(from, to) };
    if (this._data !== null && span.to > span.from) {
      this.over.measured = { ...span, text: measuredText(this._data, span) };
      this._host.hint(this.over.measured.text);
      this._stage.surface.redraw(OVERLAY);
    }
  }
}
