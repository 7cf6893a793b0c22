/** Lines between things that were put somewhere by hand, in the space of the flow. */

import type { IBlock } from './room';

/** How far a line runs straight before it bends. */
const STRAIGHT = 8;
/** The least height of a line that runs down; with less of it a line goes around. */
const LEAST = 6;
/** How far a line that goes around keeps from its ends, and from the side of what it goes around. */
const APART = 14;

/**
 * The points of a line from the lower border of `from` to the upper border of `to`; `srcOff` and `dstOff`
 * are where it meets them, from their middles.
 */
export function route(from: IBlock, to: IBlock, srcOff = 0, dstOff = 0): Float32Array {
  const sx = from.x + from.w / 2 + srcOff;
  const tx = to.x + to.w / 2 + dstOff;
  const sy = from.y + from.h;
  const isApart = from.x + from.w + 2 * APART <= to.x || to.x + to.w + 2 * APART <= from.x;
  const isLevel = to.y + to.h > from.y && to.y < sy;
  if (isLevel && !isApart) {
    // Side by side without room between them: below both, and up at the far side.
    const side = to.x + to.w / 2 < from.x + from.w / 2 ? to.x - APART : to.x + to.w + APART;
    return between(sx, sy, tx, to.y, side, Math.max(sy, to.y + to.h) + APART);
  }
  return between(sx, sy, tx, to.y, sideOf(from, to, (sx + tx) / 2));
}

/**
 * The points of a line from a point to another; one that is not below it is reached around `side`, down to
 * `low` before.
 */
export function between(
  sx: number,
  sy: number,
  tx: number,
  ty: number,
  side = (sx + tx) / 2,
  low = sy + APART
): Float32Array {
  if (ty - sy >= LEAST || (Math.abs(sx - tx) < 0.7 && ty >= sy)) {
    const gap = Math.min(STRAIGHT, (ty - sy) / 4);
    return Float32Array.from([sx, sy, sx, sy + gap, tx, ty - gap, tx, ty]);
  }
  const high = ty - APART;
  return Float32Array.from([sx, sy, sx, low, side, low, side, high, tx, high, tx, ty]);
}

/** Where a line up passes two things: between them, or beside both. */
function sideOf(from: IBlock, to: IBlock, middle: number): number {
  if (from.x + from.w + 2 * APART <= to.x || to.x + to.w + 2 * APART <= from.x) {
    const [left, right] = from.x < to.x ? [from, to] : [to, from];
    return (left.x + left.w + right.x) / 2;
  }
  const right = Math.max(from.x + from.w, to.x + to.w) + APART;
  const left = Math.min(from.x, to.x) - APART;
  return right - middle <= middle - left ? right : left;
}
