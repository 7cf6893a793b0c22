/**
 * How far what is drawn moves when one operation is put into a graph.
 *
 * At each of `INSERTS` places, spread evenly over the operations, a new operation is put on all edges
 * that leave one operation. Each insert is done in the same first layout, as a view does it. The
 * movement of an item is the distance of its middle before and after, on the canvas, in widths of a node:
 * the mean width of all items. Boxes, and what is new, are not counted.
 */

import type { IGraphDocument, INode, IPlace, IValue } from '../src/proto/document';
import { applyLayout, makeRequest } from '../src/core/layout/apply';
import { layoutHierarchy } from '../src/core/layout/hierarchy';
import { heldIn, placesOf } from '../src/core/layout/places';
import { seedsOf } from '../src/core/layout/seeds';
import { roughMeasure } from '../src/core/model/metrics';
import { buildScene, type IScene } from '../src/core/model/scene';
import type { Direction } from '../src/core/model/flow';
import type { GraphModel } from '../src/core/model/graph';
import { headerWidth } from '../src/core/render/labels';
import { allBoxes, load } from './scene';

export const INSERTS = 10;

/** The window of a view in a notebook: taller layouts are broken into columns. */
const ROOM = { w: 1000, h: 500 };

interface IDrawn {
  model: GraphModel;
  scene: IScene;
}

export interface IMovement {
  /** In widths of a node: the mean of all items and inserts, and the farthest of all. */
  mean: number;
  most: number;
  /** Of the insert with the largest mean. */
  worst: number;
  /** The farthest that something with a place went, in units of the canvas. */
  placed: number;
}

/** The picture of `document`, after that of `before` if there is one. */
export function draw(document: IGraphDocument, before: IDrawn | null, direction: Direction = 'down'): IDrawn {
  const model = load(document);
  const scene = buildScene(model, { expanded: allBoxes(model), chips: true, direction });
  const seeds = before === null ? null : seedsOf(before, { scene, model });
  const places = placesOf(model);
  const request = makeRequest(scene, item => headerWidth(item, roughMeasure), 5000, ROOM, container =>
    heldIn(container, places, scene.direction, model, before)
  );
  applyLayout(scene, layoutHierarchy(request, new Map(), () => 0, seeds ?? []));
  return { model, scene };
}

/** `document` with an operation more, behind the one at `at`. */
export function inserted(document: IGraphDocument, at: number): IGraphDocument {
  const made = JSON.parse(JSON.stringify(document)) as IGraphDocument;
  const node = made.nodes[at] as INode;
  const [value] = node.results as [string];
  const old = made.values.find(v => v.id === value) as IValue;
  made.values.push({ ...old, id: 'vnew' });
  for (const other of made.nodes) {
    other.operands = other.operands.map(id => (id === value ? 'vnew' : id));
  }
  made.nodes.splice(at + 1, 0, { ...node, id: 'nnew', op: 'relu', name: 'relu', operands: [value], results: ['vnew'], attrs: {} });
  return made;
}

export function movement(document: IGraphDocument): IMovement {
  const before = draw(document, null);
  const items = before.scene.items.filter(item => item.container === null);
  const width = items.reduce((sum, item) => sum + item.w, 0) / items.length;
  const placed = new Set((document.places ?? []).map((place: IPlace) => place.key));
  const means: number[] = [];
  let most = 0;
  let farthest = 0;
  for (let n = 0; n < INSERTS; n += 1) {
    const at = Math.floor(((n + 0.5) * document.nodes.length) / INSERTS);
    const after = draw(inserted(document, at), before);
    let sum = 0;
    for (const item of items) {
      const now = after.scene.byKey.get(item.key);
      if (now === undefined) {
        throw new Error(`${item.key} is drawn no more`);
      }
      const way = Math.hypot(now.x + now.w / 2 - item.x - item.w / 2, now.y + now.h / 2 - item.y - item.h / 2);
      sum += way / width;
      most = Math.max(most, way / width);
      farthest = placed.has(item.key) ? Math.max(farthest, way) : farthest;
    }
    means.push(sum / items.length);
  }
  const mean = means.reduce((sum, one) => sum + one, 0) / means.length;
  return { mean, most, worst: Math.max(...means), placed: farthest };
}

/** `document` with places for every tenth operation, where people may have put it: off its column. */
export function arranged(document: IGraphDocument): IGraphDocument {
  const { scene } = draw(document, null);
  const places = scene.items
    .filter((item, n) => item.node !== null && item.parent === scene.root && n % 10 === 0)
    .map((item, n) => ({ key: item.key, x: item.x + 70 - (n % 3) * 70, y: item.y + 45, pinned: n % 2 === 0 }));
  return { ...document, places };
}
