/** The indexed form of a document: who makes and uses what, in which box, by which kernel. */

import type { IGraphDocument, IKernel, INode, IValue } from '../../proto/document';
import { buildBoxes, type IBox } from './boxes';
import { withDrafts } from './drafts';
import { familyOf, type Family } from './families';
import { at } from '../narrow';

export interface IGraphNode {
  index: number;
  node: INode;
  family: Family;
  box: IBox;
  /** Indexes of values. */
  operands: number[];
  results: number[];
  /** Values that come out of what it runs, one list for each part of a branch or a loop. */
  gives: number[][];
  /** Drawn as a chip on its users instead of a node of its own. */
  isChip: boolean;
  /** It is not whole yet, and no operation of the graph. */
  isDraft: boolean;
  kernels: IKernel[];
}

export interface IGraphValue {
  index: number;
  value: IValue;
  /** Index of the operation that makes it, or -1. */
  producer: number;
  consumers: number[];
  isInput: boolean;
  isOutput: boolean;
}

/** What a view shows before it has a document. */
export const EMPTY_DOCUMENT: IGraphDocument = {
  format: 'maxlab.graph',
  version: 1,
  name: '',
  revision: 0,
  nodes: [],
  values: [],
  inputs: [],
  outputs: [],
  scopes: [],
  kernels: [],
  passes: [],
  profile: null,
  error: null
};

/** True for an operation that takes what comes out of it as the next turn of a loop. */
export function isLoop(node: INode | undefined): boolean {
  return node?.op === 'while' && node.gives !== undefined;
}

export class GraphModel {
  readonly nodes: IGraphNode[] = [];
  readonly values: IGraphValue[] = [];
  readonly root: IBox;
  readonly boxes = new Map<string, IBox>();
  readonly kernels = new Map<string, IKernel>();
  private readonly _nodeIndex = new Map<string, number>();
  private readonly _valueIndex = new Map<string, number>();

  constructor(readonly document: IGraphDocument) {
    const inputs = new Set(document.inputs);
    const outputs = new Set(document.outputs);
    const { nodes, values } = withDrafts(document);
    const drafts = new Set((document.drafts ?? []).map(({ id }) => id));
    values.forEach((value, index) => {
      this._valueIndex.set(value.id, index);
      this.values.push({
        index,
        value,
        producer: -1,
        consumers: [],
        isInput: inputs.has(value.id),
        isOutput: outputs.has(value.id)
      });
    });
    nodes.forEach((node, index) => this._nodeIndex.set(node.id, index));
    const indexes = (ids: readonly string[]): number[] =>
      ids.map(id => this._valueIndex.get(id) ?? -1).filter(i => i >= 0);
    const operands = nodes.map(node => indexes(node.operands));
    const results = nodes.map(node => indexes(node.results));
    const gives = nodes.map(node => (node.gives ?? []).map(indexes));
    results.forEach((list, index) => {
      for (const value of list) {
        at(this.values, value).producer = index;
      }
    });
    const successors: number[][] = nodes.map(() => []);
    operands.forEach((list, index) => {
      const use = (v: number, isBack: boolean): void => {
        const value = at(this.values, v);
        if (value.consumers[value.consumers.length - 1] !== index) {
          value.consumers.push(index);
        }
        if (value.producer >= 0 && !isBack) {
          successors[value.producer]?.push(index);
        }
      };
      list.forEach(v => use(v, false));
      const isBack = isLoop(nodes[index]);
      gives[index]?.forEach(given => given.forEach(v => use(v, isBack)));
    });
    this.root = buildBoxes({ ...document, nodes }, successors);
    const boxOf: IBox[] = [];
    const visit = (box: IBox): void => {
      this.boxes.set(box.key, box);
      for (const index of box.nodes) {
        boxOf[index] = box;
      }
      box.children.forEach(visit);
    };
    visit(this.root);
    nodes.forEach((node, index) => {
      const made = results[index] ?? [];
      const used = operands[index] ?? [];
      this.nodes.push({
        index,
        node,
        family: familyOf(node.family),
        box: boxOf[index] ?? this.root,
        operands: used,
        results: made,
        gives: gives[index] ?? [],
        isChip:
          used.length === 0 &&
          made.length > 0 &&
          made.every(v => {
            const value = at(this.values, v);
            const { kind } = value.value;
            const isFixed = kind === 'weight' || kind === 'constant';
            return isFixed && value.consumers.length > 0 && !value.isOutput;
          }),
        isDraft: drafts.has(node.id),
        kernels: []
      });
    });
    for (const kernel of document.kernels) {
      this.kernels.set(kernel.id, kernel);
      for (const id of kernel.nodes) {
        this.node(id)?.kernels.push(kernel);
      }
    }
  }

  node(id: string): IGraphNode | undefined {
    const index = this._nodeIndex.get(id);
    return index === undefined ? undefined : this.nodes[index];
  }

  value(id: string): IGraphValue | undefined {
    const index = this._valueIndex.get(id);
    return index === undefined ? undefined : this.values[index];
  }

  /** Every operation inside `box`, at any depth, in document order within each box. */
  nodesIn(box: IBox): number[] {
    const found: number[] = [];
    const visit = (inner: IBox): void => {
      for (const index of inner.nodes) {
        found.push(index);
      }
      inner.children.forEach(visit);
    };
    visit(box);
    return found;
  }

  /** Weights and constants that an operation reads, directly from the graph. */
  chipsOf(node: IGraphNode): IGraphValue[] {
    return node.operands
      .map(index => at(this.values, index))
      .filter(value => this.isChipValue(value));
  }

  /** True for weights and constants, which are drawn on their users. */
  isChipValue(value: IGraphValue): boolean {
    const { kind } = value.value;
    if (value.producer >= 0) {
      return this.nodes[value.producer]?.isChip ?? false;
    }
    return kind === 'weight' || kind === 'constant';
  }
}
