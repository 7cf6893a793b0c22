/**
 * What changed in a graph since the cell that shows it ran before, or between two graphs that stand side
 * by side, on the items of a scene.
 */

import type { IMarks } from '../../proto/difference';
import { plural } from './format';
import type { GraphModel } from './graph';
import type { IItem, IScene } from './scene';

export interface IChange {
  /** All of the item is new; otherwise something of it changed. */
  isNew: boolean;
  /** Marked operations in the item, with the constants that are written on it. */
  count: number;
  /** What it is beside another graph; a change since the last run has none. */
  kind?: ChangeKind;
}

export type ChangeKind = 'added' | 'removed' | 'changed';

export class Changes {
  private readonly _added: ReadonlySet<string>;
  private readonly _changed: ReadonlySet<string>;

  /** `gone` is what another graph, which stands beside this one, does not have; null when none does. */
  constructor(
    private readonly _marks: IMarks,
    private readonly _gone: readonly string[] | null = null
  ) {
    this._added = new Set([..._marks.added, ...(_gone ?? [])]);
    this._changed = new Set(_marks.changed);
  }

  /** They are those of two graphs side by side. */
  get isBeside(): boolean {
    return this._gone !== null;
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
      if (this._gone !== null) {
        const whole = this._gone.length > 0 ? 'removed' : 'added';
        change.kind = change.isNew ? whole : 'changed';
      }
    }
    this._markEnds(scene, found);
    return found;
  }

  /** Marks what goes into the graph and comes out of it: these are values, and no operations. */
  private _markEnds(scene: IScene, found: Map<IItem, IChange>): void {
    if (this._gone === null) {
      return;
    }
    for (const item of scene.items) {
      const id = item.value?.value.id ?? '';
      const isNew = this._added.has(id);
      if (item.node === null && item.box === null && (isNew || this._changed.has(id))) {
        const whole = this._gone.includes(id) ? 'removed' : 'added';
        found.set(item, { isNew, count: 1, kind: isNew ? whole : 'changed' });
      }
    }
  }
}

/** What a change is, in words. */
export function describeChange(item: IItem, change: IChange): string {
  if (change.kind !== undefined) {
    return change.kind === 'changed' ? 'differs from the other graph' : 'not in the other graph';
  }
  const what = change.isNew
    ? 'new'
    : item.node === null
      ? `${plural(change.count, 'operation')} changed`
      : 'changed';
  return `${what} since the last run`;
}
