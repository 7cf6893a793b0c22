/**
 * Time on nodes and boxes. Time belongs to kernels: what covers a whole kernel is exact; a part of a
 * shared kernel is a split, which comes with the document and is always marked as approximate.
 */

import type { IKernel, IKernelProfile, IProfile, IValue } from '../../proto/document';
import type { IBox } from './boxes';
import { evaluate } from './expr';
import type { GraphModel, IGraphNode } from './graph';
import { at } from '../narrow';
import { partsOf, splitBy } from './split';

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

export const NO_COST: ICost = { ns: 0, approx: false, exactNs: 0, whole: 0, shared: 0 };

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

/**
 * The place of a share of all kernels on the scale of colours. Each third of it is a factor of ten,
 * from a thousandth to the whole, so that neither folding nor another graph changes what a colour says.
 */
export function heatOf(share: number): number {
  return share > 0 ? Math.min(1, Math.max(0, 1 + Math.log10(share) / HEAT_DECADES)) : 0;
}

/** The share of all kernels at a place on the scale of colours. */
export function shareAt(place: number): number {
  return 10 ** ((place - 1) * HEAT_DECADES);
}

const HEAT_DECADES = 3;

export class Timing {
  /** Sum of the kernels, in nanoseconds; the whole that shares are of. */
  readonly totalNs: number = 0;
  /** By what the time of a shared kernel is split. */
  readonly splitBy: string = '';
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
    this.splitBy = splitBy(profile);
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

  /** Fraction of the time of all kernels, which is the whole everywhere that a share is shown. */
  share(ns: number): number {
    return this.totalNs > 0 ? ns / this.totalNs : 0;
  }

  /** The place of a time on the scale of colours, from 0 (cold) to 1 (hot). */
  heat(ns: number): number {
    return heatOf(this.share(ns));
  }

  /** Ids of the nodes that a profiled kernel computes. */
  nodesOf(kernel: IKernelProfile): string[] {
    return kernel.nodes.length > 0
      ? kernel.nodes
      : (this._model.kernels.get(kernel.id)?.nodes ?? []);
  }

  private _spread(kernel: IKernelProfile): void {
    const ids = this.nodesOf(kernel);
    const members: IGraphNode[] = [];
    const parts: number[] = [];
    partsOf(kernel, ids).forEach((part, i) => {
      const node = this._model.node(at(ids, i));
      if (node !== undefined && part > 0) {
        members.push(node);
        parts.push(part);
      }
    });
    if (members.length === 0) {
      return;
    }
    const home = members.map(node => node.box).reduce(commonBox);
    members.forEach((node, i) => {
      const ns = kernel.ns * at(parts, i);
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
