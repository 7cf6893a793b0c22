/**
 * The graph document: the plain JSON snapshot of one graph that every view draws.
 *
 * Pure types. The document is produced in Python, travels through messages, saved notebooks and
 * exported pages, and is therefore untrusted here: `validate.ts` turns unknown JSON into these
 * types.
 *
 * Generated from `maxlab/lab/protocol.py` by `scripts/gen_protocol.py`: change it there.
 */

/**
 * One axis of a shape: a number, or the text of a symbolic dimension such as `batch` or `2*seq`.
 */
export type Dim = number | string;

/** A quantity that is known (number), depends on symbolic dims (expression text), or is unknown. */
export type Quantity = number | string | null;

export type ValueKind = 'tensor' | 'input' | 'weight' | 'constant';

/** First line, last line (1-based, inclusive) of the generated text, and the node they compute. */
export type LineSpan = [number, number, string];

/** Where in the user's code an operation was written. Lines count from 1, columns from 0. */
export interface ISource {
  file: string;
  line: number;
  col: number;
  text: string;
  /** The column behind the expression, when it ends on the same line. */
  end?: number;
  function?: string | null;
}

/** One operation of the user's graph. */
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
  /**
   * The family by which views colour it, as `contract` or `elementwise`; what a view does not know,
   * and what documents of older versions leave out, is of the family `other`.
   */
  family?: string;
  /** Work of this operation alone, used to split the time of a kernel it shares. */
  flops?: Quantity;
  bytes?: Quantity;
  /**
   * The values that come out of what this operation runs: of a `while` the flag that says whether
   * there is another turn, and the values of the next turn, which it makes its results; of a `cond`
   * the results of its two branches.
   */
  gives?: string[][];
}

/** One tensor that flows through the graph. */
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

/** One step of the compiled plan. */
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
  /** Where it runs, such as ``gpu:0``; the CPU when it is left out. */
  device?: string;
  /** Of the generated text; C when it is left out. Python is not generated: torch runs it. */
  language?: 'c' | 'cuda' | 'python';
}

/** What one pass of the compiler did. */
export interface IPass {
  name: string;
  before: number;
  after: number;
  ms: number;
}

/** The time of one kernel. */
export interface IKernelProfile {
  id: string;
  /** Nanoseconds in one run, all `count` launches together (median over runs). */
  ns: number;
  ns_min: number;
  /** Launches in one run: the turns of a loop, and 0 in a branch that was not taken. */
  count: number;
  /** Of all launches together, as `bytes`. */
  flops: number | null;
  bytes: number | null;
  nodes: string[];
  /** Nanoseconds between the first and the third quartile. */
  ns_iqr?: number | null;
}

/** Times of all kernels on one set of inputs. */
export interface IProfile {
  device: string;
  runs: number;
  threads: number;
  dims: Record<string, number>;
  wall_ns: number;
  wall_ns_min?: number | null;
  kernels: IKernelProfile[];
  /** How much longer a run takes while kernels are timed, as a fraction. */
  overhead?: number | null;
}

/** Why a graph could not be continued. */
export interface IGraphError {
  code: string;
  message: string;
  fix: string | null;
  node: string | null;
}

/** The plain JSON snapshot of one graph that every view draws. */
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
  /** Answers to questions of the panels, so that they work without a kernel: what -> data. */
  answers?: Record<string, unknown>;
  /** The panel to open when the graph is first shown. */
  panel?: string;
}

/** A document as it is saved: JSON in UTF-8, compressed with zlib, in base64. */
export interface IPacked {
  encoding: 'deflate+base64';
  data: string;
}
