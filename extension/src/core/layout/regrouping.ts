/**
 * Where things stand when operations become a group, or a group is put back: where the person saw them.
 * Places are written only where somebody has put one of the things somewhere; the layout has the others.
 */

import type { IPlace } from '../../proto/document';
import type { GraphModel } from '../model/graph';
import { METRICS } from '../model/metrics';
import type { IItem, IScene } from '../model/scene';
import { offsetOf, originOf, placeAt, placeOf, placesOf } from './places';

/** From the corner of a box to the corner of what stands in it. */
const INSET = { x: METRICS.boxPadX, y: METRICS.boxHeader + METRICS.boxPadTop };

const rounded = (key: string, { x, y }: { x: number; y: number }, pinned: boolean): IPlace => ({
  key,
  x: Math.round(x),
  y: Math.round(y),
  pinned
});

/** Places of what is grouped, in the group, and of the group, without a key; none where no one has one. */
export function placesInGroup(model: GraphModel, { direction }: IScene, items: readonly IItem[]): IPlace[] {
  const known = placesOf(model);
  const isTogether = items.every(item => item.parent === items[0]?.parent);
  if (!isTogether || !items.some(item => known.has(item.key))) {
    return [];
  }
  const now = items.map(item => ({ key: item.key, ...placeOf(item, direction) }));
  const x = Math.min(...now.map(one => one.x));
  const y = Math.min(...now.map(one => one.y));
  const drawn = items.map(item => offsetOf(item, direction));
  const corner = { x: Math.min(...drawn.map(one => one.x)) - INSET.x, y: Math.min(...drawn.map(one => one.y)) - INSET.y };
  return [
    ...now.map(one => rounded(one.key, { x: one.x - x, y: one.y - y }, known.get(one.key)?.pinned ?? false)),
    rounded('', placeAt(direction, corner, { w: 0, h: 0 }), false)
  ];
}

/** Places of what stands in the group `box`, in what the group stands in; none where no one has one. */
export function placesOutOfGroup(model: GraphModel, scene: IScene, box: IItem): IPlace[] {
  const known = placesOf(model);
  const outer = box.parent?.container ?? null;
  const origin = outer === null ? { x: 0, y: 0 } : originOf(outer, scene.direction);
  if (box.container === null) {
    return foldedPlaces(model, box, placeOf(box, scene.direction));
  }
  const { items } = box.container;
  if (!known.has(box.key) && !items.some(item => known.has(item.key))) {
    return [];
  }
  return items.map(item => {
    const size = item.container === null ? item : { w: 0, h: 0 };
    const place = placeAt(scene.direction, { x: item.x - origin.x, y: item.y - origin.y }, size);
    return rounded(item.key, place, known.get(item.key)?.pinned ?? false);
  });
}

/** Of a group that is folded nobody sees how it is laid out: what has a place keeps it, from its corner. */
function foldedPlaces(model: GraphModel, { box }: IItem, corner: { x: number; y: number }): IPlace[] {
  if (box === null) {
    return [];
  }
  const known = placesOf(model);
  const keys = [
    ...box.nodes.map(index => model.nodes[index]?.node.id ?? ''),
    ...box.children.map(child => `box:${child.path}`)
  ];
  const placed = keys.flatMap(key => known.get(key) ?? []);
  const x = Math.min(...placed.map(place => place.x));
  const y = Math.min(...placed.map(place => place.y));
  return placed.map(place =>
    rounded(place.key, { x: corner.x + INSET.x + place.x - x, y: corner.y + INSET.y + place.y - y }, place.pinned)
  );
}

