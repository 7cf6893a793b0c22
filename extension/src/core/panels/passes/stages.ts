/** What the passes of the compiler made of a graph, as the kernel answers it. */

import type { GraphModel } from '../../model/graph';
import { answer, number, object, objects, size, text, texts } from '../parts/read';

export const STATES = ['kept', 'added', 'rewritten', 'folded', 'removed', 'fused'] as const;

/** What became of an operation of the user's graph. */
export type State = (typeof STATES)[number];

/** What each state means, for the legend. */
export const MEANINGS: Record<State, string> = {
  kept: 'as it was written',
  added: 'put in by the compiler',
  rewritten: 'replaced by other operations',
  folded: 'computed while compiling',
  removed: 'not needed: nothing reads it',
  fused: 'shares a kernel with others'
};

export interface IStage {
  name: string;
  /** Operations before and after; null when the stage does not count them. */
  before: number | null;
  after: number | null;
  ms: number | null;
  /** How many of each the stage made; those of none are left out. */
  counts: [State, number][];
}

export interface IFate {
  state: State;
  /** The kernel that computes it, once there are kernels. */
  kernel: string | null;
  rule: string;
  /** This stage did it; false when an earlier one did. */
  isNew: boolean;
}

export interface IRewrite {
  /** The name of the rule. */
  rule: string;
  /** The user's operation; null for one that the compiler had made. */
  node: string | null;
  op: string;
  /** Operations, or kernels, that took its place; none when it was removed. */
  into: string[];
  /** The rule in a sentence; may be empty. */
  text: string;
}

export interface IStageDetail {
  stage: number;
  fates: Map<string, IFate>;
  rewrites: IRewrite[];
}

function stateOf(value: unknown): State {
  return STATES.find(state => state === value) ?? 'kept';
}

/** The list of stages in an answer to “passes”; throws a sentence when it is none. */
export function readStages(value: unknown): IStage[] {
  const data = answer(value, 'passes');
  return objects(data.stages).map((stage, i): IStage => {
    const counts = STATES.map((state): [State, number] => [state, size(stage[state])]);
    return {
      name: text(stage.name) ?? `stage ${i}`,
      before: number(stage.before),
      after: number(stage.after),
      ms: number(stage.ms),
      counts: counts.filter(([state, count]) => state !== 'kept' && count > 0)
    };
  });
}

/** What a stage left of each operation; throws a sentence when the answer is none. */
export function readDetail(value: unknown): IStageDetail {
  const data = answer(value, 'passes');
  const fates = new Map<string, IFate>();
  for (const [id, raw] of Object.entries(object(data.nodes))) {
    const fate = object(raw);
    fates.set(id, {
      state: stateOf(fate.state),
      kernel: text(fate.kernel),
      rule: text(fate.rule) ?? '',
      isNew: fate.changed === true
    });
  }
  const rewrites = objects(data.rewrites).map(
    (rewrite): IRewrite => ({
      rule: text(rewrite.rule) ?? '',
      node: text(rewrite.node),
      op: text(rewrite.op) ?? '',
      into: texts(rewrite.into),
      text: text(rewrite.text) ?? ''
    })
  );
  return { stage: size(data.stage), fates, rewrites };
}

/** Name of the stage that a graph itself tells of, with no kernel to ask. */
const SCHEDULE = 'schedule';

/**
 * The stages that a saved graph tells of: its passes, by their numbers of operations, and the kernels
 * that came of them.
 */
export function savedStages(model: GraphModel): IStage[] {
  const { passes, kernels } = model.document;
  const fused = [...savedDetail(model).fates.values()].filter(fate => fate.state === 'fused').length;
  return [
    ...passes.map(
      ({ name, before, after, ms }): IStage => ({ name, before, after, ms, counts: [] })
    ),
    {
      name: SCHEDULE,
      before: passes[passes.length - 1]?.after ?? null,
      after: kernels.length,
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
        fates.set(id, { state, kernel: kernel.id, rule: '', isNew: state === 'fused' });
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
    count[fate?.isNew === true ? 'now' : 'before'] += 1;
  }
  return counts;
}

export interface IWhy {
  isTogether: boolean;
  kernels: [string | null, string | null];
  reason: string;
  rule: string;
  /** Python that would change it; empty when nothing would. */
  attempt: string;
}

/** The answer to “why”; throws a sentence when it is none. */
export function readWhy(value: unknown): IWhy {
  const data = answer(value, 'why');
  return {
    isTogether: data.together === true,
    kernels: [text(data.kernelA), text(data.kernelB)],
    reason: text(data.reason) ?? 'The compiler gives no reason.',
    rule: text(data.rule) ?? '',
    attempt: text(data.try) ?? ''
  };
}
