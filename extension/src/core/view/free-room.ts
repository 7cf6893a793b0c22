/** Where over a drawing something can stand without covering what is drawn. */

import type { IRect } from '../render/camera';
import type { IPicture } from '../render/picture';

/** What of `rect`, in the space of the picture, is over things that are drawn there; as an area. */
export function coveredBy(picture: IPicture, { x, y, w, h }: IRect): number {
  let area = 0;
  for (const item of picture.items.query(x, y, x + w, y + h)) {
    if (item.container === null) {
      const across = Math.min(x + w, item.x + item.w) - Math.max(x, item.x);
      const down = Math.min(y + h, item.y + item.h) - Math.max(y, item.y);
      area += Math.max(0, across) * Math.max(0, down);
    }
  }
  return area;
}

/** The number of the first of `rects` that covers least. */
export function freest(picture: IPicture | null, rects: readonly IRect[]): number {
  let best = 0;
  let least = Number.POSITIVE_INFINITY;
  for (const [n, rect] of rects.entries()) {
    const area = picture === null ? 0 : coveredBy(picture, rect);
    if (area < least - 1e-6) {
      least = area;
      best = n;
    }
  }
  return best;
}
