/**
 * The drawing surface: two stacked canvases (scene and marks), the camera, animation and hit-testing.
 *
 * The scene canvas is repainted when the camera or the picture changes; hover and selection touch only
 * the marks canvas. Nothing is drawn while the element has no size or is detached.
 */

import type { EdgeTypes } from './preferences';
import { turnedPoint } from '../model/flow';
import { METRICS } from '../model/metrics';
import type { IEdge, IItem } from '../model/scene';
import { Camera, type IRect } from '../render/camera';
import { paintOverlay, type IMarks } from '../render/overlay';
import { detailAt, type IFrame } from '../render/frame';
import { drawnLines } from '../render/meeting';
import { edgeDistance, paint } from '../render/painter';
import type { IEdgeLabel, IPicture } from '../render/picture';
import type { ITheme } from '../render/theme';
import { Disposables, el } from './dom';
import { CameraHistory } from './history';

/** From this many pixels away a pointer hits an edge. */
const EDGE_REACH = 5;

export const ANIMATION_MS = 240;
/** Larger pictures change at once: interpolating them would drop frames. */
const MAX_ANIMATED = 1200;
const MAX_FRAME_TIMES = 600;

/** Further out the fold control is too small to aim at; double-click and keys still fold. */
const MIN_CHEVRON_ZOOM = 0.45;
/** Further out edges are too close together to point at. */
const MIN_EDGE_ZOOM = 0.25;

/** Between the selected item and the edge of a window that became smaller. */
const KEPT_MARGIN = 14;

export interface IHit {
  item: IItem;
  /** On the header of an unfolded box, or anywhere on another item. */
  isSolid: boolean;
  onChevron: boolean;
}

interface IMotion {
  started: number;
  from: Map<IItem, IRect>;
  to: Map<IItem, IRect>;
  /** Keeps this item's top centre where it is on the screen. */
  anchor: { item: IItem; x: number; y: number } | null;
}

export function emptyMarks(): IMarks {
  return {
    hover: null,
    focus: null,
    selected: [],
    mates: [],
    hits: [],
    currentHit: null,
    edges: [],
    pinned: [],
    changes: new Map(),
    apart: null,
    conflicts: [],
    failed: null,
    ports: null
  };
}

export class Stage {
  readonly element = el('div', 'jp-MaxLab-stage');
  readonly camera = new Camera();
  readonly marks = emptyMarks();
  /** Milliseconds of drawing per frame, newest last. */
  readonly frameTimes: number[] = [];
  width = 0;
  height = 0;
  isHeat = false;
  /** When edges say what they carry. */
  types: EdgeTypes = 'zoomed';
  reducedMotion = false;
  onResize: () => void = () => undefined;
  onCamera: () => void = () => undefined;
  /** The scene was painted: for what shows where the camera is. */
  onPaint: () => void = () => undefined;
  readonly history = new CameraHistory(this);
  private readonly _scene = el('canvas', 'jp-MaxLab-canvas');
  private readonly _overlay = el('canvas', 'jp-MaxLab-canvas');
  private readonly _disposables = new Disposables();
  private _picture: IPicture | null = null;
  private _theme: ITheme;
  private _frame = 0;
  private _dirtyScene = false;
  private _dirtyMarks = false;
  private _motion: IMotion | null = null;
  private _flight: { started: number; from: Camera; to: Camera } | null = null;
  private _dpr = 1;

  constructor(theme: ITheme) {
    this._theme = theme;
    this._scene.setAttribute('aria-hidden', 'true');
    this._overlay.setAttribute('aria-hidden', 'true');
    this.element.append(this._scene, this._overlay);
    if (typeof ResizeObserver !== 'undefined') {
      const observer = new ResizeObserver(() => this.measure());
      observer.observe(this.element);
      this._disposables.add(() => observer.disconnect());
    }
  }

  get picture(): IPicture | null {
    return this._picture;
  }

