/**
 * The graph document: the plain JSON snapshot of one graph that every view draws.
 *
 * Pure types. The document is produced in Python, travels through widget state, saved notebooks and
 * exported pages, and is therefore untrusted here: `validate.ts` turns unknown JSON into these types.
 */

/** One axis of a shape: a number, or the text of a symbolic dimension such as `batch` or `2*seq`. */
export type Dim = number | string;

/** A quantity that is known (number), depends on symbolic dims (expression text), or is unknown. */
export type Quantity = number | string | null;

export type ValueKind = 'tensor' | 'input' | 'weight' | 'constant';

/** Where in the user's code an operation was written. Lines count from 1, columns from 0. */
export interface ISource {
  file: string;
  line: number;
  col: number;
  text: string;
  function?: string | null;
}

export interface INode {
  id: string;
  op: string;
  name: string;
  scope: string;
  operands: string[];
  results: string[];
  attrs: Record<string, string>;
  source: ISource | null;
  /** Message of the error that this operation raised; null for a sound one. */
  error: string | null;
  /** Work of this operation alone, used to split the time of a kernel it shares. */
  flops?: Quantity;
  bytes?: Quantity;
}

export interface IValue {
  id: string;
  /** Ready-made text, such as `f32[batch, seq, 384]`. */
  type: string;
  dtype: string;
  shape: Dim[];
  kind: ValueKind;
  name?: string | null;
  nbytes?: number | null;
}

/** A module call or function that groups operations; `path` is dot-separated. */
export interface IScope {
  path: string;
  label: string;
  type: string;
  /** Equal for siblings with the same inside; empty when unknown. */
  fingerprint: string;
}

/** First line, last line (1-based, inclusive) of the generated text, and the node they compute. */
export type LineSpan = [number, number, string];

export interface IKernel {
  id: string;
  name: string;
  kind: string;
  nodes: string[];
  symbol: string;
  /** Generated text; null when it is sent on request. */
  source: string | null;
  lines: LineSpan[];
  flops: Quantity;
  bytes: Quantity;
  parallel: Quantity;
}

export interface IPass {
  name: string;
  before: number;
  after: number;
  ms: number;
}

export interface IKernelProfile {
  id: string;
  /** Nanoseconds in one run, all `count` launches together (median over runs). */
  ns: number;
  ns_min: number;
  count: number;
  flops: number | null;
  bytes: number | null;
  nodes: string[];
}

export interface IProfile {
  device: string;
  runs: number;
  threads: number;
  dims: Record<string, number>;
  wall_ns: number;
  wall_ns_min?: number | null;
  kernels: IKernelProfile[];
}

export interface IGraphError {
  code: string;
  message: string;
  fix: string | null;
  node: string | null;
}

export interface IGraphDocument {
  format: 'maxlab.graph';
  version: number;
  name: string;
  revision: number;
  nodes: INode[];
  values: IValue[];
  inputs: string[];
  outputs: string[];
  scopes: IScope[];
  kernels: IKernel[];
  passes: IPass[];
  profile: IProfile | null;
  error: IGraphError | null;
}
