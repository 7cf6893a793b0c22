/** How far apart what is the same stands in two drawings: by it one camera follows another. */

import type { IItem } from '../model/scene';

/** Far items count with the fourth power of the distance less. */
const SOFT = 400;

export class Anchors {
  private readonly _pairs: [IItem, IItem][] = [];
  private readonly _of = new Map<IItem, IItem>();

  constructor(items: readonly IItem[], counterpart: (item: IItem) => IItem | undefined) {
    for (const item of items) {
      const other = counterpart(item);
      if (other !== undefined) {
        this._of.set(item, other);
        // Boxes that are open are as far apart as what is in them.
        if (item.container === null) {
          this._pairs.push([item, other]);
        }
      }
    }
  }

  /**
   * How far the other drawing is from this one around a point. Where an item is chosen, that alone counts,
   * or, when it is not in the other, what is above or below it.
   */
  at(x: number, y: number, chosen: IItem | null): { dx: number; dy: number } {
    const other = chosen === null ? undefined : this._of.get(chosen);
    if (chosen !== null) {
      const [one, two] = other === undefined ? this._beside(chosen) : [chosen, other];
      return offset(one, two);
    }
    let [dx, dy, sum] = [0, 0, 0];
    for (const [one, two] of this._pairs) {
      const away = (one.x + one.w / 2 - x) ** 2 + (one.y + one.h / 2 - y) ** 2;
      const weight = 1 / (away + SOFT) ** 2;
      const found = offset(one, two);
      dx += weight * found.dx;
      dy += weight * found.dy;
      sum += weight;
    }
    return sum === 0 ? { dx: 0, dy: 0 } : { dx: dx / sum, dy: dy / sum };
  }

  /** The pair that is nearest to an item, rather above or below it than beside it. */
  private _beside(item: IItem): [IItem, IItem] {
    let nearest: [IItem, IItem] = [item, item];
    let least = Infinity;
    for (const pair of this._pairs) {
      const [one] = pair;
      const across = one.x + one.w / 2 - (item.x + item.w / 2);
      const along = one.y - item.y;
      const away = 16 * across ** 2 + along ** 2;
      if (away < least) {
        nearest = pair;
        least = away;
      }
    }
    return nearest;
  }
}

function offset(one: IItem, other: IItem): { dx: number; dy: number } {
  return { dx: other.x + other.w / 2 - (one.x + one.w / 2), dy: other.y - one.y };
}
