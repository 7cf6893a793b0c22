/** Which boxes are open when a graph is first shown. */

import type { IBox } from './boxes';
import type { GraphModel } from './graph';

/** No more than this is shown at first, unless the top level alone is larger. */
export const MAX_VISIBLE = 300;

/** Graphs of up to this many operations open completely. */
const SMALL = 60;

/** Larger ones open until this many items are visible. */
const COMFORTABLE = 36;

/** A box around fewer operations than this says more folded than open. */
const MIN_OPEN = 3;

/** What a branch or a loop runs: its parts say more side by side, however small. */
const PART = /(^|\.)n\w+:\w+\.\w+$/;

/** Of parts in parts there is no room for the names. */
const MAX_PART_DEPTH = 2;

function visibleIn(model: GraphModel, box: IBox): number {
  const nodes = box.nodes.filter(index => model.nodes[index]?.isChip === false).length;
  return nodes + box.children.length;
}

/** Whether `box` is a run of equal boxes, or has one somewhere inside. */
function holdsRun(box: IBox): boolean {
  return box.kind === 'run' || box.children.some(holdsRun);
}

/**
 * Keys of the boxes to unfold at first, outermost first: everything in a small graph, otherwise the
 * boxes that hold boxes, as many levels as stay readable. In a model with a run of equal boxes (layers)
 * only the way to the run is opened, which shows the model's plan at a glance. Runs stay one box, which
 * says how many there are: its members are alike, and one press away.
 */
export function initialFold(model: GraphModel): Set<string> {
  const expanded = new Set<string>();
  let visible = visibleIn(model, model.root) + model.document.inputs.length;
  const ops = model.root.total;
  const isSmall = ops <= SMALL;
  const budget = isSmall ? MAX_VISIBLE : COMFORTABLE;
  const isLayered = !isSmall && model.root.children.some(holdsRun);
  const queue = [...model.root.children];
  for (let box = queue.shift(); box !== undefined; box = queue.shift()) {
    if (box.kind === 'run') {
      continue;
    }
    const holdsMore = box.children.some(child => child.total >= MIN_OPEN);
    const isPart = isSmall && box.depth <= MAX_PART_DEPTH && PART.test(box.path);
    const isTiny = box.total < MIN_OPEN && !isPart;
    if (isTiny || (!isSmall && !holdsMore) || (isLayered && !holdsRun(box))) {
      continue;
    }
    const grown = visible - 1 + visibleIn(model, box);
    if (grown > budget) {
      continue;
    }
    visible = grown;
    expanded.add(box.key);
    queue.push(...box.children);
  }
  return expanded;
}

/** Unfolds every box that is visible and folded; one level deeper. */
export function expandLevel(model: GraphModel, expanded: ReadonlySet<string>): Set<string> {
  const next = new Set(expanded);
  const visit = (box: IBox): void => {
    for (const child of box.children) {
      if (expanded.has(child.key)) {
        visit(child);
      } else {
        next.add(child.key);
      }
    }
  };
  visit(model.root);
  return next;
}

/** Folds every open box that has no open box inside; one level up. */
export function collapseLevel(model: GraphModel, expanded: ReadonlySet<string>): Set<string> {
  const next = new Set(expanded);
  const visit = (box: IBox): boolean => {
    if (box.kind !== 'root' && !expanded.has(box.key)) {
      return false;
    }
    const inner = box.children.map(visit);
    if (box.kind !== 'root' && !inner.includes(true)) {
      next.delete(box.key);
    }
    return true;
  };
  visit(model.root);
  return next;
}

/** Opens everything above `box`, so that it is visible. */
export function reveal(expanded: ReadonlySet<string>, box: IBox): Set<string> {
  const next = new Set(expanded);
  for (let above: IBox | null = box; above !== null && above.kind !== 'root'; above = above.parent) {
    next.add(above.key);
  }
  return next;
}
