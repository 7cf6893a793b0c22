/** What the kernel says of runs: two or more compared, or one model at many sizes. */

import { answer, list, number, object, objects, size, text, texts, type Json } from '../parts/read';

export const STATES = ['slower', 'faster', 'new', 'gone', 'unclear', 'same'] as const;

/** What became of a time. `unclear`: no difference can be shown, and none ruled out. */
export type State = (typeof STATES)[number];

/** A ratio of times, after ÷ before, with the interval that it is known to lie in. */
export interface IEstimate {
  before: number;
  after: number;
  ratio: number | null;
  low: number | null;
  high: number | null;
  state: State;
}

export interface IRow extends IEstimate {
  name: string;
  kind: string;
  /** `k4`, or `k3+k4 → k3` where the compiler cut otherwise. */
  kernels: string;
  /** Ids of operations of the graph that is drawn. */
  nodes: string[];
  code: 'same' | 'changed' | '';
  isRegrouped: boolean;
}

export interface ISide {
  /** Number of the run in the kernel; null where it was saved. */
  number: number | null;
  label: string;
  facts: [string, string][];
  wall: number;
}

export interface IPair {
  before: number;
  side: number;
  wall: IEstimate;
  total: IEstimate;
  notes: string[];
  rows: IRow[];
  /** Rows that were left out. */
  more: number;
}

export interface IComparison {
  kind: 'diff' | 'history';
  confidence: number;
  sides: ISide[];
  pairs: IPair[];
  /** Sizes of the symbolic dims of the newest run. */
  dims: [string, number][];
}

export interface ICurve {
  id: string;
  name: string;
  nodes: string[];
  /** One for each point: the median, and the quartiles. */
  ns: number[];
  low: number[];
  high: number[];
  /** For each dim the power that time, operations and bytes grow as. */
  growth: Map<string, (number | null)[]>;
}

export interface ISweep {
  kind: 'sweep';
  dims: string[];
  points: Map<string, number>[];
  wall: ICurve;
  kernels: ICurve[];
}

/** Reads the answer to `runs` or `sweep`; throws a sentence to show. */
export function readRuns(value: unknown): IComparison | ISweep {
  const data = answer(value, 'runs');
  return data.kind === 'sweep' ? readSweep(data) : readComparison(data);
}

function readComparison(data: Json): IComparison {
  const sides = objects(data.sides).map(readSide);
  const pairs = objects(data.pairs)
    .map(readPair)
    .filter(pair => sides[pair.before] !== undefined && sides[pair.side] !== undefined);
  return {
    kind: data.kind === 'diff' ? 'diff' : 'history',
    confidence: number(data.confidence) ?? 0.95,
    sides,
    pairs,
    dims: sizesOf(data.dims)
  };
}

function sizesOf(value: unknown): [string, number][] {
  return Object.entries(object(value)).filter(
    (entry): entry is [string, number] => number(entry[1]) !== null
  );
}

function readSide(data: Json): ISide {
  const dims = sizesOf(data.dims)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ');
  const machine = object(data.machine);
  const facts: [string, string | null][] = [
    ['graph', text(data.name)],
    ['device', text(data.device)],
    ['threads', number(data.threads)?.toString() ?? null],
    ['sizes', dims || null],
    ['options', text(data.options)],
    ['executions', number(data.runs)?.toString() ?? null],
    ['processes', number(data.processes)?.toString() ?? null],
    ['CPU', text(machine.cpu)],
    ['compiler', text(machine.compiler)],
    ['recorded', text(data.created)]
  ];
  return {
    number: number(data.number),
    label: text(data.label) ?? '?',
    facts: facts.filter((fact): fact is [string, string] => fact[1] !== null),
    wall: size(data.wall)
  };
}

function readPair(data: Json): IPair {
  return {
    before: number(data.before) ?? 0,
    side: number(data.side) ?? -1,
    wall: readEstimate(object(data.wall)),
    total: readEstimate(object(data.total)),
    notes: texts(data.notes),
    rows: objects(data.rows).map(readRow),
    more: size(data.more)
  };
}

function readEstimate(data: Json): IEstimate {
  const state = STATES.find(name => name === data.state) ?? 'unclear';
  return {
    before: size(data.before),
    after: size(data.after),
    ratio: number(data.ratio),
    low: number(data.low),
    high: number(data.high),
    state
  };
}

function readRow(data: Json): IRow {
  return {
    ...readEstimate(data),
    name: text(data.name) ?? '?',
    kind: text(data.kind) ?? '',
    kernels: text(data.kernels) ?? '?',
    nodes: texts(data.nodes),
    code: data.code === 'same' || data.code === 'changed' ? data.code : '',
    isRegrouped: data.regrouped === true
  };
}

function readSweep(data: Json): ISweep {
  const dims = texts(data.dims);
  const points = objects(data.points).map(
    point => new Map(dims.map(dim => [dim, size(point[dim])]))
  );
  if (dims.length === 0 || points.length === 0) {
    throw new Error('The sweep has no sizes.');
  }
  const kernels = objects(data.kernels).map(kernel => readCurve(kernel, dims, points.length));
  const wall = readCurve({ ...object(data.wall), id: '', name: 'one run' }, dims, points.length);
  return { kind: 'sweep', dims, points, wall, kernels };
}

function readCurve(data: Json, dims: readonly string[], count: number): ICurve {
  const column = (value: unknown): number[] => {
    const values = list(value);
    return Array.from({ length: count }, (_, i) => size(values[i]));
  };
  const growth = object(data.growth);
  return {
    id: text(data.id) ?? '',
    name: text(data.name) ?? '?',
    nodes: texts(data.nodes),
    ns: column(data.ns),
    low: column(data.low),
    high: column(data.high),
    growth: new Map(dims.map(dim => [dim, list(growth[dim]).map(number)]))
  };
}
