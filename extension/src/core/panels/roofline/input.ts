/** Pointer, wheel, touch and keys on the roofline. */

import { Disposables } from '../../view/dom';
import { extendsSelection, Gestures, takeKey, type IGestureHost, type IPlace } from '../parts/gestures';
import type { Surface } from '../surface';
import type { ChartWindow, IBox } from './chart';

export interface IRooflineInputHost extends Pick<IGestureHost, 'ownsWheel' | 'refused' | 'moved' | 'hovered'> {
  readonly window: ChartWindow;
  chart(): IBox;
  /** Zoom by a key: about what the keyboard is at. */
  zoomed(factor: number): void;
  clicked(at: IPlace, extend: boolean): void;
  step(step: -1 | 1 | 'first' | 'last'): void;
  choose(): void;
  /** False when there is nothing to clear. */
  clear(): boolean;
  fit(): void;
  keys(): void;
}

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

  constructor(
    surface: Surface,
    private readonly _host: IRooflineInputHost
  ) {
    const gestures = new Gestures(surface, {
      ownsWheel: () => _host.ownsWheel(),
      refused: () => _host.refused(),
      moved: () => _host.moved(),
      hovered: at => _host.hovered(at),
      turned: ({ factor, at }) => {
        this._zoomAt(factor, at);
        _host.moved();
      },
      dragged: by => {
        const chart = _host.chart();
        _host.window.pan(-by.x / chart.w, by.y / chart.h);
        return true;
      },
      pinched: (factor, about) => this._zoomAt(factor, about),
      released: (at, event, isMoved) => {
        if (!isMoved) {
          _host.clicked(at, extendsSelection(event));
        }
      },
      doubled: at => {
        this._zoomAt(ZOOM_STEP * ZOOM_STEP, at);
        _host.moved();
      }
    });
    this._disposables.add(() => gestures.dispose());
    this._disposables.listen(surface.element, 'keydown', event => takeKey(event, key => this._run(key)));
  }

  dispose(): void {
    this._disposables.dispose();
  }

  private _zoomAt(factor: number, { x, y }: IPlace): void {
    const chart = this._host.chart();
    const part = (at: number): number => Math.min(1, Math.max(0, at));
    this._host.window.zoom(
      factor,
      part((x - chart.x) / chart.w),
      1 - part((y - chart.y) / chart.h)
    );
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