  /** True while a fold or a camera flight is running. */
  get isMoving(): boolean {
    return this._motion !== null || this._flight !== null;
  }

  setTheme(theme: ITheme): void {
    this._theme = theme;
    this.redraw();
  }

  /** Shows `picture`; items that were on the stage before glide from their old places. */
  setPicture(picture: IPicture, anchorKey: string | null): void {
    const before = this._picture;
    const old = new Map<string, IRect>();
    const finished = this._motion?.to;
    for (const item of before?.scene.items ?? []) {
      const { x, y, w, h } = item;
      old.set(item.key, { x, y, w, h });
    }
    this._finishMotion(finished);
    this._picture = picture;
    this.marks.hover = null;
    const { items, byKey } = picture.scene;
    const anchorItem = anchorKey === null ? null : (byKey.get(anchorKey) ?? null);
    const anchorOld = anchorKey === null ? undefined : old.get(anchorKey);
    if (anchorItem !== null && anchorOld !== undefined) {
      const x = (anchorOld.x + anchorOld.w / 2) * this.camera.k + this.camera.tx;
      const y = anchorOld.y * this.camera.k + this.camera.ty;
      const { k } = this.camera;
      this.camera.set(
        k,
        x - (anchorItem.x + anchorItem.w / 2) * k,
        y - anchorItem.y * k
      );
      const isAnimated = !this.reducedMotion && items.length <= MAX_ANIMATED;
      if (isAnimated && before !== null && moves(items, old)) {
        this._startMotion(picture, old, { item: anchorItem, x, y });
      }
    }
    this.redraw();
  }

  private _startMotion(
    picture: IPicture,
    old: ReadonlyMap<string, IRect>,
    anchor: IMotion['anchor']
  ): void {
    const from = new Map<IItem, IRect>();
    const to = new Map<IItem, IRect>();
    for (const item of picture.scene.items) {
      const { x, y, w, h } = item;
      to.set(item, { x, y, w, h });
      let start = old.get(item.key);
      for (let up = item.parent; start === undefined && up !== null; up = up.parent) {
        start = old.get(up.key);
        if (start !== undefined) {
          // What unfolds grows out of the middle of the box that held it.
          start = { x: start.x + start.w / 4, y: start.y + start.h / 4, w: start.w / 2, h: start.h / 2 };
        }
      }
      from.set(item, start ?? { x, y, w, h });
    }
    this._motion = { started: performance.now(), from, to, anchor };
  }

  /** Puts what still glides where it is going. */
  finishMotion(): void {
    this._finishMotion(this._motion?.to);
  }

  private _finishMotion(to: Map<IItem, IRect> | undefined): void {
    for (const [item, rect] of to ?? []) {
      Object.assign(item, rect);
    }
    this._motion = null;
  }

  private _step(now: number): void {
    const motion = this._motion;
    if (motion !== null) {
      const t = elapsed(motion.started, now);
      const s = ease(t);
      for (const [item, end] of motion.to) {
        const start = motion.from.get(item) ?? end;
        item.x = start.x + (end.x - start.x) * s;
        item.y = start.y + (end.y - start.y) * s;
        item.w = start.w + (end.w - start.w) * s;
        item.h = start.h + (end.h - start.h) * s;
      }
      if (motion.anchor !== null) {
        const { item, x, y } = motion.anchor;
        const { k } = this.camera;
        this.camera.set(k, x - (item.x + item.w / 2) * k, y - item.y * k);
      }
      if (t >= 1) {
        this._finishMotion(motion.to);
        this.onCamera();
      }
      this._dirtyScene = true;
    }
    const flight = this._flight;
    if (flight !== null) {
      const t = elapsed(flight.started, now);
      const s = ease(t);
      const { from, to } = flight;
      // Zoom moves evenly in its logarithm, and the middle of the window on a straight line.
      const k = from.k * (to.k / from.k) ** s;
      const cx0 = from.worldX(this.width / 2);
      const cy0 = from.worldY(this.height / 2);
      const cx = cx0 + (to.worldX(this.width / 2) - cx0) * s;
      const cy = cy0 + (to.worldY(this.height / 2) - cy0) * s;
      this.camera.set(k, this.width / 2 - cx * k, this.height / 2 - cy * k);
      if (t >= 1) {
        this.camera.set(to.k, to.tx, to.ty);
        this._flight = null;
      }
      this._dirtyScene = true;
      this.onCamera();
    }
  }

