/**
 * The hierarchy of a graph: scopes that fold and unfold, and runs of identical siblings (`layers ×6`).
 *
 * Input: a document. Output: a tree of `Box`. Every operation belongs to exactly one box.
 */

import type { IGraphDocument, IScope } from '../../proto/document';
import { at } from '../narrow';

export interface IBox {
  /** Structural key: the scope path, or `path[first..last]` for a run. Unique in a document. */
  key: string;
  kind: 'root' | 'scope' | 'run';
  path: string;
  label: string;
  type: string;
  fingerprint: string;
  parent: IBox | null;
  depth: number;
  children: IBox[];
  /** Indexes of the operations directly inside. */
  nodes: number[];
  /** Operations inside at any depth. */
  total: number;
  /** First operation inside at any depth; orders siblings. */
  first: number;
}

function makeBox(
  kind: IBox['kind'],
  path: string,
  label: string,
  type: string,
  parent: IBox | null
): IBox {
  return {
    key: path,
    kind,
    path,
    label,
    type,
    fingerprint: '',
    parent,
    depth: 0,
    children: [],
    nodes: [],
    total: 0,
    first: Number.MAX_SAFE_INTEGER
  };
}

const NUMERIC = /^\d+$/;

/** Scopes at every prefix of `path`; an index joins the name before it (`layers.0` is one scope). */
function prefixes(path: string): { path: string; label: string }[] {
  const parts = path.split('.');
  const found: { path: string; label: string }[] = [];
  let label = '';
  for (let i = 0; i < parts.length; i += 1) {
    const part = parts[i] ?? '';
    label = label ? `${label}.${part}` : part;
    const next = parts[i + 1];
    if (next !== undefined && NUMERIC.test(next) && !NUMERIC.test(part)) {
      continue;
    }
    found.push({ path: parts.slice(0, i + 1).join('.'), label });
    label = '';
  }
  return found;
}

class TreeBuilder {
  readonly root = makeBox('root', '', '', '', null);
  private readonly _boxes = new Map<string, IBox>([['', this.root]]);
  private readonly _declared = new Map<string, IScope>();

  constructor(scopes: readonly IScope[]) {
    for (const scope of scopes) {
      if (scope.path !== '') {
        this._declared.set(scope.path, scope);
      }
    }
  }

  box(path: string): IBox {
    const known = this._boxes.get(path);
    if (known !== undefined) {
      return known;
    }
    const scope = this._declared.get(path);
    let parent = this.root;
    let label = scope?.label ?? path;
    if (scope !== undefined) {
      parent = this._declaredParent(path);
    } else {
      const chain = prefixes(path);
      const above = chain[chain.length - 2];
      const declared = this._declaredParent(path);
      parent =
        above !== undefined && above.path.length > declared.path.length
          ? this.box(above.path)
          : declared;
      label = chain[chain.length - 1]?.label ?? path;
    }
    if (NUMERIC.test(label)) {
      // `0` alone says nothing: `layers.0` is what people call it.
      label = path.split('.').slice(-2).join('.');
    }
    const box = makeBox('scope', path, label, scope?.type ?? '', parent);
    box.fingerprint = scope?.fingerprint ?? '';
    parent.children.push(box);
    this._boxes.set(path, box);
    return box;
  }

  private _declaredParent(path: string): IBox {
    for (let dot = path.lastIndexOf('.'); dot > 0; dot = path.lastIndexOf('.', dot - 1)) {
      const above = path.slice(0, dot);
      if (this._declared.has(above)) {
        return this.box(above);
      }
    }
    return this.root;
  }
}

/** `layers` that hold only `0`, `1`, … add nothing: the members move up as `layers.0`, `layers.1`. */
function spliceContainers(box: IBox): void {
  for (const child of box.children) {
    spliceContainers(child);
  }
  const children: IBox[] = [];
  for (const child of box.children) {
    const pure =
      child.nodes.length === 0 &&
      child.children.length > 0 &&
      child.children.every(
        member =>
          member.path.startsWith(`${child.path}.`) &&
          NUMERIC.test(member.path.slice(child.path.length + 1))
      );
    if (!pure) {
      children.push(child);
      continue;
    }
    for (const member of child.children) {
      member.parent = box;
      children.push(member);
    }
  }
  box.children = children;
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}

