/** The picture of a view as a file: what is in the window, or all of the graph, as SVG or PNG. */

import type { IScale } from '../model/scale';
import { Camera, type IRect } from '../render/camera';
import { detailAt, type IFrame } from '../render/frame';
import { LEGEND_HEIGHT, legendWidth, paintLegend } from '../render/legend';
import { paintNote, type INote } from '../render/notes';
import { paintChanges, paintPins, type IMarks } from '../render/overlay';
import { paint } from '../render/painter';
import type { IPicture } from '../render/picture';
import type { ISurface } from '../render/surface';
import { SvgSurface } from '../render/svg';
import type { ITheme } from '../render/theme';
import type { EdgeTypes } from './preferences';
import { saveAs } from '../save';

export type Scope = 'view' | 'whole';

const MARGIN_PX = 24;

/** Pixels of a PNG, and of one of its sides: browsers draw no larger canvas. */
const MOST_PIXELS = 60e6;
const LONGEST_SIDE = 16_000;

export interface IExported {
  readonly name: string;
  readonly picture: IPicture;
  readonly theme: ITheme;
  readonly camera: Camera;
  readonly width: number;
  readonly height: number;
  readonly isHeat: boolean;
  readonly types?: EdgeTypes;
  /** What the colours mean, which stands below the picture. */
  readonly scale?: IScale | null;
  /** What is marked as changed. */
  readonly changes?: IMarks['changes'];
  /** What people pinned where it stands. */
  readonly pinned?: IMarks['pinned'];
  /** Their comments, where they are when a camera looks at the graph. */
  readonly notesAt?: (camera: Camera) => readonly INote[];
}

type Place = Pick<IFrame, 'camera' | 'width' | 'height' | 'detail'>;

/** Of the whole graph every name is written, at actual size. */
function placeOf(exported: IExported, scope: Scope): Place {
  const { picture, camera, width, height } = exported;
  if (scope === 'view') {
    return withLegend(exported, { camera, width, height, detail: detailAt(camera.k) });
  }
  const whole = new Camera();
  const { x, y, w, h } = around([picture.bounds, ...(exported.notesAt?.(whole) ?? [])]);
  whole.set(1, MARGIN_PX - x, MARGIN_PX - y);
  const size = { width: w + 2 * MARGIN_PX, height: h + 2 * MARGIN_PX };
  return withLegend(exported, { camera: whole, ...size, detail: detailAt(1) });
}

/** The smallest rectangle that has all of `rects` in it. */
function around(rects: readonly IRect[]): IRect {
  const x = Math.min(...rects.map(rect => rect.x));
  const y = Math.min(...rects.map(rect => rect.y));
  const right = Math.max(...rects.map(rect => rect.x + rect.w));
  return { x, y, w: right - x, h: Math.max(...rects.map(rect => rect.y + rect.h)) - y };
}

function withLegend({ scale = null }: IExported, place: Place): Place {
  const { width, height } = place;
  return scale === null
    ? place
    : { ...place, width: Math.max(width, legendWidth(scale)), height: height + LEGEND_HEIGHT };
}

function draw(exported: IExported, place: Place, ctx: ISurface, dpr: number): void {
  const { picture, theme, isHeat, types = 'zoomed', scale = null, changes, pinned = [], notesAt } = exported;
  const { direction } = picture.scene;
  const frame: IFrame = { ...place, ctx, direction, theme, isHeat, types, dpr, edgeAlpha: 1 };
  paint(frame, picture);
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  if (changes !== undefined) {
    paintChanges(frame, changes);
  }
  paintPins(frame, pinned);
  notesAt?.(place.camera).forEach(note => paintNote(ctx, theme, note));
  if (scale !== null) {
    paintLegend(ctx, theme, scale, place.height - LEGEND_HEIGHT, place.width);
  }
}

/** The SVG of a view. */
export function svgOf(exported: IExported, scope: Scope): string {
  const measurer = document.createElement('canvas').getContext('2d');
  if (measurer === null) {
    throw new Error('this browser draws on no canvas');
  }
  const place = placeOf(exported, scope);
  const surface = new SvgSurface(measurer);
  draw(exported, place, surface, 1);
  return surface.text(place.width, place.height, exported.name);
}

/** The PNG of a view: two pixels for each of the page, or as many as a canvas can have. */
async function pngOf(exported: IExported, scope: Scope): Promise<Blob> {
  const place = placeOf(exported, scope);
  const { width, height } = place;
  const dpr = Math.min(2, LONGEST_SIDE / Math.max(width, height), Math.sqrt(MOST_PIXELS / (width * height)));
  const canvas = document.createElement('canvas');
  canvas.width = Math.round(width * dpr);
  canvas.height = Math.round(height * dpr);
  const ctx = canvas.getContext('2d');
  if (ctx === null) {
    throw new Error('this browser draws on no canvas');
  }
  draw(exported, place, ctx, dpr);
  const blob = await new Promise<Blob | null>(done => canvas.toBlob(done, 'image/png'));
  canvas.width = 0;
  if (blob === null) {
    throw new Error('the picture is too large for this browser');
  }
  return blob;
}

/** Hands the picture of a view to the browser's downloads. */
export async function exportPicture(exported: IExported, kind: 'svg' | 'png', scope: Scope): Promise<void> {
  const name = `${exported.name || 'graph'}.${kind}`;
  if (kind === 'svg') {
    saveAs(name, 'image/svg+xml', svgOf(exported, scope));
  } else {
    saveAs(name, 'image/png', await pngOf(exported, scope));
  }
}