  /** Where the camera is, or is flying to. */
  get destination(): Camera {
    const anchor = this._motion?.anchor ?? null;
    if (this._flight !== null || anchor === null) {
      return this._flight?.to ?? this.camera;
    }
    const { k } = this.camera;
    const end = this.endOf(anchor.item);
    const camera = new Camera();
    camera.set(k, anchor.x - (end.x + end.w / 2) * k, anchor.y - end.y * k);
    return camera;
  }

  /** Where an item stands, or is gliding to. */
  endOf(item: IItem): IRect {
    return this._motion?.to.get(item) ?? item;
  }

  /** Moves the camera, at once or as a short flight. */
  flyTo(target: Camera, animate = true): void {
    this.history.leave(true);
    if (this._motion !== null) {
      this._motion.anchor = null;
    }
    if (!animate || this.reducedMotion || this.width === 0) {
      this._flight = null;
      this.camera.set(target.k, target.tx, target.ty);
      this.onCamera();
    } else {
      const from = new Camera();
      from.set(this.camera.k, this.camera.tx, this.camera.ty);
      this._flight = { started: performance.now(), from, to: target };
    }
    this.redraw();
  }

  /** Stops a pan before the whole graph has left the window. */
  keepInView(): void {
    const bounds = this._picture?.bounds;
    if (bounds === undefined || this.width === 0) {
      return;
    }
    const { camera } = this;
    const keep = Math.min(80, this.width / 4, this.height / 4);
    const clamp = (at: number, from: number, size: number, room: number): number =>
      Math.min(room - keep - from * camera.k, Math.max(keep - (from + size) * camera.k, at));
    camera.tx = clamp(camera.tx, bounds.x, bounds.w, this.width);
    camera.ty = clamp(camera.ty, bounds.y, bounds.h, this.height);
  }

  stopFlight(): void {
    this._flight = null;
    if (this._motion !== null) {
      this._motion.anchor = null;
    }
  }

  redraw(): void {
    this._dirtyScene = true;
    this._schedule();
  }

  redrawMarks(): void {
    this._dirtyMarks = true;
    this._schedule();
  }

  /** The innermost item at a point of the screen (stage coordinates). */
  hit(x: number, y: number): IHit | null {
    const picture = this._picture;
    if (picture === null || this._motion !== null) {
      return null;
    }
    const wx = this.camera.worldX(x);
    const wy = this.camera.worldY(y);
    const slack = 3 / this.camera.k;
    const found = picture.items.query(wx - slack, wy - slack, wx + slack, wy + slack);
    const item = found[found.length - 1];
    if (item === undefined) {
      return null;
    }
    const { k } = this.camera;
    const header = Math.max(METRICS.boxHeader, 20 / k);
    const inHeader = wy - item.y <= header;
    return {
      item,
      isSolid: item.container === null || inHeader,
      onChevron:
        item.box !== null && k >= MIN_CHEVRON_ZOOM && wy - item.y <= header && wx - item.x <= 28
    };
  }

  /** The nearest edge within `reach` pixels of a point of the screen. */
  hitEdge(x: number, y: number, reach = EDGE_REACH): IEdge | null {
    const picture = this._picture;
    if (picture === null || this._motion !== null || this.camera.k < MIN_EDGE_ZOOM) {
      return null;
    }
    const slack = reach / this.camera.k;
    const wx = this.camera.worldX(x);
    const wy = this.camera.worldY(y);
    const at = turnedPoint(picture.scene.direction, { x: wx, y: wy });
    let best: IEdge | null = null;
    let distance = slack;
    for (const edge of picture.edges.query(wx - slack, wy - slack, wx + slack, wy + slack)) {
      const d = Math.min(...this.linesOf(edge).map(points => edgeDistance(points, at.x, at.y)));
      if (d < distance) {
        best = edge;
        distance = d;
      }
    }
    return best;
  }

