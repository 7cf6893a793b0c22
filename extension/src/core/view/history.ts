/** Where the camera of a view was, to go back there and forward again. */

import { Camera } from '../render/camera';

/** Turns of the wheel and drags that follow each other faster are one move. */
const ONE_MOVE_MS = 700;

const MOST = 100;

/** What it needs of the drawing surface. */
export interface IFlown {
  /** Where the camera is, or is flying to. */
  readonly destination: Camera;
  flyTo(target: Camera): void;
}

function isSame(a: Camera, b: Camera): boolean {
  return Math.abs(Math.log(a.k / b.k)) < 0.01 && Math.hypot(a.tx - b.tx, a.ty - b.ty) < 4;
}

export class CameraHistory {
  private _past: Camera[] = [];
  private _future: Camera[] = [];
  private _movedAt = Number.NEGATIVE_INFINITY;
  private _isTravelling = false;

  constructor(private readonly _stage: IFlown) {}

  /** The camera is about to leave where it is; `isFlight` is false for one step of a longer move. */
  leave(isFlight: boolean, now = performance.now()): void {
    const isNew = isFlight || now - this._movedAt > ONE_MOVE_MS;
    this._movedAt = isFlight ? Number.NEGATIVE_INFINITY : now;
    if (this._isTravelling || !isNew) {
      return;
    }
    this._future = [];
    this._push(this._past);
  }

  get canGoBack(): boolean {
    return this._past.some(camera => !isSame(camera, this._stage.destination));
  }

  get canGoForward(): boolean {
    return this._future.some(camera => !isSame(camera, this._stage.destination));
  }

  back(): void {
    this._travel(this._past, this._future);
  }

  forward(): void {
    this._travel(this._future, this._past);
  }

  private _travel(from: Camera[], to: Camera[]): void {
    let target = from.pop();
    while (target !== undefined && isSame(target, this._stage.destination)) {
      target = from.pop();
    }
    if (target !== undefined) {
      this._push(to);
      this._isTravelling = true;
      this._stage.flyTo(target);
      this._isTravelling = false;
    }
  }

  private _push(list: Camera[]): void {
    const { k, tx, ty } = this._stage.destination;
    const here = new Camera();
    here.set(k, tx, ty);
    const last = list[list.length - 1];
    if (last === undefined || !isSame(last, here)) {
      list.push(here);
      list.splice(0, list.length - MOST);
    }
  }
}
