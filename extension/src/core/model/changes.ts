/**
 * What changed in a graph since the cell that shows it ran before, or between two graphs that stand side
 * by side, on the items of a scene.
 */

import type { IMarks } from '../../proto/difference';
import type { IGraphDifference } from '../../proto/document';
import { plural } from './format';
import type { GraphModel } from './graph';
import type { IContainer, IEdge, IItem, IScene } from './scene';

export interface IChange {
  /** All of the item is new; otherwise something of it changed. */
  isNew: boolean;
  /** Marked operations in the item, with the constants that are written on it. */
  count: number;
  /** What it is beside another graph; a change since the last run has none. */
  kind?: ChangeKind;
}

export type ChangeKind = IGraphDifference['kind'];

/** Edges that only one of two graphs has: a value and what reads it. */
export interface IEdgesApart {
  lost: readonly (readonly string[])[];
  gained: readonly (readonly string[])[];
}

export class Changes {
  private readonly _added: ReadonlySet<string>;
  private readonly _changed: ReadonlySet<string>;

  /** `kinds` says how each id differs from another graph; null where no other one is compared. */
  constructor(
    private readonly _marks: IMarks,
    private readonly _kinds: ReadonlyMap<string, ChangeKind> | null = null,
    private readonly _edges: IEdgesApart | null = null
  ) {
    const of = (isWhole: boolean): string[] =>
      [...(_kinds ?? [])].filter(([, kind]) => (kind === 'added' || kind === 'removed') === isWhole).map(([id]) => id);
    this._added = new Set([..._marks.added, ...of(true)]);
    this._changed = new Set([..._marks.changed, ...of(false)]);
  }

  /** What differs between two graphs, by the ids that the view has. */
  static between(kinds: ReadonlyMap<string, ChangeKind>, edges: IEdgesApart | null = null): Changes {
    return new Changes({ added: [], changed: [], removed: 0 }, kinds, edges);
  }

  /** They are those of two graphs side by side. */
  get isBeside(): boolean {
    return this._kinds !== null;
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
      if (this._kinds !== null) {
        change.kind = this._kindOf(model, item, change);
      }
    }
    this._markEnds(scene, found);
    return found;
  }

  /** The kind of all in an item, or `changed` where they differ. */
  private _kindOf(model: GraphModel, item: IItem, change: IChange): ChangeKind {
    const inside =
      item.node === null && item.box !== null ? model.nodesIn(item.box).map(n => model.nodes[n]) : [item.node];
    const kinds = new Set(inside.map(node => this._kinds?.get(node?.node.id ?? '')));
    const [kind] = kinds;
    const isWhole = kind === 'added' || kind === 'removed';
    return kind !== undefined && kinds.size === 1 && (!isWhole || change.isNew) ? kind : 'changed';
  }

  /** The edges of a scene that only one of two graphs has. */
  apart(model: GraphModel, scene: IScene): { lost: IEdge[]; gained: IEdge[] } {
    const found: { lost: IEdge[]; gained: IEdge[] } = { lost: [], gained: [] };
    if (this._edges === null) {
      return found;
    }
    for (const side of ['lost', 'gained'] as const) {
      const keys = new Set(this._edges[side].map(([value = '', node = '']) => `${value} ${node}`));
      // All that reads the value reads it in one of the graphs alone.
      const isApart = (index: number): boolean => {
        const value = model.values[index];
        return (
          value !== undefined &&
          value.consumers.length > 0 &&
          value.consumers.every(n => keys.has(`${value.value.id} ${model.nodes[n]?.node.id ?? ''}`))
        );
      };
      const ends = (edge: IEdge): boolean => {
        const to = edge.to?.container === null ? edge.to.node?.node.id : undefined;
        return edge.values.every(index =>
          to === undefined ? isApart(index) : keys.has(`${model.values[index]?.value.id ?? ''} ${to}`)
        );
      };
      const visit = (container: IContainer | null): void => {
        if (container !== null) {
          found[side].push(...container.edges.filter(ends));
          container.items.forEach(item => visit(item.container));
        }
      };
      visit(scene.root.container);
    }
    return found;
  }

  /** Marks what goes into the graph and comes out of it: these are values, and no operations. */
  private _markEnds(scene: IScene, found: Map<IItem, IChange>): void {
    if (this._kinds === null) {
      return;
    }
    for (const item of scene.items) {
      const id = item.value?.value.id ?? '';
      const isNew = this._added.has(id);
      if (item.node === null && item.box === null && (isNew || this._changed.has(id))) {
        found.set(item, { isNew, count: 1, kind: this._kinds.get(id) ?? 'changed' });
      }
    }
  }
}

const SAID: Readonly<Record<ChangeKind, string>> = {
  added: 'only in the second graph',
  removed: 'only in the first graph',
  changed: 'differs from the other graph',
  moved: 'moved, compared with the other graph',
  renamed: 'has another name in the other graph'
};

/** What stands on the badge of a kind. */
export const SIGNS: Readonly<Record<ChangeKind, string>> = {
  added: '+',
  removed: '−',
  changed: 'Δ',
  moved: '↷',
  renamed: 'a'
};

/** What a change is, in words. */
export function describeChange(item: IItem, change: IChange): string {
  if (change.kind !== undefined) {
    return SAID[change.kind];
  }
  const what = change.isNew
    ? 'new'
    : item.node === null
      ? `${plural(change.count, 'operation')} changed`
      : 'changed';
  return `${what} since the last run`;
}
