/** What stays where it is on the screen when a graph that was edited is drawn again. */

import type { IItem, IScene } from '../model/scene';

interface IWindow {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

/** Places that differ by less are the same. */
const SAME = 1.5;

/**
 * Key of the item of `now` that keeps its place, so that as much as can be of what is seen through the
 * window does: of those that moved as most did, the nearest to its middle. Null where all is new.
 */
export function anchorIn(before: IScene, now: IScene, seen: IWindow): string | null {
  const moved: { item: IItem; dx: number; dy: number }[] = [];
  const others: typeof moved = [];
  for (const item of before.items) {
    const there = now.byKey.get(item.key);
    if (there === undefined || item.container !== null) {
      continue;
    }
    // An item keeps the middle of its upper side.
    const one = { item, dx: there.x + there.w / 2 - item.x - item.w / 2, dy: there.y - item.y };
    const isSeen =
      item.x < seen.x1 && item.x + item.w > seen.x0 && item.y < seen.y1 && item.y + item.h > seen.y0;
    (isSeen ? moved : others).push(one);
  }
  const known = moved.length > 0 ? moved : others;
  const isSame = (a: (typeof moved)[number], b: (typeof moved)[number]): boolean =>
    Math.abs(a.dx - b.dx) <= SAME && Math.abs(a.dy - b.dy) <= SAME;
  // How far each moved, and how many moved so.
  const ways: { way: (typeof moved)[number]; count: number }[] = [];
  for (const one of known) {
    const same = ways.find(({ way }) => isSame(way, one));
    if (same === undefined) {
      ways.push({ way: one, count: 1 });
    } else {
      same.count += 1;
    }
  }
  const most = [...ways].sort((a, b) => b.count - a.count)[0]?.way;
  if (most === undefined) {
    return null;
  }
  const away = ({ item }: (typeof moved)[number]): number =>
    Math.hypot(item.x + item.w / 2 - (seen.x0 + seen.x1) / 2, item.y - (seen.y0 + seen.y1) / 2);
  const kept = known.filter(one => isSame(one, most)).sort((a, b) => away(a) - away(b))[0];
  return kept?.item.key ?? null;
}
