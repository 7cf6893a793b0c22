/** What the kernel says of runs, as the panel shows it: two or more compared, or one model at many sizes. */

import type {
  IDiffAnswer,
  IHistoryAnswer,
  IRunPair,
  IRunSide,
  ISweepAnswer,
  ISweepKernel,
  RunState,
  RunsAnswer
} from '../../../proto/told';

export const STATES: readonly RunState[] = ['slower', 'faster', 'new', 'gone', 'unclear', 'few', 'same'];

export interface ISide {
  /** Number of the run in the kernel; null where it was saved. */
  number: number | null;
  label: string;
  facts: [string, string][];
  wall: number;
}

export interface IComparison {
  kind: 'diff' | 'history';
  confidence: number;
  sides: ISide[];
  pairs: IRunPair[];
  /** Sizes of the symbolic dims of the newest run. */
  dims: [string, number][];
}

/** One entry for each point: the median, and the quartiles. */
export type ICurve = ISweepKernel;

export interface ISweep {
  kind: 'sweep';
  dims: string[];
  points: Record<string, number>[];
  wall: ICurve;
  kernels: ICurve[];
}

/** The runs, or the sizes, of an answer; throws a sentence when it makes no sense. */
export function runsOf(answer: RunsAnswer): IComparison | ISweep {
  return answer.kind === 'sweep' ? sweepOf(answer) : comparisonOf(answer);
}

function comparisonOf(answer: IDiffAnswer | IHistoryAnswer): IComparison {
  const { kind, confidence, pairs } = answer;
  const sides =
    kind === 'history'
      ? answer.sides.map(side => sideOf(side, side.number))
      : answer.sides.map(side => sideOf(side, null));
  for (const { before, side } of pairs) {
    if (sides[before] === undefined || sides[side] === undefined) {
      throw new Error(`The comparison names the runs ${before} and ${side} of ${sides.length}.`);
    }
  }
  const dims = kind === 'history' ? Object.entries(answer.dims) : [];
  return { kind, confidence, sides, pairs, dims };
}

function sideOf(side: IRunSide, number: number | null): ISide {
  const dims = Object.entries(side.dims)
    .map(([name, size]) => `${name}=${size}`)
    .join(', ');
  const facts: [string, string | undefined][] = [
    ['graph', side.name],
    ['device', side.device],
    ['threads', String(side.threads)],
    ['sizes', dims],
    ['options', side.options],
    ['executions', String(side.runs)],
    ['processes', String(side.processes)],
    ['CPU', side.machine.cpu],
    ['compiler', side.machine.compiler],
    ['recorded', side.created]
  ];
  return {
    number,
    label: side.label,
    facts: facts.flatMap(([name, text]): [string, string][] =>
      text === undefined || text === '' ? [] : [[name, text]]
    ),
    wall: side.wall
  };
}

/** The sizes of a sweep; throws a sentence when a curve does not have a time for each. */
export function sweepOf({ dims, points, wall, kernels }: ISweepAnswer): ISweep {
  if (dims.length === 0 || points.length === 0) {
    throw new Error('The sweep has no sizes.');
  }
  for (const { ns, low, high } of [wall, ...kernels]) {
    if ([ns, low, high].some(column => column.length !== points.length)) {
      throw new Error(`The sweep has ${points.length} sizes, and another number of times.`);
    }
  }
  const run: ICurve = { ...wall, id: '', name: 'one run', kind: '', nodes: [] };
  return { kind: 'sweep', dims, points, wall: run, kernels };
}
