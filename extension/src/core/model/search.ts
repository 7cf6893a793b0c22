/** Finds operations and boxes by words in their name, operation, scope or type. */

import type { IBox } from './boxes';
import type { GraphModel } from './graph';
import { at } from '../narrow';

export interface IMatch {
  /** Key of the item: a node id or a box key. */
  key: string;
  node: number;
  box: IBox | null;
}

/** Matches in drawing order; every word of the query must occur somewhere in one item's text. */
export function search(model: GraphModel, query: string): IMatch[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) {
    return [];
  }
  const hits = (text: string): boolean => words.every(word => text.includes(word));
  const found: IMatch[] = [];
  const visit = (box: IBox): void => {
    if (box.kind !== 'root' && hits(`${box.label} ${box.type}`.toLowerCase())) {
      found.push({ key: `box:${box.key}`, node: -1, box });
    }
    let next = 0;
    for (const index of box.nodes) {
      while (next < box.children.length && at(box.children, next).first < index) {
        visit(at(box.children, next++));
      }
      const node = model.nodes[index];
      if (node === undefined || node.isChip) {
        continue;
      }
      const types = [...node.results, ...node.operands]
        .map(v => {
          const { value } = model.values[v] ?? { value: undefined };
          return value === undefined ? '' : `${value.type} ${value.name ?? ''}`;
        })
        .join(' ');
      const { id, op, name, scope, source } = node.node;
      if (hits(`${id} ${op} ${name} ${scope} ${types} ${source?.text ?? ''}`.toLowerCase())) {
        found.push({ key: id, node: index, box: null });
      }
    }
    while (next < box.children.length) {
      visit(at(box.children, next++));
    }
  };
  visit(model.root);
  return found;
}
