/** Where the camera should go: the first view of a graph, and views that bring something in. */

import type { IItem } from '../model/scene';
import { Camera, type IRect } from '../render/camera';
import type { Stage } from './stage';

/** Below this zoom the first view shows the top of the graph instead of all of it. */
const READABLE_ZOOM = 0.3;
const TOP_ZOOM = 0.5;

/** Below this zoom names are too small to work with: going somewhere also goes closer. */
const CLOSE_ZOOM = 0.45;
const CLOSER_ZOOM = 0.8;

/** The whole graph if names stay readable, else its beginning. */
export function firstView(stage: Stage, bounds: IRect, first: IItem | undefined): Camera {
  const fit = Camera.fit(bounds, stage.width, stage.height, 22, 1);
  if (fit.k < READABLE_ZOOM && bounds.w * READABLE_ZOOM <= stage.width * 3) {
    const k = Math.max(READABLE_ZOOM, Math.min(TOP_ZOOM, (stage.width - 72) / bounds.w));
    const isWide = bounds.w * k > stage.width && first !== undefined;
    const centre = isWide ? first.x + first.w / 2 : bounds.x + bounds.w / 2;
    fit.set(k, stage.width / 2 - centre * k, 28 - bounds.y * k);
  }
  return fit;
}

/** The nearest view that shows `item`; null when it is in view already. */
export function viewOf(stage: Stage, item: IItem): Camera | null {
  const { k, tx, ty } = stage.camera;
  const margin = 48;
  const target = new Camera();
  target.set(k, tx, ty);
  if (k < CLOSE_ZOOM) {
    target.zoomAt(CLOSER_ZOOM / k, stage.width / 2, stage.height / 2);
  }
  const x = item.x * target.k + target.tx;
  const y = item.y * target.k + target.ty;
  const w = item.w * target.k;
  const h = Math.min(item.h * target.k, stage.height - 2 * margin);
  const isInside =
    x >= margin && y >= margin && x + w <= stage.width - margin && y + h <= stage.height - margin;
  if (isInside && target.k === k) {
    return null;
  }
  target.tx += stage.width / 2 - (x + w / 2);
  target.ty += stage.height / 2 - (y + h / 2);
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
