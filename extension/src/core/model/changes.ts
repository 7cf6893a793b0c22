/** What changed in a graph since the cell that shows it ran before, on the items of a scene. */

import type { IMarks } from '../../proto/difference';
import { plural } from './format';
import type { GraphModel } from './graph';
import type { IItem, IScene } from './scene';

export interface IChange {
  /** All of the item is new; otherwise something of it changed. */
  isNew: boolean;
  /** Marked operations in the item, with the constants that are written on it. */
  count: number;
}

export class Changes {
  private readonly _added: ReadonlySet<string>;
  private readonly _changed: ReadonlySet<string>;

  constructor(private readonly _marks: IMarks) {
    this._added = new Set(_marks.added);
    this._changed = new Set(_marks.changed);
  }

  get isEmpty(): boolean {
    return this._added.size + this._changed.size + this._marks.removed === 0;
  }

  /** How much came, went and changed: `2 changed, 1 new, 4 gone`. */
  get title(): string {
    const parts: [number, string][] = [
      [this._changed.size, 'changed'],
      [this._added.size, 'new'],
      [this._marks.removed, 'gone']
    ];
    return parts
      .filter(([number]) => number > 0)
      .map(([number, what]) => `${number} ${what}`)
      .join(', ');
  }

  /** The items to mark. A constant is drawn on the operations that read it, so they are marked. */
  on(model: GraphModel, scene: IScene): Map<IItem, IChange> {
    const found = new Map<IItem, IChange>();
    const mark = (index: number, isNew: boolean): void => {
      const item = scene.ofNode[index] ?? null;
      if (item !== null) {
        const known = found.get(item) ?? { isNew: false, count: 0 };
        found.set(item, { isNew: known.isNew || isNew, count: known.count + 1 });
      }
    };
    for (const node of model.nodes) {
      const isNew = this._added.has(node.node.id);
      if (!isNew && !this._changed.has(node.node.id)) {
        continue;
      }
      if (node.isChip) {
        const readers = node.results.flatMap(value => model.values[value]?.consumers ?? []);
        new Set(readers).forEach(index => mark(index, false));
      } else {
        mark(node.index, isNew);
      }
    }
    for (const [item, change] of found) {
      // A box is new when all in it is; one new operation only changes it.
      if (item.node === null && item.box !== null && change.count < item.box.total) {
        change.isNew = false;
      }
    }
    return found;
  }
}

/** What a change is, in words. */
export function describeChange(item: IItem, change: IChange): string {
  const what = change.isNew
    ? 'new'
    : item.node === null
      ? `${plural(change.count, 'operation')} changed`
      : 'changed';
  return `${what} since the last run`;
}