  /** The lines of an edge as it is drawn now. */
  linesOf(edge: IEdge): readonly Float32Array[] {
    return drawnLines(edge, this._picture?.meetings ?? null, this.camera.k);
  }

  /** Rectangle of an item in client coordinates of the page. */
  clientRect(item: IItem): IRect {
    const box = this.element.getBoundingClientRect();
    const { k, tx, ty } = this.camera;
    return {
      x: box.left + item.x * k + tx,
      y: box.top + item.y * k + ty,
      w: item.w * k,
      h: item.h * k
    };
  }

  /** Fits the canvases to the element; called when it is attached or resized. */
  measure(): void {
    const width = this.element.clientWidth;
    const height = this.element.clientHeight;
    const dpr = Math.min(3, globalThis.devicePixelRatio || 1);
    if (width === this.width && height === this.height && dpr === this._dpr) {
      return;
    }
    const shift = this.width > 0 && width > 0 ? (width - this.width) / 2 : 0;
    const chosen = this._chosenInView();
    this.width = width;
    this.height = height;
    this._dpr = dpr;
    if (width === 0 || height === 0) {
      return;
    }
    this._resize();
    for (const camera of [this.camera, this._flight?.to]) {
      if (camera !== undefined) {
        camera.tx += shift;
      }
    }
    this._keep(chosen);
    this.onResize();
    // The canvas is blank after a resize; drawing in the same turn avoids a flash.
    this._dirtyScene = true;
    this._draw(performance.now());
  }

  /** The selected item, if it is in view now, or will be when the camera has arrived. */
  private _chosenInView(): IItem | null {
    const [item] = this.marks.selected;
    if (item === undefined || this.width === 0) {
      return null;
    }
    const { k, tx, ty } = this._flight?.to ?? this.camera;
    const [x, y] = [item.x * k + tx, item.y * k + ty];
    const isSeen = x + item.w * k > 0 && x < this.width && y + item.h * k > 0 && y < this.height;
    return isSeen ? item : null;
  }

  /** Moves the camera no further than it takes to have `item` in view. */
  private _keep(item: IItem | null): void {
    if (item === null) {
      return;
    }
    const camera = this._flight?.to ?? this.camera;
    const { k } = camera;
    const inside = (at: number, size: number, room: number): number =>
      size + 2 * KEPT_MARGIN > room
        ? KEPT_MARGIN
        : Math.min(room - size - KEPT_MARGIN, Math.max(KEPT_MARGIN, at));
    const [x, y] = [item.x * k + camera.tx, item.y * k + camera.ty];
    const [w, h] = [this.width, this.height];
    camera.tx += x < 0 || x + item.w * k > w ? inside(x, item.w * k, w) - x : 0;
    camera.ty += y < 0 || y + item.h * k > h ? inside(y, item.h * k, h) - y : 0;
  }

  private _schedule(): void {
    if (this._frame === 0 && typeof requestAnimationFrame === 'function') {
      this._frame = requestAnimationFrame(now => {
        this._frame = 0;
        this._draw(now);
      });
    }
  }

  private _draw(now: number): void {
    if (this.width === 0 || this.height === 0 || !this.element.isConnected) {
      // Shown again, the observer reports a size and drawing resumes.
      this._finishMotion(this._motion?.to);
      this._flight = null;
      return;
    }
    try {
      this._paint(now);
    } catch (error) {
      console.error('maxlab: a frame could not be drawn', error);
      this._recover();
    }
    if (this.isMoving) {
      this._schedule();
    }
  }

