/** Where things stand when operations become a group, and when the group is put back. */

import { describe, expect, it } from 'vitest';

import { placesInGroup, placesOutOfGroup } from '../src/core/layout/regrouping';
import type { IItem, IScene } from '../src/core/model/scene';
import type { IGraphDocument, IPlace } from '../src/proto/document';
import { threeOps } from './fixtures';
import { draw } from './movement';

const spot = (scene: IScene, key: string): { x: number; y: number } => {
  const { x = NaN, y = NaN } = scene.byKey.get(key) ?? {};
  return { x, y };
};

/** `document` after its operations `ids` were grouped. */
function grouped(document: IGraphDocument, ids: readonly string[], places: readonly IPlace[]): IGraphDocument {
  const nodes = document.nodes.map(node => (ids.includes(node.id) ? { ...node, scope: 'hidden' } : node));
  const scopes = [...document.scopes, { path: 'hidden', label: 'hidden', type: '', fingerprint: 'h' }];
  const named = places.map(place => (place.key === '' ? { ...place, key: 'box:hidden' } : place));
  const others = (document.places ?? []).filter(place => !named.some(one => one.key === place.key));
  return { ...document, nodes, scopes, places: [...others, ...named] };
}

describe.each(['down', 'right'] as const)('in a graph that runs %s', direction => {
  const document = threeOps();
  const [a = '', b = ''] = document.nodes.map(node => node.id);
  const placed = { ...document, places: [{ key: a, x: 300, y: 90, pinned: true }] };

  it('what is grouped, and what is put back, stays where it was seen', () => {
    const before = draw(placed, null, direction);
    const items = [a, b].map(key => before.scene.byKey.get(key) as IItem);
    const inside = placesInGroup(before.model, before.scene, items);
    expect(inside.map(place => [place.key, place.pinned])).toEqual([[a, true], [b, false], ['', false]]);
    const group = draw(grouped(placed, [a, b], inside), null, direction);
    const box = group.scene.byKey.get('box:hidden') as IItem;
    expect(box.container).not.toBeNull();
    const apart = (scene: IScene): { x: number; y: number } => ({
      x: spot(scene, b).x - spot(scene, a).x,
      y: spot(scene, b).y - spot(scene, a).y
    });
    for (const side of ['x', 'y'] as const) {
      expect(Math.abs(apart(group.scene)[side] - apart(before.scene)[side])).toBeLessThan(4);
      expect(Math.abs(spot(group.scene, a)[side] - spot(before.scene, a)[side])).toBeLessThan(4);
    }
    const outside = placesOutOfGroup(group.model, group.scene, box);
    const back = draw({ ...placed, places: outside }, null, direction);
    for (const key of [a, b]) {
      for (const side of ['x', 'y'] as const) {
        expect(Math.abs(spot(back.scene, key)[side] - spot(group.scene, key)[side])).toBeLessThan(2);
      }
    }
    expect(outside.find(place => place.key === a)?.pinned).toBe(true);
  });

  it('nothing gets a place where nobody has put anything somewhere', () => {
    const { model, scene } = draw(document, null, direction);
    const items = [a, b].map(key => scene.byKey.get(key) as IItem);
    expect(placesInGroup(model, scene, items)).toEqual([]);
    const group = draw(grouped(document, [a, b], []), null, direction);
    expect(placesOutOfGroup(group.model, group.scene, group.scene.byKey.get('box:hidden') as IItem)).toEqual([]);
  });
});
