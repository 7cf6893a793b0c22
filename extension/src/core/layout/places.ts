/**
 * The places that people gave things, between a document and a layout. A place is where the top left
 * corner of an item is drawn in a graph that runs down, from the origin of the box that it is in; the
 * origin moves with the box. In a graph that runs to the right what stood below stands to the right, in
 * the same order and on the same lines, with room for names that are wider than high.
 */

import type { IPlace } from '../../proto/document';
import { turnedPoint, type Direction } from '../model/flow';
import type { GraphModel } from '../model/graph';
import type { IContainer, IItem } from '../model/scene';
import type { IHeld } from './held';
import { keyOf, type ILaidOut } from './seeds';
import { num } from '../num';

interface IPoint {
  x: number;
  y: number;
}

interface ISize {
  w: number;
  h: number;
}

/** From one item to the next along the flow it is this much farther to the right than it is down. */
const ALONG = 3.25;
/** From one item to the next across the flow it is this much farther down than it is to the right. */
const ACROSS = 0.6;

/** Where a place is drawn, from the same origin, of something of a size that is known. */
export function drawnAt(direction: Direction, { x, y }: IPoint, { w, h }: ISize): IPoint {
  return direction === 'down' ? { x, y } : { x: y * ALONG, y: (x + w / 2) * ACROSS - h / 2 };
}

/** The place of what is drawn at a point: what `drawnAt` leads back to it. */
export function placeAt(direction: Direction, { x, y }: IPoint, { w, h }: ISize): IPoint {
  return direction === 'down' ? { x, y } : { x: (y + h / 2) / ACROSS - w / 2, y: x / ALONG };
}

/** What of the size of an item is known before its layout: a module that is unfolded has none yet. */
function sizeOf({ container, w, h }: IItem): ISize {
  return container === null ? { w, h } : { w: 0, h: 0 };
}

/** Nothing is drawn farther away than this. */
const FARTHEST = 1e6;

const near = (value: number): number => Math.min(FARTHEST, Math.max(-FARTHEST, value));

/** The places of a document by the keys of what stands there. */
export function placesOf(model: GraphModel): ReadonlyMap<string, IPlace> {
  const places = model.document.places ?? [];
  return new Map(places.map(place => [place.key, { ...place, x: near(place.x), y: near(place.y) }]));
}

/** Where the origin of places is, in the world, of what is in `container`. */
export function originOf(container: IContainer, direction: Direction): IPoint {
  const { item } = container;
  const origin = turnedPoint(direction, container.origin);
  return { x: item.x + origin.x, y: item.y + origin.y };
}

/** The place that `item` has by where it is drawn, or would have if it were drawn `dx` and `dy` farther. */
export function placeOf(item: IItem, direction: Direction, dx = 0, dy = 0): IPoint {
  const { x, y } = offsetOf(item, direction);
  return placeAt(direction, { x: x + dx, y: y + dy }, sizeOf(item));
}

/** Where `item` is drawn, from the origin of what it is in. */
export function offsetOf(item: IItem, direction: Direction): IPoint {
  const container = item.parent?.container ?? null;
  const origin = container === null ? { x: 0, y: 0 } : originOf(container, direction);
  return { x: item.x - origin.x, y: item.y - origin.y };
}

/**
 * What the layout of `container` has to respect; null where nothing in it has a place. `before` is the
 * picture that it follows, null where it is laid out anew.
 */
export function heldIn(
  container: IContainer,
  places: ReadonlyMap<string, IPlace>,
  direction: Direction,
  model: GraphModel,
  before: ILaidOut | null
): IHeld | null {
  const { items, item } = container;
  if (places.size === 0 || !items.some(child => places.has(child.key))) {
    return null;
  }
  const root = item.parent === null ? before?.scene.root : before?.scene.byKey.get(item.key);
  const old = root?.container ?? null;
  const points = items.map(child => {
    const place = places.get(child.key);
    return place === undefined ? null : turnedPoint(direction, drawnAt(direction, place, sizeOf(child)));
  });
  const was = items.map(child => wasIn(old, before, child.key));
  return {
    isKept: old !== null,
    x: points.map(point => point?.x ?? Number.NaN),
    y: points.map(point => point?.y ?? Number.NaN),
    placed: points.map(point => (point === null ? 0 : 1)),
    autoX: was.map(one => one.autoX),
    autoY: was.map(one => one.autoY),
    wasX: was.map(one => one.x),
    wasY: was.map(one => one.y),
    paths: pathsIn(container, old, before, model)
  };
}

interface IWas extends IPoint {
  autoX: number;
  autoY: number;
}

const NOWHERE: IWas = { x: Number.NaN, y: Number.NaN, autoX: Number.NaN, autoY: Number.NaN };

/** Where the child with a key stood in `old`, in the space of the flow, from the origin. */
function wasIn(old: IContainer | null, before: ILaidOut | null, key: string): IWas {
  const child = before?.scene.byKey.get(key);
  if (old === null || before === null || child?.parent !== old.item) {
    return NOWHERE;
  }
  const { x, y } = turnedPoint(before.scene.direction, offsetOf(child, before.scene.direction));
  const number = child.order;
  return { x, y, autoX: old.autoX?.[number] ?? x, autoY: old.autoY?.[number] ?? y };
}

function pathsIn(
  container: IContainer,
  old: IContainer | null,
  before: ILaidOut | null,
  model: GraphModel
): (number[] | null)[] {
  if (old === null || before === null) {
    return container.edges.map(() => null);
  }
  const { direction } = before.scene;
  const origin = turnedPoint(direction, originOf(old, direction));
  const lines = new Map(old.edges.map(edge => [keyOf(edge, before.model), edge.points]));
  return container.edges.map(edge => {
    const points = lines.get(keyOf(edge, model));
    return points === undefined || points.length < 4
      ? null
      : Array.from(points, (value, k) => value - (k % 2 === 0 ? num(origin.x) : num(origin.y)));
  });
}