  /** Ends what moves, so that pointing and clicking go on, and draws what can be drawn of its end. */
  private _recover(): void {
    const wasMoving = this.isMoving;
    this._finishMotion(this._motion?.to);
    this._flight = null;
    this._resize();
    if (wasMoving) {
      this.redraw();
    }
  }

  /** Gives the canvases their size, which also forgets what a broken frame left set on them. */
  private _resize(): void {
    for (const canvas of [this._scene, this._overlay]) {
      canvas.width = Math.round(this.width * this._dpr);
      canvas.height = Math.round(this.height * this._dpr);
    }
  }

  private _paint(now: number): void {
    const started = performance.now();
    this._step(now);
    const picture = this._picture;
    const painted = this._dirtyScene;
    if (picture !== null && this._dirtyScene) {
      const ctx = this._scene.getContext('2d', { alpha: false });
      if (ctx !== null) {
        paint(this._makeFrame(ctx), picture, this._motion !== null);
      }
      this._dirtyMarks = true;
    }
    if (picture !== null && this._dirtyMarks) {
      const ctx = this._overlay.getContext('2d');
      if (ctx !== null) {
        paintOverlay(this._makeFrame(ctx), this.marks, this._litLabels(picture));
      }
    }
    this._dirtyScene = false;
    this._dirtyMarks = false;
    if (painted) {
      this.onPaint();
    }
    if (painted) {
      this.frameTimes.push(performance.now() - started);
      if (this.frameTimes.length > MAX_FRAME_TIMES) {
        this.frameTimes.shift();
      }
    }
  }

  private _litLabels(picture: IPicture): IEdgeLabel[] {
    const { edges } = this.marks;
    if (edges.length === 0) {
      return [];
    }
    const { camera, width, height } = this;
    const lit = new Set(edges.map(edge => edge.from));
    return picture.labels
      .query(camera.worldX(0), camera.worldY(0), camera.worldX(width), camera.worldY(height))
      .filter(label => lit.has(label.from));
  }

  private _makeFrame(ctx: CanvasRenderingContext2D): IFrame {
    const motion = this._motion;
    const t = motion === null ? 1 : elapsed(motion.started, performance.now());
    return {
      ctx,
      theme: this._theme,
      camera: this.camera,
      width: this.width,
      height: this.height,
      dpr: this._dpr,
      isHeat: this.isHeat,
      direction: this._picture?.scene.direction ?? 'down',
      types: this.types,
      meetings: this._picture?.meetings ?? null,
      edgeAlpha: t >= 1 ? 1 : Math.max(0, (t - 0.6) * 2.4),
      detail: detailAt(this.camera.k)
    };
  }

  dispose(): void {
    if (this._frame !== 0) {
      cancelAnimationFrame(this._frame);
      this._frame = 0;
    }
    this._finishMotion(this._motion?.to);
    this._flight = null;
    this._picture = null;
    // Browsers keep canvas memory until collection; a zero size gives it back now.
    for (const canvas of [this._scene, this._overlay]) {
      canvas.width = 0;
      canvas.height = 0;
    }
    this._disposables.dispose();
    this.element.remove();
  }
}

/** Whether one of `items` is not where it was, but for what a place is rounded by. */
function moves(items: readonly IItem[], old: ReadonlyMap<string, IRect>): boolean {
  return (
    items.length !== old.size ||
    items.some(({ key, x, y, w, h }) => {
      const was = old.get(key);
      return was === undefined || Math.abs(x - was.x) + Math.abs(y - was.y) + Math.abs(w - was.w) + Math.abs(h - was.h) > 1.5;
    })
  );
}

/**
 * The share of an animation that is over, in 0 … 1. The time of a frame is that of its beginning, which
 * can lie before the animation that the frame is the first of.
 */
export function elapsed(started: number, now: number): number {
  return Math.min(1, Math.max(0, (now - started) / ANIMATION_MS));
}

function ease(t: number): number {
  return t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2;
}
