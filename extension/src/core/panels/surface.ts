/**
 * Stacked canvases that a panel draws on: sized to their element and the screen, painted once a frame
 * at most, and only the layers that changed.
 */

import { Disposables, el } from '../view/dom';

const MAX_FRAME_TIMES = 600;

/** Draws one layer; coordinates are CSS pixels of the element. */
export type Painter = (ctx: CanvasRenderingContext2D, width: number, height: number) => void;

export class Surface {
  readonly element: HTMLElement;
  /** Milliseconds of drawing per frame, newest last. */
  readonly frameTimes: number[] = [];
  width = 0;
  height = 0;
  dpr = 1;
  private readonly _canvases: HTMLCanvasElement[];
  private readonly _dirty: boolean[];
  private readonly _disposables = new Disposables();
  private _frame = 0;

  constructor(
    className: string,
    private readonly _painters: readonly Painter[]
  ) {
    this.element = el('div', `jp-MaxLab-surface ${className}`);
    this._canvases = _painters.map(() => {
      const canvas = el('canvas', 'jp-MaxLab-canvas');
      canvas.setAttribute('aria-hidden', 'true');
      this.element.append(canvas);
      return canvas;
    });
    this._dirty = _painters.map(() => true);
    if (typeof ResizeObserver !== 'undefined') {
      const observer = new ResizeObserver(() => this.measure());
      observer.observe(this.element);
      this._disposables.add(() => observer.disconnect());
    }
  }

  /** Fits the canvases to the element. */
  measure(): void {
    const { clientWidth, clientHeight } = this.element;
    const dpr = Math.min(3, globalThis.devicePixelRatio || 1);
    if (clientWidth === this.width && clientHeight === this.height && dpr === this.dpr) {
      return;
    }
    this.width = clientWidth;
    this.height = clientHeight;
    this.dpr = dpr;
    if (clientWidth === 0 || clientHeight === 0) {
      return;
    }
    for (const canvas of this._canvases) {
      canvas.width = Math.round(clientWidth * dpr);
      canvas.height = Math.round(clientHeight * dpr);
    }
    // A canvas is blank after a resize; drawing in the same turn avoids a flash.
    this._dirty.fill(true);
    this._draw();
  }

  /** Paints the layers from `layer` on in the next frame. */
  redraw(layer = 0): void {
    this._dirty.fill(true, layer);
    if (this._frame === 0 && typeof requestAnimationFrame === 'function') {
      this._frame = requestAnimationFrame(() => {
        this._frame = 0;
        this._draw();
      });
    }
  }

  private _draw(): void {
    const { width, height, dpr } = this;
    if (width === 0 || height === 0 || !this.element.isConnected) {
      return;
    }
    const started = performance.now();
    const isScene = this._dirty[0] === true;
    this._canvases.forEach((canvas, layer) => {
      if (this._dirty[layer] !== true) {
        return;
      }
      this._dirty[layer] = false;
      const ctx = canvas.getContext('2d');
      if (ctx !== null) {
        ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
        ctx.clearRect(0, 0, width, height);
        this._painters[layer]?.(ctx, width, height);
      }
    });
    if (isScene) {
      this.frameTimes.push(performance.now() - started);
      if (this.frameTimes.length > MAX_FRAME_TIMES) {
        this.frameTimes.shift();
      }
    }
  }

  /** The place of a pointer in CSS pixels of the element. */
  at(event: MouseEvent): { x: number; y: number } {
    const box = this.element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  dispose(): void {
    if (this._frame !== 0) {
      cancelAnimationFrame(this._frame);
      this._frame = 0;
    }
    this._disposables.dispose();
    // Browsers keep canvas memory until collection; a zero size gives it back now.
    for (const canvas of this._canvases) {
      canvas.width = 0;
      canvas.height = 0;
    }
    this.element.remove();
  }
}
