/** Between the scene and the layout: builds the request, writes the answer back as world positions. */

import { turnedPoint, turnedSize, type Direction } from '../model/flow';
import { METRICS, monoWidth } from '../model/metrics';
import { End, type IContainer, type IEdge, type IItem, type IScene } from '../model/scene';
import type { IHeld } from './held';
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
  room?: IRoom,
  hold: (container: IContainer) => IHeld | null = () => null
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
    const sizes = container.items.map(item => turnedSize(scene.direction, item));
    const held = hold(container);
    return {
      w: sizes.map(size => size.w),
      h: sizes.map(size => size.h),
      stub: scene.direction === 'down' ? [] : labelRoom(container),
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
      ...(held === null ? {} : { held }),
      ...(isRoot ? NO_FRAME : frameOf(scene.direction, headerWidth(container.item)))
    };
  });
  return {
    containers,
    nodeGap: METRICS.nodeGap,
    edgeGap: METRICS.edgeGap,
    layerGap: METRICS.layerGap,
    stubGap: METRICS.stubGap,
    budgetMs,
    ...(room === undefined ? {} : { room: turnedSize(scene.direction, room) })
  };
}

/** What a container keeps free around its inside, and its least size, in the space of the flow. */
type Frame = Pick<
  ILayoutContainer,
  'padTop' | 'padBottom' | 'padLeft' | 'padRight' | 'minWidth' | 'minHeight'
>;

const NO_FRAME: Frame = { padTop: 0, padBottom: 0, padLeft: 0, padRight: 0, minWidth: 0, minHeight: 0 };

/** The frame of an unfolded box: its header stands on top of it whichever way the graph runs. */
function frameOf(direction: Direction, header: number): Frame {
  const { boxHeader, boxPadTop, boxPadX, boxPadY } = METRICS;
  const top = boxHeader + boxPadTop;
  return direction === 'down'
    ? { padTop: top, padBottom: boxPadY, padLeft: boxPadX, padRight: boxPadX, minWidth: header, minHeight: 0 }
    : { padTop: boxPadX, padBottom: boxPadX, padLeft: top, padRight: boxPadY, minWidth: 0, minHeight: header };
}

/** Beside the type on an edge that runs to the right. */
const LABEL_MARGIN = 16;

/** Of every child, the room behind it in which the types on its edges stand along the line. */
function labelRoom({ items, edges }: IContainer): number[] {
  const room = new Array<number>(items.length).fill(0);
  for (const { srcEnd, src, label, isTurn } of edges) {
    if (srcEnd === End.Child && label !== '' && !isTurn) {
      const width = monoWidth(label, METRICS.edgeFont) + LABEL_MARGIN;
      room[src] = Math.max(num(room[src]), width);
    }
  }
  return room;
}

/** Writes positions in world units into the items of `scene`, and points in the space of the flow. */
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
    container.origin = result.origin ?? { x: 0, y: 0 };
    container.autoX = result.autoX ?? null;
    container.autoY = result.autoY ?? null;
    Object.assign(item, turnedSize(scene.direction, result));
    if (item === scene.root) {
      // Its origin is that of the world.
      item.x = -container.origin.x;
      item.y = -container.origin.y;
    }
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
  // Until here the places, too, were those of the flow.
  for (const item of [scene.root, ...scene.items]) {
    Object.assign(item, turnedPoint(scene.direction, item));
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
