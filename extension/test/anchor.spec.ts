import { describe, expect, it } from 'vitest';

import { anchorIn } from '../src/core/layout/anchor';
import type { IItem, IScene } from '../src/core/model/scene';

const SEEN = { x0: 0, y0: 0, x1: 100, y1: 100 };

/** A scene of items that are 10 wide and high. */
function scene(places: Record<string, [number, number]>): IScene {
  const items = Object.entries(places).map(
    ([key, [x, y]]) => ({ key, x, y, w: 10, h: 10, container: null }) as unknown as IItem
  );
  return { items, byKey: new Map(items.map(item => [item.key, item])) } as unknown as IScene;
}

describe('what keeps its place on the screen', () => {
  it.each([
    ['the nearest to the middle, where nothing moves', { a: [0, 0], b: [50, 50] }, { a: [0, 0], b: [50, 50] }, 'b'],
    [
      'what did not move, and not the item in the middle that did',
      { a: [0, 0], b: [50, 50], c: [20, 0] },
      { a: [0, 0], b: [50, 90], c: [20, 0] },
      'c'
    ],
    [
      'one of those that moved together, where most did',
      { a: [0, 0], b: [50, 50], c: [20, 0] },
      { a: [40, 0], b: [50, 50], c: [60, 0] },
      'c'
    ],
    ['what is seen, and not what is elsewhere', { a: [0, 0], b: [900, 0], c: [900, 50] }, { a: [9, 9], b: [900, 0], c: [900, 50] }, 'a'],
    ['what is elsewhere, where nothing that is seen stays', { a: [0, 0], b: [900, 0] }, { b: [900, 0] }, 'b'],
    ['nothing, where all is new', { a: [0, 0] }, { b: [0, 0] }, null]
  ] as const)('is %s', (_what, before, now, wanted) => {
    const mutable = (places: object): Record<string, [number, number]> => places as Record<string, [number, number]>;
    expect(anchorIn(scene(mutable(before)), scene(mutable(now)), SEEN)).toBe(wanted);
  });
});
