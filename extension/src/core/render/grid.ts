/** Uniform grid over boxes in the plane: what touches a window, without looking at everything. */

import { at } from '../narrow';
import { num } from '../num';

const MAX_CELLS = 64;

export class Grid<T> {
  private readonly _cells = new Map<number, number[]>();
  /** Entries that span too many cells are tested every time. */
  private readonly _large: number[] = [];
  private readonly _boxes: number[] = [];
  private readonly _entries: T[] = [];
  private _seen = new Uint32Array(0);
  private _round = 0;

  constructor(private readonly _size: number) {}

  add(entry: T, x0: number, y0: number, x1: number, y1: number): void {
    const index = this._entries.length;
    this._entries.push(entry);
    this._boxes.push(x0, y0, x1, y1);
    const cx0 = Math.floor(x0 / this._size);
    const cy0 = Math.floor(y0 / this._size);
    const cx1 = Math.floor(x1 / this._size);
    const cy1 = Math.floor(y1 / this._size);
    if ((cx1 - cx0 + 1) * (cy1 - cy0 + 1) > MAX_CELLS) {
      this._large.push(index);
      return;
    }
    for (let cx = cx0; cx <= cx1; cx += 1) {
      for (let cy = cy0; cy <= cy1; cy += 1) {
        const key = cellKey(cx, cy);
        const cell = this._cells.get(key);
        if (cell === undefined) {
          this._cells.set(key, [index]);
        } else {
          cell.push(index);
        }
      }
    }
  }

  /** Entries whose box touches the window, each once, in the order they were added. */
  query(x0: number, y0: number, x1: number, y1: number): T[] {
    const cx0 = Math.floor(x0 / this._size);
    const cy0 = Math.floor(y0 / this._size);
    const cx1 = Math.floor(x1 / this._size);
    const cy1 = Math.floor(y1 / this._size);
    const cells = (cx1 - cx0 + 1) * (cy1 - cy0 + 1);
    if (!(cells < this._entries.length)) {
      return this._entries.filter((_, i) => this._touches(i, x0, y0, x1, y1));
    }
    if (this._seen.length !== this._entries.length) {
      this._seen = new Uint32Array(this._entries.length);
    }
    this._round += 1;
    const found: number[] = [];
    const visit = (index: number): void => {
      if (this._seen[index] !== this._round) {
        this._seen[index] = this._round;
        if (this._touches(index, x0, y0, x1, y1)) {
          found.push(index);
        }
      }
    };
    this._large.forEach(visit);
    for (let cx = cx0; cx <= cx1; cx += 1) {
      for (let cy = cy0; cy <= cy1; cy += 1) {
        this._cells.get(cellKey(cx, cy))?.forEach(visit);
      }
    }
    found.sort((a, b) => a - b);
    return found.map(index => at(this._entries, index));
  }

  private _touches(index: number, x0: number, y0: number, x1: number, y1: number): boolean {
    const b = this._boxes;
    const i = index * 4;
    return num(b[i]) <= x1 && num(b[i + 2]) >= x0 && num(b[i + 1]) <= y1 && num(b[i + 3]) >= y0;
  }
}

function cellKey(cx: number, cy: number): number {
  return (cx + 0x100000) * 0x400000 + (cy + 0x200000);
}
