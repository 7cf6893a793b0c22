/** What is selected, hovered and found in a view, by structural key; survives new scenes. */

import type { GraphModel } from '../model/graph';
import type { IEdge, IItem, IScene } from '../model/scene';
import type { IMatch } from '../query/search';
import { edgesOf } from '../model/trace';
import type { IMarks } from '../render/overlay';

export class Selection {
  /** Keys of the selected items: node ids, box keys, inputs and outputs. */
  keys: string[] = [];
  /** Ids of the selected nodes, with those inside selected boxes. */
  ids: string[] = [];
  edge: IEdge | null = null;
  hoverEdge: IEdge | null = null;
  matches: IMatch[] = [];
  /** Index of the current match, or -1. */
  match = -1;

  /** Takes over `keys`; true when the selected nodes changed. */
  set(model: GraphModel, keys: readonly string[]): boolean {
    this.edge = null;
    this.keys = [...keys];
    const ids = keys.flatMap(key => {
      const box = key.startsWith('box:') ? model.boxes.get(key.slice(4)) : undefined;
      if (box !== undefined) {
        return model.nodesIn(box).map(i => model.nodes[i]?.node.id ?? '');
      }
      return model.node(key) === undefined ? [] : [key];
    });
    const isSame = ids.length === this.ids.length && ids.every((id, i) => id === this.ids[i]);
    this.ids = ids;
    return !isSame;
  }

  /** Drops what a new document no longer has. */
  prune(model: GraphModel): void {
    this.keys = this.keys.filter(
      key =>
        model.node(key) !== undefined ||
        model.boxes.has(key.replace(/^box:/, '')) ||
        model.value(key.replace(/^(in|out):/, '')) !== undefined
    );
    this.ids = this.ids.filter(id => model.node(id) !== undefined);
  }

  /** Index of the next (`1`) or previous (`-1`) match, round and round. */
  step(step: 1 | -1): IMatch | null {
    const count = this.matches.length;
    if (count === 0) {
      return null;
    }
    const from = this.match < 0 && step < 0 ? 0 : this.match;
    this.match = (from + step + count) % count;
    return this.matches[this.match] ?? null;
  }

  /** Writes into `marks` what the overlay is to show. */
  mark(model: GraphModel, scene: IScene, marks: IMarks): void {
    const itemOf = (key: string): IItem | null => {
      const node = model.node(key);
      return scene.byKey.get(key) ?? (node === undefined ? null : (scene.ofNode[node.index] ?? null));
    };
    marks.selected = [...new Set(this.keys.map(itemOf).filter(item => item !== null))];
    const mates = new Set<IItem>();
    for (const item of marks.selected) {
      for (const kernel of item.node?.kernels ?? []) {
        for (const id of kernel.nodes) {
          const mate = itemOf(id);
          if (mate !== null && !marks.selected.includes(mate)) {
            mates.add(mate);
          }
        }
      }
    }
    marks.mates = [...mates];
    const [first] = marks.selected;
    const lit = first !== undefined && marks.selected.length === 1 ? first : marks.hover;
    const edges = lit === null ? [] : [...edgesOf(lit, 'up'), ...edgesOf(lit, 'down')];
    const one = this.hoverEdge ?? this.edge;
    marks.edges = one === null ? edges : [...edges, one];
    const hits = new Set<IItem>();
    for (const match of this.matches) {
      const item = scene.byKey.get(match.key) ?? scene.ofNode[match.node];
      if (item !== null && item !== undefined) {
        hits.add(item);
      }
    }
    marks.hits = [...hits];
    const current = this.matches[this.match];
    marks.currentHit = current === undefined ? null : itemOf(current.key);
  }
}
