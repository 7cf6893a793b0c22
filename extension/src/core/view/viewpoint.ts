/** Where the camera should go: the first view of a graph, and views that bring something in. */

import { turned, turnedPoint } from '../model/flow';
import type { Measure } from '../model/metrics';
import type { IItem } from '../model/scene';
import { Camera, type IRect } from '../render/camera';
import { FULL_ZOOM, LEAST_NAME } from '../render/frame';
import type { IPicture } from '../render/picture';
import type { Stage } from './stage';

/** Below this zoom names are too small to work with: going somewhere also goes closer. */
const CLOSE_ZOOM = 0.5;
const CLOSER_ZOOM = 0.85;

/** Small graphs are not drawn larger than this. */
const LARGEST = 1.15;

const MARGIN = 22;
/** Between what is brought into view and the border of the window. */
const SEEN_MARGIN = 18;
/** For the zoom buttons. */
const RIGHT = 54;

/** The zoom in which the name of every item, and its time, has room in a size that can be read. */
export function readableZoom(picture: IPicture, measure: Measure): number {
  let least = 0;
  const widths = new Map<string, number>();
  for (const item of picture.scene.items) {
    if (item.container !== null) {
      continue;
    }
    const name = item.count > 1 ? `${item.label} ×${item.count}` : item.label;
    let width = widths.get(name);
    if (width === undefined) {
      width = measure(name, LEAST_NAME, true);
      widths.set(name, width);
    }
    const height = picture.heat.has(item) ? 2 * LEAST_NAME + 2 : LEAST_NAME + 1;
    least = Math.max(least, (width + 4) / item.w, height / item.h);
  }
  return Math.min(FULL_ZOOM, least);
}

/** The item that takes longest, of those that are not unfolded. */
function hottestOf(picture: IPicture): IItem | undefined {
  let hottest: IItem | undefined;
  let most = 0;
  for (const [item, { t }] of picture.heat) {
    if (item.container === null && t > most) {
      most = t;
      hottest = item;
    }
  }
  return hottest;
}

/**
 * The whole graph if every name can be read in it; else the part around what takes longest, or the
 * beginning, in a size that can be read.
 */
export function firstView(stage: Stage, picture: IPicture, measure: Measure): Camera {
  const { bounds, scene } = picture;
  const room = { w: stage.width - MARGIN - RIGHT, h: stage.height - 2 * MARGIN };
  const fit = Camera.fit(bounds, room.w, room.h, 0, LARGEST);
  fit.tx += MARGIN;
  fit.ty += MARGIN;
  const k = readableZoom(picture, measure);
  if (fit.k >= k) {
    return fit;
  }
  const hottest = hottestOf(picture);
  const [first] = scene.items;
  /** Where the window begins in the world: around `middle`, but not beside the graph. */
  const along = (middle: number, start: number, size: number, shown: number): number =>
    size <= shown
      ? start + (size - shown) / 2
      : Math.min(start + size - shown, Math.max(start, middle - shown / 2));
  const isBroken = scene.root.container?.columns !== null;
  const beginning = (): { x: number; y: number } => {
    const all = turned(scene.direction, bounds);
    const start = isBroken || first === undefined ? null : turned(scene.direction, first);
    return turnedPoint(scene.direction, { x: start === null ? all.x : start.x + start.w / 2, y: all.y });
  };
  const { x, y } =
    hottest === undefined ? beginning() : { x: hottest.x + hottest.w / 2, y: hottest.y + hottest.h / 2 };
  const left = along(x, bounds.x, bounds.w, room.w / k);
  const top = along(y, bounds.y, bounds.h, room.h / k);
  fit.set(k, MARGIN - left * k, MARGIN - top * k);
  return fit;
}

/** The camera that shows all of a graph. */
export function wholeView(stage: Stage, bounds: IRect): Camera {
  const fit = Camera.fit(bounds, stage.width - MARGIN - RIGHT, stage.height - 2 * MARGIN, 0, 1.25);
  fit.tx += MARGIN;
  fit.ty += MARGIN;
  return fit;
}

/** A view that shows `item`, in the middle if it was out of sight; null when it is in view already. */
export function viewOf(stage: Stage, item: IItem): Camera | null {
  const { k, tx, ty } = stage.destination;
  const end = stage.endOf(item);
  const margin = 48;
  const target = new Camera();
  target.set(k, tx, ty);
  if (k < CLOSE_ZOOM) {
    target.zoomAt(CLOSER_ZOOM / k, stage.width / 2, stage.height / 2);
  }
  const x = end.x * target.k + target.tx;
  const y = end.y * target.k + target.ty;
  const w = end.w * target.k;
  const h = Math.min(end.h * target.k, stage.height - 2 * margin);
  const isInside =
    x >= margin && y >= margin && x + w <= stage.width - margin && y + h <= stage.height - margin;
  if (isInside && target.k === k) {
    return null;
  }
  const isSeen = x < stage.width && x + w > 0 && y < stage.height && y + h > 0;
  if (isSeen && target.k === k) {
    return nearestViewOf(stage, item, margin);
  }
  target.tx += stage.width / 2 - (x + w / 2);
  target.ty += stage.height / 2 - (y + h / 2);
  return target;
}

/**
 * The view in which `item` is seen whole, if it is readable, and the camera has moved no further than that
 * takes; null when it is seen already. Of what is larger than the window the upper left corner is seen.
 */
export function nearestViewOf(stage: Stage, item: IItem, margin = SEEN_MARGIN): Camera | null {
  const { k, tx, ty } = stage.destination;
  const inside = (at: number, size: number, room: number): number =>
    Math.max(margin, Math.min(at, room - margin - size));
  const end = stage.endOf(item);
  const [x, y] = [end.x * k + tx, end.y * k + ty];
  const dx = inside(x, end.w * k, stage.width) - x;
  const dy = inside(y, end.h * k, stage.height) - y;
  if (stage.width === 0 || Math.hypot(dx, dy) < 0.5) {
    return null;
  }
  const target = new Camera();
  target.set(k, tx + dx, ty + dy);
  return target;
}

/** A readable view of a box that was just unfolded; null when it already is readable. */
export function insideView(stage: Stage, item: IItem): Camera | null {
  if (stage.camera.k >= CLOSE_ZOOM) {
    return null;
  }
  const margin = 40;
  const target = Camera.fit(item, stage.width, stage.height, margin, CLOSER_ZOOM);
  if (target.k < CLOSE_ZOOM) {
    const k = CLOSE_ZOOM + 0.05;
    target.set(k, stage.width / 2 - (item.x + item.w / 2) * k, 1.5 * margin - item.y * k);
  }
  return target;
}
