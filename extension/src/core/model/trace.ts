/** Follows edges through the borders of unfolded boxes, from one item to the items it feeds. */

import type { GraphModel } from './graph';
import { End, type IContainer, type IEdge, type IItem, type IScene } from './scene';

/** Edge pieces that lead into (`up`) or out of (`down`) an item, across all borders. */
export function edgesOf(item: IItem, direction: 'up' | 'down'): IEdge[] {
  const found: IEdge[] = [];
  const seen = new Set<IEdge>();
  const take = (edge: IEdge): boolean => {
    if (seen.has(edge)) {
      return false;
    }
    seen.add(edge);
    found.push(edge);
    return true;
  };
  const parent = item.parent?.container;
  if (parent === null || parent === undefined) {
    return found;
  }
  for (const edge of parent.edges) {
    if ((direction === 'up' ? edge.to : edge.from) === item) {
      follow(edge, parent, direction, take);
    }
  }
  return found;
}

function follow(
  edge: IEdge,
  inside: IContainer,
  direction: 'up' | 'down',
  take: (edge: IEdge) => boolean
): void {
  if (!take(edge)) {
    return;
  }
  const isUp = direction === 'up';
  const next = isUp ? edge.from : edge.to;
  const nextPort = isUp ? edge.srcPort : edge.dstPort;
  if (next !== null) {
    if (next.container === null) {
      return;
    }
    for (const inner of next.container.edges) {
      const port = isUp
        ? inner.dstEnd === End.Out && inner.dstPort === nextPort
        : inner.srcEnd === End.In && inner.srcPort === nextPort;
      if (port && shares(inner, edge)) {
        follow(inner, next.container, direction, take);
      }
    }
    return;
  }
  const border = inside.item;
  const outer = border.parent?.container;
  if (outer === null || outer === undefined) {
    return;
  }
  for (const piece of outer.edges) {
    const joins = isUp
      ? piece.to === border && piece.dstPort === edge.srcPort
      : piece.from === border && piece.srcPort === edge.dstPort;
    if (joins && shares(piece, edge)) {
      follow(piece, outer, direction, take);
    }
  }
}

function shares(a: IEdge, b: IEdge): boolean {
  return a.values.some(value => b.values.includes(value));
}

/** Visible items that feed `item` (`up`) or use what it makes (`down`), in the order of use. */
export function neighbours(
  model: GraphModel,
  scene: IScene,
  item: IItem,
  direction: 'up' | 'down'
): IItem[] {
  const found = new Set<IItem>();
  const add = (other: IItem | null | undefined): void => {
    if (other !== null && other !== undefined && other !== item && !isInside(other, item)) {
      found.add(other);
    }
  };
  const byValue = (value: number): void => {
    const entry = model.values[value];
    if (entry === undefined) {
      return;
    }
    if (direction === 'up') {
      add(entry.producer >= 0 ? scene.ofNode[entry.producer] : null);
      add(scene.byKey.get(`in:${entry.value.id}`));
    } else {
      entry.consumers.forEach(c => add(scene.ofNode[c]));
      add(scene.byKey.get(`out:${entry.value.id}`));
    }
  };
  const nodes =
    item.node !== null ? [item.node.index] : item.box !== null ? model.nodesIn(item.box) : [];
  for (const index of nodes) {
    const node = model.nodes[index];
    (direction === 'up' ? node?.operands : node?.results)?.forEach(byValue);
    if (direction === 'up') {
      node?.gives.forEach(given => given.forEach(byValue));
    }
  }
  if (item.value !== null && (item.kind === 'input') === (direction === 'down')) {
    byValue(item.value.index);
  }
  return [...found];
}

export function isInside(item: IItem, box: IItem): boolean {
  for (let at: IItem | null = item; at !== null; at = at.parent) {
    if (at === box) {
      return true;
    }
  }
  return false;
}
