/** Between two scenes of one view: what the layout of the first says about the containers of the second. */

import { turned } from '../model/flow';
import type { GraphModel } from '../model/graph';
import { End, type IColumns, type IContainer, type IEdge, type IScene } from '../model/scene';
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
  const isTurned = before.scene.direction !== next.scene.direction;
  if (isTurned || items.length > MAX_ITEMS || known < items.length * LEAST_KNOWN) {
    return null;
  }
  return containersOf(next.scene.root).map(container => {
    const { item } = container;
    const old = item.parent === null ? before.scene.root : before.scene.byKey.get(item.key);
    // Where people put things, the layers of the picture before are not those of a layout.
    return old?.container === null || old?.container === undefined || old.container.autoX !== null
      ? null
      : seedOf(old.container, before, container, next.model);
  });
}

/** Names an edge by what it joins, the same in every scene. */
export function keyOf(edge: IEdge, model: GraphModel): string {
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
  { scene, model: oldModel }: ILaidOut,
  container: IContainer,
  model: GraphModel
): ISeed {
  const { columns } = old;
  // How far what stands in a column was moved to get there.
  const moved = (i: number): { dx: number; dy: number } => {
    const column = num(columns?.of[i] ?? 0);
    return { dx: columns?.dx[column] ?? 0, dy: columns?.dy[column] ?? 0 };
  };
  const rects = old.items.map(item => turned(scene.direction, item));
  const border = turned(scene.direction, old.item);
  const middles = rects.map(({ y, h }, i) => y + h / 2 - moved(i).dy);
  const mid: number[] = [];
  for (const y of [...middles].sort((a, b) => a - b)) {
    if (mid.length === 0 || y - at(mid, mid.length - 1) > 0.5) {
      mid.push(y);
    }
  }
  if (old.nIn > 0) {
    mid.unshift(border.y);
  }
  if (old.nOut > 0) {
    mid.push(Math.max(border.y + border.h, ...mid));
  }
  const places = new Map(old.items.map((item, i) => [item.key, i]));
  const layers = new Map<number, number>();
  middles.forEach((y, i) => layers.set(i, firstFrom(mid, y - 0.5)));
  const { items, nIn, nOut } = container;
  const n = items.length;
  const x = new Float64Array(n + nIn + nOut).fill(Number.NaN);
  const layer = new Int32Array(n + nIn + nOut).fill(-1);
  const column = new Int32Array(n + nIn + nOut).fill(-1);
  items.forEach(({ key }, i) => {
    const place = places.get(key);
    const was = place === undefined ? undefined : rects[place];
    if (place !== undefined && was !== undefined) {
      x[i] = was.x + was.w / 2 - moved(place).dx;
      column[i] = columns?.of[place] ?? 0;
      layer[i] = layers.get(place) ?? -1;
    }
  });
  const port = (side: End, ports: ReadonlyMap<number, number>, first: number, level: number): void => {
    const known = portsOf(old, oldModel, side);
    for (const [value, index] of ports) {
      const place = known.get(model.values[value]?.value.id ?? '');
      if (place !== undefined) {
        const end = columns === null ? 0 : side === End.In ? 0 : columns.dx.length - 1;
        x[first + index] = place - (columns?.dx[end] ?? 0);
        column[first + index] = end;
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
  if (columns === null) {
    return { x, layer, mid: Float64Array.from(mid), paths };
  }
  const straightened = paths.map((points, e) => {
    const { from } = at(container.edges, e);
    const place = from === null ? undefined : places.get(from.key);
    const first = place === undefined ? 0 : num(columns.of[place]);
    return points === null ? null : unwrapped(points, columns, first);
  });
  return { x, layer, mid: Float64Array.from(mid), paths: straightened, columns: { of: column, dx: columns.dx, dy: columns.dy } };
}

/** The points of a line as they were before it was led around the ends of columns. */
function unwrapped(points: Float32Array, columns: IColumns, first: number): Float32Array {
  const found: number[] = [];
  let column = first;
  let lowest = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < points.length; i += 2) {
    if (num(points[i + 3]) < num(points[i + 1]) - 0.5) {
      // Up beside the column: neither end of that is on the way down.
      column = Math.min(column + 1, columns.dx.length - 1);
      i += 2;
      continue;
    }
    lowest = Math.max(lowest, num(points[i + 1]) - num(columns.dy[column]));
    found.push(num(points[i]) - num(columns.dx[column]), lowest);
  }
  return Float32Array.from(found);
}
