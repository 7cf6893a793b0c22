import { describe, expect, it } from 'vitest';

import { placeOf } from '../src/core/layout/places';
import { route } from '../src/core/layout/route';
import type { IItem, IScene } from '../src/core/model/scene';
import type { IGraphDocument, IPlace } from '../src/proto/document';
import { large, threeOps, transformer } from './fixtures';
import { arranged, draw, inserted } from './movement';

const at = (item: IItem | undefined): { x: number; y: number } => ({ x: item?.x ?? NaN, y: item?.y ?? NaN });

function withPlaces(document: IGraphDocument, ...places: IPlace[]): IGraphDocument {
  return { ...document, places };
}

const place = (key: string, x: number, y: number): IPlace => ({ key, x, y, pinned: false });

function overlaps(scene: IScene, isChecked: (item: IItem) => boolean): string[] {
  return scene.items.flatMap(a =>
    scene.items
      .filter(b => b !== a && b.parent === a.parent && isChecked(a) && isChecked(b))
      .filter(b => b.y < a.y + a.h - 0.1 && a.y < b.y + b.h - 0.1 && b.x < a.x + a.w - 0.1 && a.x < b.x + b.w - 0.1)
      .map(b => `${a.key} and ${b.key}`)
  );
}

describe('what people put somewhere', () => {
  const document = threeOps();
  const first = draw(document, null);
  const keys = first.scene.items.filter(item => item.node !== null).map(item => item.key);
  const [key = ''] = keys;

  it('stands there, and the rest where it stood', () => {
    const moved = draw(withPlaces(document, place(key, 400, -120)), first);
    expect(at(moved.scene.byKey.get(key))).toEqual({ x: 400, y: -120 });
    for (const item of first.scene.items.filter(one => one.key !== key)) {
      expect(at(moved.scene.byKey.get(item.key))).toEqual(at(item));
    }
    expect(moved.scene.root.x + moved.scene.root.w).toBeGreaterThan(400);
    expect(moved.scene.root.y).toBeLessThanOrEqual(-120);
  });

  it('goes back to where it was when it loses its place', () => {
    const both = withPlaces(document, place(key, 400, -120), place(keys[1] ?? '', -300, 90));
    const one = withPlaces(document, place(keys[1] ?? '', -300, 90));
    const after = draw(one, draw(both, draw(one, first)));
    expect(at(after.scene.byKey.get(key))).toEqual(at(first.scene.byKey.get(key)));
    const none = draw(document, after);
    for (const item of first.scene.items) {
      expect(at(none.scene.byKey.get(item.key))).toEqual(at(item));
    }
  });

  it('is where it was when the document is opened again', () => {
    const places = withPlaces(document, place(key, 40, 260), place(`in:${document.inputs[0] ?? ''}`, -90, -80));
    const opened = draw(JSON.parse(JSON.stringify(places)) as IGraphDocument, null);
    for (const { key: one, x, y } of places.places ?? []) {
      expect(at(opened.scene.byKey.get(one))).toEqual({ x, y });
      expect(placeOf(opened.scene.byKey.get(one) as IItem, 'down')).toEqual({ x, y });
    }
  });

  it('ends lines at its borders', () => {
    const { scene } = draw(withPlaces(document, place(key, 700, -400)), first);
    const edges = scene.root.container?.edges ?? [];
    const own = edges.filter(edge => edge.from?.key === key || edge.to?.key === key);
    expect(own.length).toBeGreaterThan(1);
    for (const { from, to, points } of own) {
      const [sx = 0, sy = 0] = points;
      const [tx = 0, ty = 0] = points.slice(-2);
      expect(sy).toBeCloseTo((from?.y ?? 0) + (from?.h ?? 0), 1);
      expect(ty).toBeCloseTo(to?.y ?? 0, 1);
      expect(sx).toBeGreaterThanOrEqual(from?.x ?? 0);
      expect(tx).toBeLessThanOrEqual((to?.x ?? 0) + (to?.w ?? 0));
    }
  });

  it.each([
    ['beside it, without room between', 100, 10],
    ['beside it, with room', 260, 10],
    ['right above it', 10, -90],
    ['above it and aside', -70, -60],
    ['far below it', 30, 200]
  ])('is reached by a line that crosses neither end: %s', (_, dx, dy) => {
    for (const side of [1, -1]) {
      const from = { x: 0, y: 0, w: 80, h: 30 };
      const to = { x: side * dx, y: dy, w: 80, h: 30 };
      const points = Array.from(route(from, to));
      for (let k = 2; k < points.length; k += 2) {
        const [x0 = 0, y0 = 0, x1 = 0, y1 = 0] = points.slice(k - 2, k + 2);
        for (const { x, y, w, h } of [from, to]) {
          const isIn =
            Math.min(x0, x1) < x + w - 0.5 && Math.max(x0, x1) > x + 0.5 && Math.min(y0, y1) < y + h - 0.5 && Math.max(y0, y1) > y + 0.5;
          expect(isIn, `${x0},${y0} ${x1},${y1}`).toBe(false);
        }
      }
    }
  });

  it('has a place of its own in each box, which moves with the box', () => {
    const boxed = transformer(2);
    const before = draw(boxed, null);
    const inner = before.scene.items.find(item => item.node !== null && item.depth > 1) as IItem;
    const { x, y } = placeOf(inner, 'down');
    const moved = draw(withPlaces(boxed, place(inner.key, x + 500, y - 300)), before);
    const now = moved.scene.byKey.get(inner.key) as IItem;
    expect(placeOf(now, 'down')).toEqual({ x: x + 500, y: y - 300 });
    for (let up = now; up.parent !== null; up = up.parent) {
      expect(up.x).toBeGreaterThanOrEqual(up.parent.x - 0.1);
      expect(up.y + up.h).toBeLessThanOrEqual(up.parent.y + up.parent.h + 0.1);
    }
    expect(overlaps(moved.scene, item => item.key !== inner.key)).toEqual([]);
  });

  it('is not covered by what has no place', () => {
    const graph = large(300);
    const before = draw(graph, null);
    const spot = before.scene.items[120] as IItem;
    const moved = draw(withPlaces(graph, place(before.scene.items[40]?.key ?? '', spot.x + 3, spot.y + 2)), before);
    expect(overlaps(moved.scene, () => true)).toEqual([]);
    const aside = before.scene.items.filter(
      item => Math.hypot(item.x - (moved.scene.byKey.get(item.key)?.x ?? 0), item.y - (moved.scene.byKey.get(item.key)?.y ?? 0)) > 1
    );
    expect(aside.length).toBeLessThan(5);
  });

  it('stays when an operation is put in, which finds room near what it reads', () => {
    const graph = arranged(large(400));
    const before = draw(graph, null);
    for (const n of [20, 200, 380]) {
      const after = draw(inserted(graph, n), before);
      for (const { key: one, x, y } of graph.places ?? []) {
        expect(at(after.scene.byKey.get(one))).toEqual({ x, y });
      }
      const made = after.scene.byKey.get('nnew') as IItem;
      const read = after.scene.byKey.get(graph.nodes[n]?.id ?? '') as IItem;
      expect(Math.hypot(made.x - read.x, made.y - read.y)).toBeLessThan(600);
      expect(overlaps(after.scene, () => true)).toEqual(
        overlaps(before.scene, () => true)
      );
    }
  });

  it('is drawn however far away somebody says that it is', () => {
    for (const far of [1e300, -1e300, 1e12]) {
      const { scene } = draw(withPlaces(document, place(key, far, far)), first);
      expect(Math.abs(scene.byKey.get(key)?.x ?? NaN)).toBeLessThanOrEqual(1e6);
    }
  });
});
