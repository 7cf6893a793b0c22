/** What people put somewhere, in a graph that is turned to run from left to right. */

import { describe, expect, it } from 'vitest';

import { drawnAt, placeAt, placeOf } from '../src/core/layout/places';
import type { IItem, IScene } from '../src/core/model/scene';
import type { IGraphDocument, IPlace } from '../src/proto/document';
import { threeOps, transformer } from './fixtures';
import { draw } from './movement';
import { containers } from './scene';

/** The places of all that is drawn, as somebody who has put everything somewhere would have them. */
function placesIn(scene: IScene): IPlace[] {
  return scene.items.map(item => {
    const { x, y } = placeOf(item, scene.direction);
    return { key: item.key, x: Math.round(x), y: Math.round(y), pinned: true };
  });
}

function overlaps(scene: IScene): string[] {
  return scene.items.flatMap(a =>
    scene.items
      .filter(b => b !== a && b.parent === a.parent)
      .filter(b => b.y < a.y + a.h && a.y < b.y + b.h && b.x < a.x + a.w && a.x < b.x + b.w)
      .map(b => `${a.label} and ${b.label}`)
  );
}

const middle = ({ x, y, w, h }: IItem): { x: number; y: number } => ({ x: x + w / 2, y: y + h / 2 });

describe.each([
  ['three operations', threeOps()],
  ['a transformer', transformer(2)]
])('the places of %s', (_name, document: IGraphDocument) => {
  const down = draw(document, null);
  const places = placesIn(down.scene);
  const right = draw({ ...document, places }, null, 'right');

  it('lead to the right where they led down', () => {
    const edges = containers(right.scene).flatMap(one => one.edges).filter(({ from, to }) => from?.container === null && to?.container === null);
    expect(edges.length).toBeGreaterThan(2);
    for (const { from, to, isTurn } of edges) {
      const above = down.scene.byKey.get(from?.key ?? '');
      const below = down.scene.byKey.get(to?.key ?? '');
      // A tall layout is broken into columns: there a line leads up.
      if (from !== null && to !== null && above !== undefined && (below?.y ?? 0) >= above.y + above.h && !isTurn) {
        expect(to.x, `${from.label} to ${to.label}`).toBeGreaterThanOrEqual(from.x + from.w);
      }
    }
    expect(overlaps(right.scene)).toEqual([]);
  });

  it('are on one line where they were on one', () => {
    for (const item of right.scene.items.filter(one => one.container === null)) {
      const was = down.scene.byKey.get(item.key) as IItem;
      for (const other of right.scene.items.filter(one => one.container === null && one.parent === item.parent)) {
        const before = down.scene.byKey.get(other.key) as IItem;
        const across = middle(before).x - middle(was).x;
        const now = middle(other).y - middle(item).y;
        expect(Math.abs(now) < 2, `${item.label} and ${other.label}`).toBe(Math.abs(across) < 2);
        expect(now * across).toBeGreaterThanOrEqual(0);
      }
    }
  });

  it('are the same when it is turned back', () => {
    for (const { key, x, y } of places) {
      const place = placeOf(right.scene.byKey.get(key) as IItem, 'right');
      expect(Math.abs(place.x - x), key).toBeLessThan(1e-6);
      expect(Math.abs(place.y - y), key).toBeLessThan(1e-6);
    }
    const back = draw({ ...document, places: placesIn(right.scene) }, right);
    for (const item of back.scene.items) {
      const was = places.find(place => place.key === item.key);
      const now = placeOf(item, 'down');
      expect(Math.abs(now.x - (was?.x ?? NaN)), item.label).toBeLessThan(1);
      expect(Math.abs(now.y - (was?.y ?? NaN)), item.label).toBeLessThan(1);
    }
  });
});

it('a place is one point of a turned graph, and that point is the place', () => {
  for (const size of [{ w: 120, h: 62 }, { w: 0, h: 0 }]) {
    for (const direction of ['down', 'right'] as const) {
      const { x, y } = placeAt(direction, drawnAt(direction, { x: -70, y: 335 }, size), size);
      expect(x).toBeCloseTo(-70, 9);
      expect(y).toBeCloseTo(335, 9);
    }
  }
});
