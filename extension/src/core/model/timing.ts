/**
 * Time on nodes and boxes. Time belongs to kernels: what covers a whole kernel is exact; a part of a
 * shared kernel is a split, always marked as approximate and made by `SPLIT_MODEL`.
 */

import type { IKernel, IKernelProfile, IProfile, IValue } from '../../proto/document';
import type { IBox } from './boxes';
import { evaluate } from './expr';
import type { GraphModel, IGraphNode } from './graph';
import { at } from '../narrow';

export const SPLIT_MODEL = 'estimated work: max(flops ÷ 16, bytes) of each operation';

/** Flops that take as long as one byte of traffic on a typical core. */
const FLOPS_PER_BYTE = 16;

export interface ICost {
  ns: number;
  /** True when part of `ns` is a split of a shared kernel. */
  approx: boolean;
  /** Exact part: kernels that lie wholly inside. */
  exactNs: number;
  /** Number of kernels wholly inside, and shared ones that touch it. */
  whole: number;
  shared: number;
}

const NO_COST: ICost = { ns: 0, approx: false, exactNs: 0, whole: 0, shared: 0 };

const ITEM_BYTES: Record<string, number> = {
  float64: 8,
  int64: 8,
  uint64: 8,
  float32: 4,
  int32: 4,
  uint32: 4,
  float16: 2,
  bfloat16: 2,
  int16: 2,
  uint16: 2
};

/** Bytes of a value under `dims`; 0 when a dimension is not known. */
export function valueBytes(value: IValue, dims: Readonly<Record<string, number>>): number {
  let size = ITEM_BYTES[value.dtype] ?? 1;
  for (const dim of value.shape) {
    size *= evaluate(dim, dims) ?? 0;
  }
  return size;
}

const CONTROL: readonly string[] = ['branch', 'jump', 'refuse', 'exchange'];

/** True for a step of the plan that computes nothing, and says where the run goes on. */
export function isControl(kernel: IKernel | undefined): boolean {
  return kernel !== undefined && CONTROL.includes(kernel.kind);
}

export class Timing {
  /** Sum of the kernels, in nanoseconds; the whole that shares are of. */
  readonly totalNs: number = 0;
  /** Slowest first, without those that only say where the run goes on. */
  readonly kernels: IKernelProfile[] = [];
  private readonly _byKernel = new Map<string, IKernelProfile>();
  private readonly _nodes = new Map<number, ICost>();
  private readonly _boxes = new Map<IBox, ICost>();

  constructor(
    private readonly _model: GraphModel,
    readonly profile: IProfile | null
  ) {
    if (profile === null) {
      return;
    }
    for (const kernel of profile.kernels) {
      this.totalNs += kernel.ns;
      this._byKernel.set(kernel.id, kernel);
      this._spread(kernel);
    }
    this.kernels = profile.kernels
      .filter(kernel => kernel.ns > 0 || !isControl(_model.kernels.get(kernel.id)))
      .sort((a, b) => b.ns - a.ns);
  }

  kernel(id: string): IKernelProfile | undefined {
    return this._byKernel.get(id);
  }

  ofNode(index: number): ICost {
    return this._nodes.get(index) ?? NO_COST;
  }

  ofBox(box: IBox): ICost {
    return this._boxes.get(box) ?? NO_COST;
  }

  /** Fraction of the run. */
  share(ns: number): number {
    return this.totalNs > 0 ? ns / this.totalNs : 0;
  }

  /** Ids of the nodes that a profiled kernel computes. */
  nodesOf(kernel: IKernelProfile): string[] {
    return kernel.nodes.length > 0
      ? kernel.nodes
      : (this._model.kernels.get(kernel.id)?.nodes ?? []);
  }

