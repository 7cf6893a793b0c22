/** What the passes of the compiler made of a graph: what can be read off the kernel's answers. */

import type {
  INodeFate,
  IStageRewrite,
  IWhyAnswer,
  PassesAnswer
} from '../../../proto/checks';
import type { GraphModel } from '../../model/graph';

/** What became of an operation of the user's graph. */
export type State = INodeFate['state'] | 'added';

/** What each state means, for the legend. */
export const MEANINGS: Record<State, string> = {
  kept: 'as it was written',
  added: 'put in by the compiler',
  rewritten: 'replaced by other operations',
  folded: 'computed while compiling',
  removed: 'not needed: nothing reads it',
  fused: 'shares a kernel with others'
};

export const STATES: readonly State[] = [
  'kept',
  'added',
  'rewritten',
  'folded',
  'removed',
  'fused'
];

export interface IStage {
  name: string;
  /** How many there are before and after; null when the stage does not count them. */
  before: number | null;
  after: number | null;
  /** What is counted before and after. */
  counted: readonly [string, string];
  ms: number | null;
  /** How many of each the stage made; those of none are left out. */
  counts: [State, number][];
}

/** What became of an operation, or of one that the compiler put in. */
export interface IFate extends Omit<INodeFate, 'state'> {
  state: State;
}

export interface IStageDetail {
  stage: number;
  fates: Map<string, IFate>;
  rewrites: IStageRewrite[];
}

/** The list of stages of an answer. */
export function stagesOf(answer: PassesAnswer): IStage[] {
  if (answer.kind !== 'stages') {
    throw new Error('The kernel told of one stage instead of all.');
  }
  return answer.stages.map(stage => ({
    name: stage.name,
    before: stage.before,
    after: stage.after,
    counted: countedBy(stage.name),
    ms: stage.ms,
    counts: STATES.map((state): [State, number] => [state, stage[state]]).filter(
      ([state, count]) => state !== 'kept' && count > 0
    )
  }));
}

/** What a stage left of each operation. */
export function detailOf(answer: PassesAnswer): IStageDetail {
  if (answer.kind !== 'stage') {
    throw new Error('The kernel told of all stages instead of one.');
  }
  const { stage, nodes, rewrites } = answer;
  return { stage, fates: new Map(Object.entries(nodes)), rewrites };
}

/** Name of the stage that a graph itself tells of, with no kernel to ask. */
const SCHEDULE = 'schedule';

/** What a stage makes of what: operations are put into groups, and of these come kernels. */
function countedBy(name: string): readonly [string, string] {
  return name === SCHEDULE ? ['op', 'group'] : name === 'plan' ? ['group', 'kernel'] : ['op', 'op'];
}

/**
 * The stages that a saved graph tells of: its passes, by their numbers of operations, and the kernels
 * that came of them.
 */
export function savedStages(model: GraphModel): IStage[] {
  const { passes, kernels } = model.document;
  const fused = [...savedDetail(model).fates.values()].filter(fate => fate.state === 'fused').length;
  return [
    ...passes.map(
      ({ name, before, after, ms }): IStage => ({ name, before, after, counted: countedBy(name), ms, counts: [] })
    ),
    {
      name: SCHEDULE,
      before: passes[passes.length - 1]?.after ?? null,
      after: kernels.length,
      counted: ['op', 'kernel'],
      ms: null,
      counts: fused > 0 ? [['fused', fused]] : []
    }
  ];
}

/** What the kernels of a saved graph tell: which operations share one. */
export function savedDetail(model: GraphModel): IStageDetail {
  const fates = new Map<string, IFate>();
  for (const kernel of model.document.kernels) {
    const state: State = kernel.nodes.length > 1 ? 'fused' : 'kept';
    for (const id of kernel.nodes) {
      if (fates.get(id)?.state !== 'fused') {
        fates.set(id, { state, kernel: kernel.id, rule: '', changed: state === 'fused' });
      }
    }
  }
  return { stage: model.document.passes.length, fates, rewrites: [] };
}

export interface ICount {
  /** Changed by this stage. */
  now: number;
  /** Changed by an earlier one, or never. */
  before: number;
}

/** How many of the operations are in each state; all that the answer leaves out are kept. */
export function tally(detail: IStageDetail, ids: readonly string[]): Map<State, ICount> {
  const counts = new Map<State, ICount>();
  for (const id of ids) {
    const fate = detail.fates.get(id);
    const state = fate?.state ?? 'kept';
    const count = counts.get(state) ?? { now: 0, before: 0 };
    counts.set(state, count);
    count[fate?.changed === true ? 'now' : 'before'] += 1;
  }
  return counts;
}

/** Whether two operations share a kernel: the answer to “why”, or what a saved graph says of it. */
export type IWhy = Omit<IWhyAnswer, 'version' | 'a' | 'b'>;
