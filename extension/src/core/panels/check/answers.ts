/** What the kernel says of whether a model is right, in words; and the picture of a value. */

import type {
  CompareAnswer,
  ICheckedNode,
  IComparisonAnswer,
  IValueAnswer,
  IValueHistogram,
  IValueImage
} from '../../../proto/checks';
import { formatShare, plural } from '../../model/format';
import type { IToneNote } from '../../render/tones';
import { readColumn } from '../../view/panel';

/** The comparison of an answer; null when nothing was compared before. */
export function comparisonOf(answer: CompareAnswer): IComparisonAnswer | null {
  return answer.kind === 'comparison' ? answer : null;
}

export interface IImage extends IValueImage {
  /** Row after row; NaN where an element is no number. */
  points: ArrayLike<number>;
}

/** The picture of a value; null when it has none. */
export function imageOf(value: IValueAnswer, buffers: readonly ArrayBuffer[]): IImage | null {
  const { image } = value;
  if (image === null) {
    return null;
  }
  const points = readColumn({ buffer: image.buffer, dtype: image.dtype }, buffers);
  if (points.length !== image.rows * image.columns) {
    throw new Error('The picture of the value has another size than the kernel says.');
  }
  return { ...image, points };
}

/** The histogram of a value; null when it has none, or one whose edges do not fit. */
export function histogramOf({ histogram }: IValueAnswer): IValueHistogram | null {
  return histogram !== null && histogram.edges.length === histogram.counts.length + 1
    ? histogram
    : null;
}

/** What is written on an operation in the graph. */
export function noteOf(check: ICheckedNode): IToneNote {
  if (!check.ok) {
    return { tone: 'bad', text: 'wrong' };
  }
  if (check.message !== '') {
    return { tone: 'warn', text: 'behind' };
  }
  if (isSome(check.nan) || isSome(check.inf)) {
    return { tone: 'warn', text: [strange(check.nan, 'NaN'), strange(check.inf, 'inf')].join(' ').trim() };
  }
  if (check.by === 'kernel') {
    return { tone: 'good', text: check.kernel };
  }
  return { tone: 'good', text: ofTolerance(check.excess) };
}

function isSome(count: number | null): boolean {
  return count !== null && count > 0;
}

function strange(count: number | null, name: string): string {
  return isSome(count) ? `${count} ${name}` : '';
}

/** `12% of tolerance`: the largest error over what rounding may do; empty where it is not known. */
export function ofTolerance(excess: number | null | undefined): string {
  if (excess === null || excess === undefined) {
    return '';
  }
  if (excess === 0) {
    return 'exact';
  }
  return excess < 100 ? `${formatShare(excess)} of tolerance` : `${excess.toExponential(1)} × tolerance`;
}

/** Three digits of a number; a dash for what is not known. */
export function short(value: number | null): string {
  if (value === null) {
    return '–';
  }
  if (Number.isInteger(value) && Math.abs(value) < 1e6) {
    return String(value);
  }
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e6 ? String(Number(value.toPrecision(4))) : value.toExponential(2);
}

export function shapeText(value: IValueAnswer): string {
  return `${value.dtype} ${value.shape.length === 0 ? 'number' : value.shape.join(' × ')}`;
}

/** A histogram in words, for those who cannot see it. */
export function histogramText({ counts, edges }: IValueHistogram): string {
  let best = 0;
  counts.forEach((count, i) => {
    if (count > (counts[best] ?? 0)) {
      best = i;
    }
  });
  const from = `${short(edges[0] ?? 0)} to ${short(edges[edges.length - 1] ?? 0)}`;
  const most = `${short(edges[best] ?? 0)} and ${short(edges[best + 1] ?? 0)}`;
  return `Histogram from ${from}, ${plural(counts.length, 'bin')}; most, ${counts[best] ?? 0}, between ${most}.`;
}