  private _spread(kernel: IKernelProfile): void {
    const nodes: IGraphNode[] = [];
    for (const id of this.nodesOf(kernel)) {
      const node = this._model.node(id);
      if (node !== undefined) {
        nodes.push(node);
      }
    }
    const visible = nodes.filter(node => !node.isChip);
    const members = visible.length > 0 ? visible : nodes;
    if (members.length === 0) {
      return;
    }
    const work = members.map(node => this._work(node));
    const sum = work.reduce((a, b) => a + b, 0);
    const home = members.map(node => node.box).reduce(commonBox);
    members.forEach((node, i) => {
      const part = sum > 0 ? at(work, i) / sum : 1 / members.length;
      const ns = kernel.ns * part;
      const isWhole = members.length === 1;
      addCost(this._nodes, node.index, ns, isWhole);
      for (let box: IBox | null = node.box; box !== null && box !== home; box = box.parent) {
        addCost(this._boxes, box, ns, false);
      }
    });
    for (let box: IBox | null = home; box !== null; box = box.parent) {
      addCost(this._boxes, box, kernel.ns, true);
    }
    this._countShared(members, home);
  }

  /** A kernel that touches a box in several nodes is one shared kernel there, not several. */
  private _countShared(members: readonly IGraphNode[], home: IBox): void {
    const touched = new Set<IBox>();
    for (const node of members) {
      for (let box: IBox | null = node.box; box !== null && box !== home; box = box.parent) {
        touched.add(box);
      }
    }
    for (const box of touched) {
      const cost = this._boxes.get(box);
      if (cost !== undefined) {
        cost.shared += 1;
      }
    }
    if (members.length > 1) {
      for (const node of members) {
        const cost = this._nodes.get(node.index);
        if (cost !== undefined) {
          cost.shared += 1;
        }
      }
    }
  }

  private _work(node: IGraphNode): number {
    const dims = this.profile?.dims ?? {};
    let bytes = evaluate(node.node.bytes, dims) ?? 0;
    if (bytes === 0) {
      for (const index of [...node.operands, ...node.results]) {
        bytes += this._nbytes(index);
      }
    }
    const flops = evaluate(node.node.flops, dims) ?? this._flops(node);
    return Math.max(bytes, flops / FLOPS_PER_BYTE, 1);
  }

  private _elements(index: number): number {
    const dims = this.profile?.dims ?? {};
    let count = 1;
    for (const dim of this._model.values[index]?.value.shape ?? []) {
      count *= evaluate(dim, dims) ?? 1;
    }
    return count;
  }

  private _nbytes(index: number): number {
    const value = this._model.values[index]?.value;
    // A size that is not known still weighs as much as one row: better than nothing in a split.
    return value === undefined
      ? 0
      : (value.nbytes ?? this._elements(index) * (ITEM_BYTES[value.dtype] ?? 1));
  }

  private _flops(node: IGraphNode): number {
    const result = node.results[0];
    if (result === undefined) {
      return 0;
    }
    const elements = this._elements(result);
    if (node.family !== 'contract') {
      return node.family === 'view' ? 0 : elements;
    }
    const shape = this._model.values[node.operands[0] ?? -1]?.value.shape ?? [];
    const inner = evaluate(shape[shape.length - 1] ?? 1, this.profile?.dims ?? {}) ?? 1;
    return 2 * elements * inner;
  }
}

function addCost<K>(costs: Map<K, ICost>, key: K, ns: number, isWhole: boolean): void {
  let cost = costs.get(key);
  if (cost === undefined) {
    cost = { ...NO_COST };
    costs.set(key, cost);
  }
  cost.ns += ns;
  if (isWhole) {
    cost.exactNs += ns;
    cost.whole += 1;
  } else {
    cost.approx = true;
  }
}

/** The innermost box that holds both. */
export function commonBox(a: IBox, b: IBox): IBox {
  let x = a;
  let y = b;
  while (x !== y) {
    if (x.depth >= y.depth && x.parent !== null) {
      x = x.parent;
    } else if (y.parent !== null) {
      y = y.parent;
    } else {
      return x;
    }
  }
  return x;
}
