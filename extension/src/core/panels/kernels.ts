/** Kernels and the operations that they compute: what panels need to colour and to link them. */

import type { Family } from '../model/families';
import type { GraphModel, IGraphNode } from '../model/graph';
import type { Timing } from '../model/timing';

/** What is known of kernels: a view, or its model and times. */
export interface IKernels {
  readonly model: GraphModel;
  readonly timing: Timing;
}

/** Ids of the operations that a kernel computes. */
export function nodesOf({ model, timing }: IKernels, kernel: string): string[] {
  const profile = timing.kernel(kernel);
  return profile !== undefined
    ? timing.nodesOf(profile)
    : (model.kernels.get(kernel)?.nodes ?? []);
}

/** The family of the operation that a kernel spends most time on. */
export function familyOfKernel(from: IKernels, kernel: string): Family {
  let best: IGraphNode | undefined;
  let most = -1;
  for (const id of nodesOf(from, kernel)) {
    const node = from.model.node(id);
    if (node !== undefined && !node.isChip && from.timing.ofNode(node.index).ns > most) {
      best = node;
      most = from.timing.ofNode(node.index).ns;
    }
  }
  return best?.family ?? 'other';
}

/** Those of `kernels` (ids) that compute any of the operations `ids`. */
export function kernelsOf(
  from: IKernels,
  kernels: readonly string[],
  ids: readonly string[]
): string[] {
  const wanted = new Set<string>();
  for (const id of ids) {
    for (const kernel of from.model.node(id)?.kernels ?? []) {
      wanted.add(kernel.id);
    }
  }
  // A profile can name its operations itself, when the kernels of the document do not.
  const all = new Set(ids);
  return kernels.filter(id => wanted.has(id) || nodesOf(from, id).some(node => all.has(node)));
}

const MAX_OPS = 4;
const MAX_TEXT = 70;

/** `matmul, add and 3 more`: the operations of a kernel. */
export function opsOf(from: IKernels, kernel: string): string {
  const ops = nodesOf(from, kernel)
    .map(id => from.model.node(id)?.node.op)
    .filter(op => op !== undefined);
  const more = ops.length > MAX_OPS ? ` and ${ops.length - MAX_OPS} more` : '';
  return `${ops.slice(0, MAX_OPS).join(', ')}${more}`;
}

/** `cell [7]:12  y = x @ w`, of the first operation of a kernel that has a line; else nothing. */
export function lineOf(from: IKernels, kernel: string): string {
  for (const id of nodesOf(from, kernel)) {
    const source = from.model.node(id)?.node.source ?? null;
    if (source !== null) {
      return `${source.file}:${source.line}  ${source.text.trim().slice(0, MAX_TEXT)}`;
    }
  }
  return '';
}

/** Marks the rows of a table that are about one of `kernels`. */
export function markRows(table: HTMLElement, kernels: ReadonlySet<string>): void {
  for (const row of table.querySelectorAll<HTMLElement>('tr[data-kernel]')) {
    row.classList.toggle('jp-mod-selected', kernels.has(row.dataset.kernel ?? ''));
  }
}
