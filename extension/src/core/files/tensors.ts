/** What is worked out of a weight file before anything is drawn: rows, words, windows. */

import type { IWeightHeader, TensorRow } from '../../proto/files';
import { at } from '../narrow';
import type { IWindow } from './source';

export interface ITensor {
  /** Its place in the file's list, by which it is asked for. */
  index: number;
  name: string;
  dtype: string;
  shape: readonly number[];
  begin: number;
  bytes: number;
  /** Why its values cannot be shown; empty when they can. */
  problem: string;
  /** What a filter looks at, in lower case. */
  words: string;
}

export function tensorsOf(header: IWeightHeader): ITensor[] {
  return header.tensors.map((row, index) => tensorOf(row, index));
}

function tensorOf([name, dtype, shape, begin, bytes, problem]: TensorRow, index: number): ITensor {
  const words = `${name} ${dtype} ${shapeText(shape)} ${shape.join('x')}`.toLowerCase();
  return { index, name, dtype, shape, begin, bytes, problem, words };
}

/** `40 × 24`; of a single number, `number`. */
export function shapeText(shape: readonly number[]): string {
  return shape.length === 0 ? 'number' : shape.join(' × ');
}

/** How many numbers a tensor has. */
export function countOf(tensor: ITensor): number {
  return tensor.shape.reduce((product, size) => product * size, 1);
}

/** The tensors that have all words of `text` in name, dtype or shape. */
export function filtered(tensors: readonly ITensor[], text: string): readonly ITensor[] {
  const words = text.toLowerCase().split(/\s+/).filter(word => word !== '');
  return words.length === 0
    ? tensors
    : tensors.filter(tensor => words.every(word => tensor.words.includes(word)));
}

/** The two axes that a picture begins with: the last two that have more than one element. */
export function firstAxes(shape: readonly number[]): { rows: number; columns: number } {
  const long = shape.flatMap((size, axis) => (size > 1 ? [axis] : []));
  const all = shape.map((_, axis) => axis);
  const axes = long.length >= 2 ? long : all;
  return { rows: axes[axes.length - 2] ?? -1, columns: axes[axes.length - 1] ?? -1 };
}

export function sizeOf(shape: readonly number[], axis: number): number {
  return axis < 0 ? 1 : at(shape, axis);
}

/** The whole of two axes. */
export function wholeWindow(shape: readonly number[], rows: number, columns: number): IWindow {
  return { top: 0, left: 0, height: sizeOf(shape, rows), width: sizeOf(shape, columns) };
}

/** Fewer elements are not zoomed to. */
const LEAST = 8;

/**
 * A window that shows `factor` of what `window` shows, with the element `row`, `column` where it was,
 * within `whole`.
 */
export function zoomed(
  window: IWindow,
  whole: IWindow,
  row: number,
  column: number,
  factor: number
): IWindow {
  const [top, height] = zoomedAxis(window.top, window.height, whole.height, row, factor);
  const [left, width] = zoomedAxis(window.left, window.width, whole.width, column, factor);
  return { top, left, height, width };
}

function zoomedAxis(
  start: number,
  length: number,
  size: number,
  place: number,
  factor: number
): [number, number] {
  const made = Math.min(size, Math.max(Math.min(LEAST, length), Math.round(length * factor)));
  const part = length === 0 ? 0 : (place - start) / length;
  return [clamp(Math.round(place - part * made), 0, size - made), made];
}

/** A window of the same size that has the element in it. */
export function holding(window: IWindow, row: number, column: number): IWindow {
  return {
    ...window,
    top: clamp(window.top, row - window.height + 1, row),
    left: clamp(window.left, column - window.width + 1, column)
  };
}

export function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}

/** A number as text, with as many digits as tell it from others: `−0.0123`, `NaN`, `−∞`. */
export function numberText(value: number): string {
  if (Number.isNaN(value)) {
    return 'NaN';
  }
  const size = Math.abs(value);
  let text: string;
  if (size === Infinity) {
    text = '∞';
  } else if (Number.isInteger(size) && size < 1e15) {
    text = String(size);
  } else {
    text = size >= 1e-4 && size < 1e9 ? String(Number(size.toPrecision(7))) : size.toExponential(6);
  }
  return value < 0 || Object.is(value, -0) ? `−${text.replace('-', '−')}` : text.replace('-', '−');
}

/** Which numbers statistics have seen: `all 960 numbers`, `4,194,304 of 5,000,000,000 numbers (0.1%)…`. */
export function seenText(seen: number, count: number): string {
  const all = count.toLocaleString('en');
  if (seen === count) {
    return `all ${all} ${count === 1 ? 'number' : 'numbers'}`;
  }
  const percent = (seen / count) * 100;
  const share = percent < 0.1 ? '<0.1' : percent.toFixed(1);
  return `${seen.toLocaleString('en')} of ${all} numbers (${share} %), in stretches spread evenly`;
}
