/** Pointer, wheel, touch and keys on the timeline. */

import { Disposables } from '../../view/dom';
import {
  extendsSelection,
  Gestures,
  takeKey,
  type IGestureHost,
  type IPlace,
  type ITurn
} from '../parts/gestures';
import type { Surface } from '../surface';
import { namesWidth, OVERVIEW_PX, TOP_PX } from './paint';
import type { TimeWindow } from './window';

export type Move = 'left' | 'right' | 'up' | 'down' | 'home' | 'end';

export interface ITimelineInputHost extends Pick<IGestureHost, 'ownsWheel' | 'refused' | 'moved' | 'hovered'> {
  readonly window: TimeWindow;
  scrollBy(px: number): void;
  clicked(at: IPlace, extend: boolean): void;
  opened(at: IPlace): void;
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
  private _drag: Drag = 'pan';
  private _from = 0;

  constructor(
    private readonly _surface: Surface,
    private readonly _host: ITimelineInputHost
  ) {
    const gestures = new Gestures(_surface, {
      ownsWheel: () => _host.ownsWheel(),
      refused: () => _host.refused(),
      moved: () => _host.moved(),
      hovered: at => _host.hovered(at),
      pressed: (at, event, fingers) => this._pressed(at, event, fingers),
      dragged: (by, at) => this._dragged(by, at),
      pinched: (factor, about) => _host.window.zoom(factor, this._time(about.x)),
      released: (at, event, isMoved) => this._released(at, event, isMoved),
      doubled: at => _host.opened(at),
      turned: turn => this._turned(turn)
    });
    this._disposables.add(() => gestures.dispose());
    this._disposables.listen(_surface.element, 'keydown', event =>
      takeKey(event, ({ key, shiftKey }) => this._run(key, shiftKey))
    );
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

  private _pressed({ x, y }: IPlace, event: PointerEvent, fingers: number): void {
    this._from = this._time(x);
    if (fingers > 1) {
      this._drag = 'pan';
    } else if (y < OVERVIEW_PX) {
      this._drag = 'overview';
      this._center(x);
    } else if (event.shiftKey) {
      this._drag = 'measure';
    } else if (y < TOP_PX || event.ctrlKey || event.metaKey) {
      this._drag = 'box';
    } else {
      this._drag = 'pan';
    }
  }

  /** Puts the middle of the window where the overview was pressed. */
  private _center(x: number): void {
    const { window } = this._host;
    const part = (x - namesWidth(this._surface.width)) / this._room;
    window.pan(part * window.length - (window.from + window.to) / 2);
    this._host.moved();
  }

  private _dragged(by: IPlace, at: IPlace): boolean {
    const { window } = this._host;
    switch (this._drag) {
      case 'overview':
        this._center(at.x);
        return false;
      case 'measure':
        this._host.measured(this._from, this._time(at.x));
        return false;
      case 'box':
        this._host.boxed(this._from, this._time(at.x), false);
        return false;
      case 'pan':
        window.pan((-by.x / this._room) * window.span);
        this._host.scrollBy(-by.y);
        return true;
    }
  }

  private _released(at: IPlace, event: PointerEvent, isMoved: boolean): void {
    if (isMoved) {
      if (this._drag === 'box') {
        this._host.boxed(this._from, this._time(at.x), true);
      }
    } else if (at.y >= TOP_PX) {
      this._host.clicked(at, extendsSelection(event));
    }
  }

  private _turned({ event, unit, factor, at }: ITurn): void {
    const { window } = this._host;
    const isZoom = event.ctrlKey || event.metaKey;
    if (event.altKey) {
      this._host.scrollBy(event.deltaY * unit);
    } else if (!isZoom && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) {
      window.pan((((event.deltaX || event.deltaY) * unit) / this._room) * window.span);
    } else {
      window.zoom(factor, this._time(at.x));
    }
    this._host.moved();
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
