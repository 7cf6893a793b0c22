/**
 * All of a graph in a corner, where it does not fit its window: what is in view is framed, and the frame
 * can be dragged or moved with the arrow keys.
 */

import type { IItem } from '../model/scene';
import type { IPicture } from '../render/picture';
import { scaleColors, scopeFill, type ITheme } from '../render/theme';
import { toneColors } from '../render/tones';
import { Disposables, el } from './dom';
import type { Stage } from './stage';

/** The largest it gets, in CSS pixels. */
const WIDTH = 190;
const HEIGHT = 120;

/** Over a narrower drawing it would hide what it is a map of. */
const LEAST_WIDTH = 480;

/** A key moves the frame by this part of itself. */
const KEY_STEP = 1 / 3;

export class Minimap {
  readonly element = el('div', 'jp-MaxLab-minimap');
  private readonly _canvas = el('canvas');
  private readonly _frame = el('div', 'jp-MaxLab-minimapFrame');
  private readonly _disposables = new Disposables();
  private _picture: IPicture | null = null;
  private _isHeat = false;
  private _theme: ITheme | null = null;
  private _isWanted = true;
  private _scale = 1;

  constructor(private readonly _stage: Stage) {
    const { element, _disposables: d } = this;
    element.hidden = true;
    element.tabIndex = 0;
    element.setAttribute('role', 'application');
    element.setAttribute('aria-label', 'Map of the graph: arrow keys move the view');
    element.append(this._canvas, this._frame);
    d.listen(element, 'pointerdown', (event: PointerEvent) => {
      element.setPointerCapture(event.pointerId);
      this._goTo(event);
      event.stopPropagation();
    });
    d.listen(element, 'pointermove', (event: PointerEvent) => {
      if (element.hasPointerCapture(event.pointerId)) {
        this._goTo(event);
      }
    });
    d.listen(element, 'keydown', (event: KeyboardEvent) => this._key(event));
  }

  /** Whether it may be shown; it is where the graph does not fit. */
  get isWanted(): boolean {
    return this._isWanted;
  }

  setWanted(isWanted: boolean, theme: ITheme): void {
    this._isWanted = isWanted;
    this.update(theme);
  }

  /** Brings it up to the picture, the theme and the camera of the stage. */
  update(theme: ITheme): void {
    const { picture, camera, width, height, isHeat } = this._stage;
    const bounds = picture?.bounds;
    const fits =
      bounds === undefined ||
      (bounds.x * camera.k + camera.tx > -1 &&
        bounds.y * camera.k + camera.ty > -1 &&
        (bounds.x + bounds.w) * camera.k + camera.tx < width + 1 &&
        (bounds.y + bounds.h) * camera.k + camera.ty < height + 1);
    this.element.hidden = fits || !this._isWanted || picture === null || width < LEAST_WIDTH;
    if (this.element.hidden || picture === null || bounds === undefined) {
      return;
    }
    if (this._picture !== picture || this._isHeat !== isHeat || this._theme !== theme) {
      // While boxes glide, the picture is of places that they leave.
      this._picture = this._stage.isMoving ? null : picture;
      this._isHeat = isHeat;
      this._theme = theme;
      this._paint(picture, theme);
    }
    const clamp = (at: number, most: number): number => Math.max(0, Math.min(most, at));
    const [w, h] = [bounds.w * this._scale, bounds.h * this._scale];
    const left = clamp((camera.worldX(0) - bounds.x) * this._scale, w - 4);
    const top = clamp((camera.worldY(0) - bounds.y) * this._scale, h - 4);
    const right = clamp((camera.worldX(width) - bounds.x) * this._scale, w);
    const bottom = clamp((camera.worldY(height) - bounds.y) * this._scale, h);
    const { style } = this._frame;
    style.transform = `translate(${left}px, ${top}px)`;
    style.width = `${Math.max(4, right - left)}px`;
    style.height = `${Math.max(4, bottom - top)}px`;
  }

  dispose(): void {
    this._disposables.dispose();
    this._canvas.width = 0;
    this._picture = null;
  }

  private _paint(picture: IPicture, theme: ITheme): void {
    const { bounds } = picture;
    this._scale = Math.min(WIDTH / bounds.w, HEIGHT / bounds.h);
    const dpr = Math.min(3, globalThis.devicePixelRatio || 1);
    const w = Math.max(8, bounds.w * this._scale);
    const h = Math.max(8, bounds.h * this._scale);
    const { _canvas: canvas } = this;
    canvas.width = Math.round(w * dpr);
    canvas.height = Math.round(h * dpr);
    canvas.style.width = `${w}px`;
    canvas.style.height = `${h}px`;
    const ctx = canvas.getContext('2d');
    if (ctx === null) {
      return;
    }
    ctx.setTransform(dpr * this._scale, 0, 0, dpr * this._scale, 0, 0);
    ctx.translate(-bounds.x, -bounds.y);
    // Nothing vanishes for being small: an item is a pixel at least.
    const least = 1 / (dpr * this._scale);
    for (const item of picture.scene.items) {
      ctx.fillStyle = this._colorOf(item, picture, theme);
      ctx.fillRect(item.x, item.y, Math.max(item.w, least), Math.max(item.h, least));
    }
  }

  /** The colour that stands for an item: of those it is drawn in, the one that is seen from afar. */
  private _colorOf(item: IItem, picture: IPicture, theme: ITheme): string {
    if (item.container !== null) {
      return scopeFill(theme, item.depth);
    }
    if (picture.errors.has(item)) {
      return theme.error;
    }
    if (picture.notes !== null) {
      return toneColors(picture.notes.get(item)?.tone ?? 'quiet', theme).stripe || theme.boxBorder;
    }
    if (this._isHeat) {
      const heat = picture.heat.get(item);
      return heat === undefined ? theme.boxBorder : scaleColors(theme, picture.isDiverging, heat.t).fill;
    }
    return item.node === null ? theme.boxBorder : theme.family[item.node.family].stripe;
  }

  /** Puts the middle of the window where the pointer is. */
  private _goTo(event: PointerEvent): void {
    const { picture, camera, width, height } = this._stage;
    if (picture === null) {
      return;
    }
    const box = this._canvas.getBoundingClientRect();
    const x = picture.bounds.x + (event.clientX - box.left) / this._scale;
    const y = picture.bounds.y + (event.clientY - box.top) / this._scale;
    this._moveTo(width / 2 - x * camera.k, height / 2 - y * camera.k);
  }

  private _key(event: KeyboardEvent): void {
    const { camera, width, height } = this._stage;
    const by = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (by === undefined) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const [dx = 0, dy = 0] = by;
    this._moveTo(camera.tx + dx * width * KEY_STEP, camera.ty + dy * height * KEY_STEP);
  }

  private _moveTo(tx: number, ty: number): void {
    const { camera } = this._stage;
    this._stage.stopFlight();
    camera.set(camera.k, tx, ty);
    this._stage.keepInView();
    this._stage.redraw();
  }
}
