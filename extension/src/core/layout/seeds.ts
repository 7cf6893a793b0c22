/** Between two scenes of one view: what the layout of the first says about the containers of the second. */

import type { GraphModel } from '../model/graph';
import { End, type IContainer, type IEdge, type IScene } from '../model/scene';
import { at } from '../narrow';
import { containersOf } from './apply';
import type { ISeed } from './seeded';
import { num } from '../num';

/** With fewer of its items known, a scene is laid out anew: nothing is left to hold on to. */
const LEAST_KNOWN = 0.7;

/** More items than this are laid out beside the page, where a seed would not be at hand. */
const MAX_ITEMS = 4000;

export interface ILaidOut {
  scene: IScene;
  model: GraphModel;
}

/**
 * The seeds of the containers of `next` in the order of a layout request; null where the two scenes
 * have too little in common.
 */
export function seedsOf(before: ILaidOut, next: ILaidOut): (ISeed | null)[] | null {
  const { items } = next.scene;
  const known = items.filter(item => before.scene.byKey.has(item.key)).length;
  if (items.length > MAX_ITEMS || known < items.length * LEAST_KNOWN) {
    return null;
  }
  return containersOf(next.scene.root).map(container => {
    const { item } = container;
    const old = item.parent === null ? before.scene.root : before.scene.byKey.get(item.key);
    return old?.container === null || old?.container === undefined
      ? null
      : seedOf(old.container, before.model, container, next.model);
  });
}

/** Names an edge by what it joins, the same in every scene. */
function keyOf(edge: IEdge, model: GraphModel): string {
  const value = model.values[edge.values[0] ?? -1]?.value.id ?? '';
  const ends = `${edge.srcEnd}${edge.from?.key ?? ''} ${edge.dstEnd}${edge.to?.key ?? ''}`;
  return `${ends} ${value}${edge.isTurn ? ' turn' : ''}`;
}

/** The places of ports, by the value that passes, where an edge meets them. */
function portsOf(container: IContainer, model: GraphModel, side: End): Map<string, number> {
  const found = new Map<string, number>();
  for (const edge of container.edges) {
    const isFrom = edge.srcEnd === side;
    if ((isFrom || edge.dstEnd === side) && edge.points.length >= 4) {
      const value = model.values[edge.values[0] ?? -1]?.value.id ?? '';
      found.set(value, num(edge.points[isFrom ? 0 : edge.points.length - 2]));
    }
  }
  return found;
}

/** Index of the first of `sorted` that is not below `least`. */
function firstFrom(sorted: readonly number[], least: number): number {
  let lo = 0;
  let hi = sorted.length;
  while (lo < hi) {
    const middle = (lo + hi) >> 1;
    if (at(sorted, middle) < least) {
      lo = middle + 1;
    } else {
      hi = middle;
    }
  }
  return lo;
}

function seedOf(
  old: IContainer,
  oldModel: GraphModel,
  container: IContainer,
  model: GraphModel
): ISeed {
  const middles = old.items.map(item => item.y + item.h / 2);
  const mid: number[] = [];
  for (const y of [...middles].sort((a, b) => a - b)) {
    if (mid.length === 0 || y - at(mid, mid.length - 1) > 0.5) {
      mid.push(y);
    }
  }
  if (old.nIn > 0) {
    mid.unshift(old.item.y);
  }
  if (old.nOut > 0) {
    mid.push(old.item.y + old.item.h);
  }
  const places = new Map(old.items.map((item, i) => [item.key, i]));
  const layers = new Map<number, number>();
  middles.forEach((y, i) => layers.set(i, firstFrom(mid, y - 0.5)));
  const { items, nIn, nOut } = container;
  const n = items.length;
  const x = new Float64Array(n + nIn + nOut).fill(Number.NaN);
  const layer = new Int32Array(n + nIn + nOut).fill(-1);
  items.forEach(({ key }, i) => {
    const place = places.get(key);
    const was = place === undefined ? undefined : old.items[place];
    if (place !== undefined && was !== undefined) {
      x[i] = was.x + was.w / 2;
      layer[i] = layers.get(place) ?? -1;
    }
  });
  const port = (side: End, ports: ReadonlyMap<number, number>, first: number, level: number): void => {
    const known = portsOf(old, oldModel, side);
    for (const [value, index] of ports) {
      const place = known.get(model.values[value]?.value.id ?? '');
      if (place !== undefined) {
        x[first + index] = place;
        layer[first + index] = level;
      }
    }
  };
  if (old.nIn > 0) {
    port(End.In, container.inPorts, n, 0);
  }
  if (old.nOut > 0) {
    port(End.Out, container.outPorts, n + nIn, mid.length - 1);
  }
  const lines = new Map(old.edges.map(edge => [keyOf(edge, oldModel), edge.points]));
  const paths = container.edges.map(edge => {
    const points = lines.get(keyOf(edge, model));
    return points === undefined || points.length < 4 ? null : points;
  });
  return { x, layer, mid: Float64Array.from(mid), paths };
}
