/** Between the scene and the layout: builds the request, writes the answer back as world positions. */

import { METRICS } from '../model/metrics';
import { End, type IContainer, type IEdge, type IItem, type IScene } from '../model/scene';
import type { ILayoutContainer, ILayoutRequest, ILayoutResult } from './hierarchy';
import type { IRoom } from './wrap';
import { at } from '../narrow';
import { num } from '../num';

/** Containers of a scene in the order of a layout request: inner before outer. */
export function containersOf(root: IItem): IContainer[] {
  const found: IContainer[] = [];
  const visit = (item: IItem): void => {
    if (item.container !== null) {
      for (const child of item.container.items) {
        if (child.container !== null) {
          visit(child);
        }
      }
      found.push(item.container);
    }
  };
  visit(root);
  return found;
}

export function makeRequest(
  scene: IScene,
  headerWidth: (item: IItem) => number,
  budgetMs: number,
  room?: IRoom
): ILayoutRequest {
  const order = containersOf(scene.root);
  const indexOf = new Map<IContainer, number>();
  order.forEach((container, i) => indexOf.set(container, i));
  const containers = order.map((container): ILayoutContainer => {
    const n = container.items.length;
    const isRoot = container.item.kind === 'root';
    const end = (side: End, child: number, port: number): number =>
      side === End.Child ? child : n + (side === End.In ? port : container.nIn + port);
    const edges = container.edges;
    return {
      w: container.items.map(item => item.w),
      h: container.items.map(item => item.h),
      nested: container.items.map(item =>
        item.container === null ? -1 : (indexOf.get(item.container) ?? -1)
      ),
      nIn: container.nIn,
      nOut: container.nOut,
      src: edges.map(e => end(e.srcEnd, e.src, e.srcPort)),
      srcPort: edges.map(e => (e.srcEnd === End.Child ? e.srcPort : -1)),
      dst: edges.map(e => end(e.dstEnd, e.dst, e.dstPort)),
      dstPort: edges.map(e => (e.dstEnd === End.Child ? e.dstPort : -1)),
      turn: edges.map(e => (e.isTurn ? 1 : 0)),
      padTop: isRoot ? 0 : METRICS.boxHeader + METRICS.boxPadTop,
      padX: isRoot ? 0 : METRICS.boxPadX,
      padBottom: isRoot ? 0 : METRICS.boxPadY,
      minWidth: isRoot ? 0 : headerWidth(container.item)
    };
  });
  return {
    containers,
    nodeGap: METRICS.nodeGap,
    edgeGap: METRICS.edgeGap,
    layerGap: METRICS.layerGap,
    stubGap: METRICS.stubGap,
    budgetMs,
    ...(room === undefined ? {} : { room })
  };
}

/** Writes positions and edge points, in world units, into the items of `scene`. */
export function applyLayout(scene: IScene, results: readonly ILayoutResult[]): void {
  const order = containersOf(scene.root);
  // Outer before inner: a child needs the place of its parent.
  for (let i = order.length - 1; i >= 0; i -= 1) {
    const container = at(order, i);
    const result = results[i];
    if (result === undefined) {
      continue;
    }
    const { item } = container;
    container.columns = result.columns;
    item.w = result.w;
    item.h = result.h;
    container.items.forEach((child, k) => {
      child.x = item.x + num(result.x[k]);
      child.y = item.y + num(result.y[k]);
    });
    container.edges.forEach((edge: IEdge, k) => {
      const relative = result.paths[k];
      if (relative === undefined) {
        return;
      }
      const points = new Float32Array(relative.length);
      for (let p = 0; p < points.length; p += 2) {
        points[p] = num(relative[p]) + item.x;
        points[p + 1] = num(relative[p + 1]) + item.y;
      }
      edge.isAround = goesUp(points) && !edge.isTurn;
      edge.points = points;
    });
  }
}

/** True for a line that goes around the end of a column. */
function goesUp(points: Float32Array): boolean {
  for (let p = 3; p < points.length; p += 2) {
    if (num(points[p]) < num(points[p - 2]) - 0.5) {
      return true;
    }
  }
  return false;
}
