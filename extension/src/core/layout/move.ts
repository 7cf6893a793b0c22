/** Items that are moved by hand: all that is in them comes along, and lines to them are drawn anew. */

import { offsetOf } from './places';
import { between, route } from './route';
import { turned, turnedPoint } from '../model/flow';
import { End, type IContainer, type IEdge, type IItem, type IScene } from '../model/scene';
import { num } from '../num';

/** What is moved, and how it was before. */
export class Move {
  private readonly _roots: readonly IItem[];
  private readonly _starts = new Map<IItem, { x: number; y: number }>();
  private readonly _lines = new Map<IEdge, Float32Array>();
  /** Lines that are moved as they are, and those that are drawn anew. */
  private readonly _carried: IEdge[] = [];
  private readonly _met = new Set<IEdge>();
  private readonly _containers: IContainer[] = [];

  constructor(
    private readonly _scene: IScene,
    items: readonly IItem[]
  ) {
    const chosen = new Set(items);
    const isInside = (item: IItem): boolean => {
      for (let up = item.parent; up !== null; up = up.parent) {
        if (chosen.has(up)) {
          return true;
        }
      }
      return false;
    };
    this._roots = items.filter(item => !isInside(item));
    const roots = new Set(this._roots);
    for (const root of this._roots) {
      this._take(root);
      const container = root.parent?.container ?? null;
      if (container !== null && !this._containers.includes(container)) {
        this._containers.push(container);
        this._remember(container);
        for (const edge of container.edges) {
          const isFrom = edge.from !== null && roots.has(edge.from);
          const isTo = edge.to !== null && roots.has(edge.to);
          if (isFrom || isTo) {
            this._lines.set(edge, edge.points);
            if (isFrom && isTo) {
              this._carried.push(edge);
            } else {
              this._met.add(edge);
            }
          }
        }
      }
    }
  }

  get items(): readonly IItem[] {
    return this._roots;
  }

  by(dx: number, dy: number): void {
    for (const [item, { x, y }] of this._starts) {
      item.x = x + dx;
      item.y = y + dy;
    }
    const flow = turnedPoint(this._scene.direction, { x: dx, y: dy });
    for (const edge of this._carried) {
      edge.points = (this._lines.get(edge) ?? edge.points).map((v, k) => v + (k % 2 === 0 ? flow.x : flow.y));
    }
    this._met.forEach(edge => this._reroute(edge));
  }

  back(): void {
    this.by(0, 0);
    for (const [edge, points] of this._lines) {
      edge.points = points;
    }
  }

  /** An item with all that is in it. */
  private _take(item: IItem): void {
    this._starts.set(item, { x: item.x, y: item.y });
    for (const edge of item.container?.edges ?? []) {
      this._lines.set(edge, edge.points);
      this._carried.push(edge);
    }
    item.container?.items.forEach(inner => this._take(inner));
  }

  /** Where things stand that have no place: there they go when they lose theirs. */
  private _remember(container: IContainer): void {
    if (container.autoX !== null) {
      return;
    }
    const { direction } = this._scene;
    const points = container.items.map(item => turnedPoint(direction, offsetOf(item, direction)));
    container.autoX = Float64Array.from(points, point => point.x);
    container.autoY = Float64Array.from(points, point => point.y);
  }

  private _reroute(edge: IEdge): void {
    const { direction } = this._scene;
    const was = this._lines.get(edge) ?? edge.points;
    if (was.length < 4) {
      return;
    }
    const block = (item: IItem): { x: number; y: number; w: number; h: number } => turned(direction, item);
    // Where the line met its ends, from their middles.
    const meets = (item: IItem | null, x: number): number => {
      const start = item === null ? undefined : this._starts.get(item);
      return item === null ? 0 : x - middleOf(turned(direction, { ...item, ...start }));
    };
    const [sx, sy] = [num(was[0]), num(was[1])];
    const [tx, ty] = [num(was[was.length - 2]), num(was[was.length - 1])];
    const { from, to } = edge;
    if (from !== null && to !== null && edge.srcEnd === End.Child && edge.dstEnd === End.Child) {
      edge.points = route(block(from), block(to), meets(from, sx), meets(to, tx));
    } else if (from !== null && edge.srcEnd === End.Child) {
      const own = block(from);
      edge.points = between(middleOf(own) + meets(from, sx), own.y + own.h, tx, ty);
    } else if (to !== null) {
      const own = block(to);
      edge.points = between(sx, sy, middleOf(own) + meets(to, tx), own.y);
    }
    edge.isAround = edge.points.length > 8 && !edge.isTurn;
  }
}

function middleOf({ x, w }: { x: number; w: number }): number {
  return x + w / 2;
}

/** The same order with even gaps between the first and the last. */
export function spread(starts: readonly number[], sizes: readonly number[]): number[] {
  const order = [...starts.keys()].sort((a, b) => num(starts[a]) - num(starts[b]));
  const [first = 0] = order;
  const last = order[order.length - 1] ?? 0;
  const room = num(starts[last]) + num(sizes[last]) - num(starts[first]);
  const taken = sizes.reduce((sum, size) => sum + size, 0);
  const gap = (room - taken) / Math.max(1, order.length - 1);
  const made = [...starts];
  let at = num(starts[first]);
  for (const n of order) {
    made[n] = at;
    at += num(sizes[n]) + gap;
  }
  return made;
}
