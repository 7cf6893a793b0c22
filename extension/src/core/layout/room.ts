/** What stands where, and the nearest place that is free. */

import { num } from '../num';

export interface IBlock {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Side of the squares by which blocks are found. */
const CELL = 256;

/** Rings that are searched around a wanted place, each of up to this many spots. */
const RINGS = 200;

export class Room {
  private readonly _cells = new Map<string, IBlock[]>();
  private _bounds: IBlock | null = null;

  /** What all blocks together take; null where there is none. */
  get bounds(): IBlock | null {
    return this._bounds;
  }

  add(block: IBlock): void {
    for (const key of keysOf(block, 0)) {
      const cell = this._cells.get(key);
      if (cell === undefined) {
        this._cells.set(key, [block]);
      } else {
        cell.push(block);
      }
    }
    const { _bounds: old } = this;
    const x = Math.min(old?.x ?? block.x, block.x);
    const y = Math.min(old?.y ?? block.y, block.y);
    const right = Math.max(old === null ? block.x + block.w : old.x + old.w, block.x + block.w);
    const low = Math.max(old === null ? block.y + block.h : old.y + old.h, block.y + block.h);
    this._bounds = { x, y, w: right - x, h: low - y };
  }

  /** Whether a block, with `gap` around it, would cover nothing. */
  isFree(block: IBlock, gap = 0): boolean {
    return keysOf(block, gap).every(key =>
      (this._cells.get(key) ?? []).every(
        ({ x, y, w, h }) =>
          x >= block.x + block.w + gap - 0.01 ||
          x + w <= block.x - gap + 0.01 ||
          y >= block.y + block.h + gap - 0.01 ||
          y + h <= block.y - gap + 0.01
      )
    );
  }

  /**
   * The free place that is nearest to a wanted one: in rings around it, sideways first, since a node
   * beside its column is read as part of it.
   */
  near({ x, y, w, h, gap }: IBlock & { gap: number }): IBlock {
    const block = { x, y, w, h };
    if (this.isFree(block, gap)) {
      return block;
    }
    const [dx, dy] = [Math.max(12, w / 4), Math.max(12, h / 2)];
    for (let ring = 1; ring <= RINGS; ring += 1) {
      let best: IBlock | null = null;
      let least = Number.POSITIVE_INFINITY;
      for (const [across, down] of ringOf(ring)) {
        const spot = { x: x + across * dx, y: y + down * dy, w, h };
        const way = Math.hypot(across * dx, down * dy) + (down < 0 ? 1 : 0);
        if (way < least && this.isFree(spot, gap)) {
          best = spot;
          least = way;
        }
      }
      if (best !== null) {
        return best;
      }
    }
    const { _bounds: bounds } = this;
    return { x, y: num(bounds?.y) + num(bounds?.h) + 2 * gap, w, h };
  }
}

/** The steps to the places of a ring: across and down. */
function ringOf(ring: number): [number, number][] {
  const found: [number, number][] = [];
  for (let i = -ring; i <= ring; i += 1) {
    found.push([ring, i], [-ring, i], [i, ring], [i, -ring]);
  }
  return found;
}

function keysOf({ x, y, w, h }: IBlock, gap: number): string[] {
  const keys: string[] = [];
  for (let i = Math.floor((x - gap) / CELL); i <= Math.floor((x + w + gap) / CELL); i += 1) {
    for (let j = Math.floor((y - gap) / CELL); j <= Math.floor((y + h + gap) / CELL); j += 1) {
      keys.push(`${i},${j}`);
    }
  }
  return keys;
}
