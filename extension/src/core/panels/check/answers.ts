/** What the kernel says of whether a model is right, read from JSON that is not to be trusted. */

import { plural } from '../../model/format';
import type { IToneNote } from '../../render/tones';
import { readColumn } from '../../view/panel';
import { answer, list, number, object, objects, size, text, texts } from '../parts/read';

/** One operation beside its reference. */
export interface INodeCheck {
  id: string;
  op: string;
  kernel: string;
  isGood: boolean;
  /** True when its own result was compared, and not only those of its kernel. */
  isOwn: boolean;
  message: string;
  maxUlp: number | null;
  maxAbs: number | null;
  maxRel: number | null;
  nan: number;
  inf: number;
  wrong: number | null;
  size: number | null;
}

export interface IComparison {
  isGood: boolean;
  message: string;
  /** The first operation that is wrong. */
  first: string | null;
  canRepro: boolean;
  nodes: INodeCheck[];
}

export function readComparison(value: unknown): IComparison {
  const data = answer(value, 'compare');
  return {
    isGood: data.ok === true,
    message: text(data.message) ?? '',
    first: text(data.first),
    canRepro: data.canRepro === true,
    nodes: objects(data.nodes).map(node => ({
      id: text(node.id) ?? '',
      op: text(node.op) ?? '',
      kernel: text(node.kernel) ?? '',
      isGood: node.ok === true,
      isOwn: node.by === 'value',
      message: text(node.message) ?? '',
      maxUlp: number(node.maxUlp),
      maxAbs: number(node.maxAbs),
      maxRel: number(node.maxRel),
      nan: size(node.nan),
      inf: size(node.inf),
      wrong: number(node.wrong),
      size: number(node.size)
    }))
  };
}

/** The first operation that makes NaN or an infinity. */
export interface ITrip {
  kind: string;
  node: string;
  op: string;
  kernel: string | null;
  count: number;
  /** It came with the inputs or weights; `node` is then a name. */
  isGiven: boolean;
  operands: [string, string][];
}

export interface INanSearch {
  message: string;
  trip: ITrip | null;
}

export function readSearch(value: unknown): INanSearch {
  const data = answer(value, 'nan');
  const trip = object(data.trip);
  const node = text(trip.node);
  return {
    message: text(data.message) ?? '',
    trip:
      node === null
        ? null
        : {
            kind: text(trip.kind) ?? 'NaN',
            node,
            op: text(trip.op) ?? '',
            kernel: text(trip.kernel),
            count: size(trip.count),
            isGiven: trip.isGiven === true,
            operands: Object.entries(object(trip.operands)).map(([name, at]) => [name, String(at)])
          }
  };
}

export interface IHistogram {
  counts: number[];
  edges: number[];
}

export interface IImage {
  rows: number;
  columns: number;
  low: number;
  high: number;
  /** Row after row; NaN where an element is no number. */
  points: ArrayLike<number>;
}

/** What flows along one edge. */
export interface IValue {
  node: string;
  op: string;
  kernel: string | null;
  how: string;
  dtype: string;
  shape: number[];
  size: number;
  nan: number;
  inf: number;
  zero: number;
  min: number | null;
  max: number | null;
  mean: number | null;
  std: number | null;
  histogram: IHistogram | null;
  image: IImage | null;
  corner: string[][];
}

export function readValue(value: unknown, buffers: readonly ArrayBuffer[]): IValue {
  const data = answer(value, 'value');
  return {
    node: text(data.node) ?? '',
    op: text(data.op) ?? '',
    kernel: text(data.kernel),
    how: text(data.text) ?? '',
    dtype: text(data.dtype) ?? '',
    shape: list(data.shape).map(size),
    size: size(data.size),
    nan: size(data.nan),
    inf: size(data.inf),
    zero: size(data.zero),
    min: number(data.min),
    max: number(data.max),
    mean: number(data.mean),
    std: number(data.std),
    histogram: readHistogram(data.histogram),
    image: readImage(data.image, buffers),
    corner: list(data.corner).map(texts)
  };
}

function readHistogram(value: unknown): IHistogram | null {
  const data = object(value);
  const counts = list(data.counts).map(size);
  const edges = list(data.edges).map(number);
  const known = edges.filter((edge): edge is number => edge !== null);
  return counts.length > 0 && known.length === counts.length + 1 && edges.length === known.length
    ? { counts, edges: known }
    : null;
}

function readImage(value: unknown, buffers: readonly ArrayBuffer[]): IImage | null {
  const data = object(value);
  const rows = size(data.rows);
  const columns = size(data.columns);
  if (rows === 0 || columns === 0) {
    return null;
  }
  const points = readColumn({ buffer: data.buffer, dtype: data.dtype }, buffers);
  if (points.length !== rows * columns) {
    throw new Error('The picture of the value has another size than the kernel says.');
  }
  return { rows, columns, low: number(data.low) ?? 0, high: number(data.high) ?? 0, points };
}

/** What is written on an operation in the graph. */
export function noteOf(check: INodeCheck): IToneNote {
  if (!check.isGood) {
    return { tone: 'bad', text: 'wrong' };
  }
  if (check.message !== '') {
    return { tone: 'warn', text: 'behind' };
  }
  if (check.nan > 0 || check.inf > 0) {
    return { tone: 'warn', text: [strange(check.nan, 'NaN'), strange(check.inf, 'inf')].join(' ').trim() };
  }
  if (!check.isOwn) {
    return { tone: 'good', text: check.kernel };
  }
  return { tone: 'good', text: check.maxUlp === null ? '' : ulps(check.maxUlp) };
}

function strange(count: number, name: string): string {
  return count > 0 ? `${count} ${name}` : '';
}

export function ulps(count: number): string {
  return count < 10_000 ? `${count} ulp` : `${count.toExponential(1)} ulp`;
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

export function shapeText(value: IValue): string {
  return `${value.dtype} ${value.shape.length === 0 ? 'number' : value.shape.join(' × ')}`;
}

/** A histogram in words, for those who cannot see it. */
export function histogramText({ counts, edges }: IHistogram): string {
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