function stem(box: IBox): string {
  return box.path.replace(/\.?\d+$/, '');
}

function measure(box: IBox, depth: number, isOperation: readonly boolean[]): void {
  box.depth = depth;
  box.total = box.nodes.filter(node => isOperation[node]).length;
  box.first = box.nodes[0] ?? Number.MAX_SAFE_INTEGER;
  for (const child of box.children) {
    measure(child, depth + 1, isOperation);
    box.total += child.total;
    box.first = Math.min(box.first, child.first);
  }
  box.children = box.children.filter(child => child.nodes.length + child.children.length > 0);
  box.children.sort((a, b) => a.first - b.first);
}

/** Wraps every run of two or more identical siblings in one box, where folding it makes no cycle. */
function foldRuns(box: IBox, successors: readonly number[][]): void {
  const children: IBox[] = [];
  let start = 0;
  while (start < box.children.length) {
    const first = at(box.children, start);
    let end = start + 1;
    while (
      first.fingerprint !== '' &&
      end < box.children.length &&
      box.children[end]?.fingerprint === first.fingerprint &&
      stem(at(box.children, end)) === stem(first)
    ) {
      end += 1;
    }
    const members = box.children.slice(start, end);
    start = end;
    if (members.length < 2 || !isConvex(members, successors)) {
      children.push(...members);
      continue;
    }
    const last = at(members, members.length - 1);
    const name = stem(first);
    const label = first.label.replace(/\.?\d+$/, '') || lastPart(name) || first.type;
    const run = makeBox('run', name, label, first.type, box);
    run.key = `${first.path}..${lastPart(last.path)}`;
    run.children = members;
    run.first = first.first;
    run.depth = first.depth;
    for (const member of members) {
      member.parent = run;
      run.total += member.total;
    }
    children.push(run);
  }
  box.children = children;
  for (const child of children) {
    if (child.kind === 'run') {
      child.children.forEach(member => foldRuns(member, successors));
    } else {
      foldRuns(child, successors);
    }
  }
}

/** False when a path leaves the boxes and comes back: folding them would draw a cycle. */
function isConvex(boxes: readonly IBox[], successors: readonly number[][]): boolean {
  const inside = new Set<number>();
  let last = 0;
  const add = (box: IBox): void => {
    for (const node of box.nodes) {
      inside.add(node);
      last = Math.max(last, node);
    }
    box.children.forEach(add);
  };
  boxes.forEach(add);
  const seen = new Set<number>();
  const stack: number[] = [];
  const follow = (node: number, isOutside: boolean): boolean => {
    for (const next of successors[node] ?? []) {
      if (inside.has(next)) {
        if (isOutside) {
          return false;
        }
      } else if (next < last && !seen.has(next)) {
        // Operations are listed in order of use, so nothing after the last one can lead back.
        seen.add(next);
        stack.push(next);
      }
    }
    return true;
  };
  for (const node of inside) {
    follow(node, false);
  }
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (!follow(node, true)) {
      return false;
    }
  }
  return true;
}

/**
 * Which nodes of a document count as operations: all do but weights and constants, which are there
 * before a run. Whoever says how many operations there are counts these.
 */
export function operationsOf(document: IGraphDocument): boolean[] {
  const data = new Set(
    document.values.filter(({ kind }) => kind === 'weight' || kind === 'constant').map(({ id }) => id)
  );
  return document.nodes.map(
    ({ results }) => results.length === 0 || !results.every(id => data.has(id))
  );
}

/** The root box of a document. `successors[i]` lists the operations that use a result of `i`. */
export function buildBoxes(document: IGraphDocument, successors: readonly number[][]): IBox {
  const builder = new TreeBuilder(document.scopes);
  document.nodes.forEach((node, index) => builder.box(node.scope).nodes.push(index));
  const { root } = builder;
  root.label = document.name;
  spliceContainers(root);
  measure(root, 0, operationsOf(document));
  foldRuns(root, successors);
  setDepths(root, 0);
  return root;
}

function setDepths(box: IBox, depth: number): void {
  box.depth = depth;
  for (const child of box.children) {
    setDepths(child, depth + 1);
  }
}
