/** What answers questions about a weight file; the host of the view decides where the answers come from. */

import {
  isTensorSlice,
  type ISpan,
  type ITensorFacts,
  type ITensorSlice,
  type IWeightHeader
} from '../../proto/files';
import { read } from '../../proto/shape';
import { divided } from '../reply';

/** Which numbers of a tensor are wanted. */
export interface ISliceAsked {
  tensor: number;
  /** The axis that goes down, and the one that goes right; -1 for none. */
  rows: number;
  columns: number;
  /** The place on each axis; those of the two do not count. */
  at: readonly number[];
  window: IWindow;
}

/** A part of the two axes, in elements. */
export interface IWindow {
  top: number;
  left: number;
  height: number;
  width: number;
}

export interface ISlice extends ITensorSlice {
  /** Row after row. */
  values: Float64Array;
}

export interface IWeightSource {
  header(): Promise<IWeightHeader>;
  slice(asked: ISliceAsked): Promise<ISlice>;
  facts(tensor: number): Promise<ITensorFacts>;
}

/** A question that was refused, with what to do about it. */
export class SourceError extends Error {
  constructor(
    message: string,
    /** Such as `ML891`; empty when there is none. */
    readonly code: string,
    readonly fix: string
  ) {
    super(message);
  }
}

/** The element of an axis that place `n` of a span stands for. */
export function elementOf(span: ISpan, n: number): number {
  return span.start + n * span.step;
}

/** The slice in a server's answer; throws a sentence to show when there is none. */
export function readSlice(reply: ArrayBuffer): ISlice {
  const [found, bytes] = divided(reply);
  const slice = read(isTensorSlice, found, 'the server answered with something else than numbers');
  const count = slice.rows.count * slice.columns.count;
  if (bytes.byteLength !== 8 * count) {
    throw new SourceError('the server answered with another number of elements', '', '');
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { ...slice, values: Float64Array.from({ length: count }, (_, n) => view.getFloat64(8 * n, true)) };
}
