/** The picture of a view as a file: what is in the window, or all of the graph, as SVG or PNG. */

import { Camera } from '../render/camera';
import { detailAt, type IFrame } from '../render/frame';
import { paint } from '../render/painter';
import type { IPicture } from '../render/picture';
import { SvgSurface } from '../render/svg';
import type { ITheme } from '../render/theme';
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
}

type Place = Pick<IFrame, 'camera' | 'width' | 'height' | 'detail'>;

/** Of the whole graph every name is written, at actual size. */
function placeOf({ picture, camera, width, height }: IExported, scope: Scope): Place {
  if (scope === 'view') {
    return { camera, width, height, detail: detailAt(camera.k) };
  }
  const { x, y, w, h } = picture.bounds;
  const whole = new Camera();
  whole.set(1, MARGIN_PX - x, MARGIN_PX - y);
  return { camera: whole, width: w + 2 * MARGIN_PX, height: h + 2 * MARGIN_PX, detail: detailAt(1) };
}

/** The SVG of a view. */
export function svgOf(exported: IExported, scope: Scope): string {
  const measurer = document.createElement('canvas').getContext('2d');
  if (measurer === null) {
    throw new Error('this browser draws on no canvas');
  }
  const place = placeOf(exported, scope);
  const { picture, theme, isHeat, name } = exported;
  const surface = new SvgSurface(measurer);
  paint({ ...place, ctx: surface, theme, isHeat, dpr: 1, edgeAlpha: 1 }, picture);
  return surface.text(place.width, place.height, name);
}

/** The PNG of a view: two pixels for each of the page, or as many as a canvas can have. */
async function pngOf(exported: IExported, scope: Scope): Promise<Blob> {
  const place = placeOf(exported, scope);
  const { picture, theme, isHeat } = exported;
  const { width, height } = place;
  const dpr = Math.min(2, LONGEST_SIDE / Math.max(width, height), Math.sqrt(MOST_PIXELS / (width * height)));
  const canvas = document.createElement('canvas');
  canvas.width = Math.round(width * dpr);
  canvas.height = Math.round(height * dpr);
  const ctx = canvas.getContext('2d');
  if (ctx === null) {
    throw new Error('this browser draws on no canvas');
  }
  paint({ ...place, ctx, theme, isHeat, dpr, edgeAlpha: 1 }, picture);
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
