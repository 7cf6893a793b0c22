/** What is said of the steps that a kernel was asked for when it ended. */

import { describe, expect, it } from 'vitest';

import { Questions, UnansweredError } from '../src/core/view/ask';
import { EMPTY_DOCUMENT, GraphModel } from '../src/core/model/graph';
import { inWords, Unanswered } from '../src/core/view/unanswered';

const model = new GraphModel(EMPTY_DOCUMENT);

describe('steps that nobody answers', () => {
  it('are all told, the first with those that waited behind it, and none is tried again', async () => {
    const steps = new Unanswered(() => model);
    const said: string[] = [];
    const tried: string[] = [];
    const failed = (error: unknown): void => void said.push(String((error as Error).message));
    let end = (): void => undefined;
    const gone = new Promise<never>((_, reject) => {
      end = () => reject(new UnansweredError('Nobody answers: its kernel ended.'));
    });
    const first = steps.asked({ do: 'remove', on: ['n4'] }, Promise.resolve(), () => gone, failed);
    const second = steps.asked(
      { do: 'add', name: 'relu', on: ['v1'] },
      first,
      async () => void tried.push('second'),
      failed
    );
    end();
    expect(await first).toBeNull();
    expect(await second).toBeNull();
    expect(said).toEqual(['Not done: remove n4; add relu at v1. Nobody answers: its kernel ended.']);
    expect(tried).toEqual([]);
    // What is asked for later is asked.
    expect(await steps.asked({ do: 'undo' }, second, async () => 'undone', failed)).toBe('undone');
  });

  it('are said as the kernel says when it refuses them', async () => {
    const steps = new Unanswered(() => model);
    const said: unknown[] = [];
    const refused = new Error('axis: there is no axis 3');
    await steps.asked({ do: 'set' }, Promise.resolve(), () => Promise.reject(refused), error => said.push(error));
    expect(said).toEqual([refused]);
  });

  it('are those that wait when the questions are dropped', async () => {
    const questions = new Questions(() => true, () => EMPTY_DOCUMENT, () => null);
    const asked = questions.ask('change', { do: 'look', name: '', on: [], op: '', operand: 0, fields: {} });
    questions.drop('it ended');
    await expect(asked).rejects.toBeInstanceOf(UnansweredError);
  });

  it('are short where many things are concerned', () => {
    expect(inWords({ do: 'remove', on: ['n1', 'n2', 'n3', 'n4', 'n5'] }, model)).toBe('remove n1, n2, n3, and 2 more');
    expect(inWords({ do: 'undo' }, model)).toBe('undo');
    expect(inWords({ do: 'pin', places: [{ key: 'n1', x: 0, y: 0, pinned: true }] }, model)).toBe('pin n1');
  });
});
