/** Steps that a kernel was asked for and did not answer before it ended: which they were, in words. */

import { messageOf } from '../narrow';
import type { IChangeArgs } from '../../proto/changes';
import type { GraphModel } from '../model/graph';
import { UnansweredError } from './ask';

type Step = Partial<IChangeArgs> & { do: IChangeArgs['do'] };

interface IWaiting {
  args: Step;
  isLost: boolean;
}

const WORDS: Record<IChangeArgs['do'], string> = {
  look: 'look at the steps',
  add: 'add',
  insert: 'insert',
  replace: 'replace',
  connect: 'connect',
  splice: 'put on an edge:',
  set: 'change',
  remove: 'remove',
  duplicate: 'duplicate',
  group: 'group',
  dissolve: 'dissolve',
  paste: 'paste',
  input: 'add an input',
  random: 'add a constant',
  outputs: 'set the outputs',
  save: 'save',
  undo: 'undo',
  redo: 'redo',
  place: 'move',
  pin: 'pin',
  unpin: 'unpin',
  align: 'align',
  unplace: 'leave to the layout:',
  fold: 'fold',
  comment: 'add a comment',
  'set-comment': 'change the comment',
  'remove-comment': 'remove the comment',
  draft: 'put down as a draft:',
  resolve: 'decide the conflict'
};

/** What `step` does, such as `remove exp n4`. */
export function inWords(step: Step, model: Pick<GraphModel, 'node'>): string {
  const called = (id: string): string => {
    const node = model.node(id)?.node;
    return node === undefined ? id : `${node.name} ${id}`;
  };
  const keys = (step.places ?? []).map(({ key }) => key);
  const ids = [...new Set([step.op ?? '', ...(step.on ?? []), ...keys])].filter(id => id !== '');
  const items = ids.slice(0, 3).map(called);
  const more = ids.length > 3 ? [`and ${ids.length - 3} more`] : [];
  const { name = '' } = step;
  const at = [...items, ...more].join(', ');
  return [WORDS[step.do], name, name !== '' && at !== '' ? 'at' : '', at].filter(part => part !== '').join(' ');
}

/** The steps that wait for an answer, in their order. */
export class Unanswered {
  constructor(private readonly _model: () => Pick<GraphModel, 'node'>) {}

  /** What `make` gives for `args`; null where nobody answers, which is told once for all that wait. */
  async asked<T>(
    args: Step,
    before: Promise<unknown>,
    make: () => Promise<T>,
    failed: (error: unknown) => void
  ): Promise<T | null> {
    const one: IWaiting = { args, isLost: false };
    this._waiting.add(one);
    await before;
    try {
      return one.isLost ? null : await make();
    } catch (error) {
      failed(error instanceof UnansweredError ? this._lost(error) : error);
      return null;
    } finally {
      this._waiting.delete(one);
    }
  }

  private _lost(error: UnansweredError): Error {
    const lost = [...this._waiting].filter(({ args }) => args.do !== 'look');
    for (const one of this._waiting) {
      one.isLost = true;
    }
    const told = lost.map(({ args }) => inWords(args, this._model()));
    return told.length === 0 ? error : new Error(`Not done: ${told.join('; ')}. ${messageOf(error)}`);
  }

  private readonly _waiting = new Set<IWaiting>();
}
