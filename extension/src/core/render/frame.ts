/** What is drawn into and how: the frame, its level of detail, and places of the scene on the screen. */

import type { ISurface } from './surface';
import { METRICS } from '../model/metrics';
import type { IItem } from '../model/scene';
import type { EdgeTypes } from '../view/preferences';
import type { Direction } from '../model/flow';
import { Camera } from './camera';
import type { Meetings } from './meeting';
import type { ITheme } from './theme';

/** Lines this far above or below the window are left out. */
export const OUTSIDE_PX = 200;

/** What is drawn at a zoom: rectangles only; outlines; names; everything. */
export const enum Detail {
  Dots,
  Shapes,
  Names,
  Full
}

export interface IFrame {
  ctx: ISurface;
  theme: ITheme;
  camera: Camera;
  width: number;
  height: number;
  dpr: number;
  isHeat: boolean;
  /** Which way what is drawn runs over the screen. */
  direction: Direction;
  /** 0 while edges are hidden in the middle of a fold, 1 normally. */
  edgeAlpha: number;
  detail: Detail;
  /** The edges that end at ports; none by default. */
  meetings?: Meetings | null;
  /** When edges say what they carry; by default where there is room. */
  types?: EdgeTypes;
}

/**
 * Draws in the space of the flow: there everything runs down, and what is drawn so, without text, runs
 * over the screen as the graph does.
 */
export function inFlow(frame: IFrame, draw: (frame: IFrame) => void): void {
  if (frame.direction === 'down') {
    draw(frame);
    return;
  }
  const { ctx, camera, width, height, dpr } = frame;
  const turned = new Camera();
  turned.set(camera.k, camera.ty, camera.tx);
  ctx.setTransform(0, dpr, dpr, 0, 0, 0);
  draw({ ...frame, camera: turned, width: height, height: width });
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
}

/** From this zoom all that is known of an item is written on it. */
export const FULL_ZOOM = 0.75;

/** From this zoom edges say what they carry, where there is room. */
export const EDGE_TEXT_ZOOM = 0.45;

/** Names are never smaller than this, in CSS pixels. */
export const LEAST_NAME = METRICS.leastName;

/** Nor anything else that is written. */
export const LEAST_SMALL = 9.5;

export function detailAt(k: number): Detail {
  if (k < 0.13) {
    return Detail.Dots;
  }
  if (k < 0.3) {
    return Detail.Shapes;
  }
  return k < FULL_ZOOM ? Detail.Names : Detail.Full;
}

/** Screen position on the device's pixel raster, so that one-pixel lines are sharp. */
export function snap(value: number, dpr: number): number {
  return Math.round(value * dpr) / dpr;
}

export interface IScreenRect {
  x: number;
  y: number;
  w: number;
  h: number;
}

export function screenRect(frame: IFrame, item: IItem): IScreenRect {
  const { k, tx, ty } = frame.camera;
  const x = snap(item.x * k + tx, frame.dpr);
  const y = snap(item.y * k + ty, frame.dpr);
  return {
    x,
    y,
    w: snap((item.x + item.w) * k + tx, frame.dpr) - x,
    h: snap((item.y + item.h) * k + ty, frame.dpr) - y
  };
}

/** A rectangle without what is far outside: dashes half a million pixels long cost their length. */
export function cropped(frame: IFrame, r: IScreenRect): IScreenRect {
  const x = Math.max(r.x, -OUTSIDE_PX);
  const y = Math.max(r.y, -OUTSIDE_PX);
  return {
    x,
    y,
    w: Math.max(0, Math.min(r.x + r.w, frame.width + OUTSIDE_PX) - x),
    h: Math.max(0, Math.min(r.y + r.h, frame.height + OUTSIDE_PX) - y)
  };
}
