// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { LiveGraphs } from '../../src/lab/live';
import { answering, FakeContext } from './fake-kernel';

const G = { id: 'g1', kind: 'Graph', title: 'first', names: ['g'], stamp: '1.1', ops: 3 };

describe('LiveGraphs', () => {
  let live: LiveGraphs;
  let context: FakeContext;

  beforeEach(() => {
    vi.useFakeTimers();
    live = new LiveGraphs();
    context = new FakeContext();
  });
  afterEach(() => {
    live.dispose();
    vi.useRealTimers();
  });

  /** Follow `context` with a kernel that holds `graphs()`. */
  async function connect(graphs: () => unknown[], language?: string): Promise<void> {
    context.session = { kernel: answering(() => JSON.stringify(graphs()), language) };
    live.follow(context.context, 'a.ipynb');
    await vi.runAllTimersAsync();
  }

  it('has nothing without a notebook, and says that a notebook has no kernel', () => {
    expect(live.state).toBe('none');
    live.follow(context.context, 'a.ipynb');
    expect(live.state).toBe('no-kernel');
    live.follow(null, '');
    expect(live.state).toBe('none');
  });

  it('lists the graphs of the kernel', async () => {
    await connect(() => [G]);
    expect(live.state).toBe('ready');
    expect(live.graphs).toEqual([G]);
  });

  it('does not ask a kernel that is not Python', async () => {
    await connect(() => [G], 'julia');
    expect(live.state).toBe('other');
    expect(live.graphs).toEqual([]);
  });

  it('asks once after a run of cells, and only after what the user ran', async () => {
    let asked = 0;
    await connect(() => {
      asked += 1;
      return [G];
    });
    expect(asked).toBe(1);
    for (let cell = 0; cell < 3; cell += 1) {
      context.run();
      expect(live.state).toBe('busy');
      expect(live.graphs).toEqual([G]);
      context.statusChanged.emit('idle');
      await vi.advanceTimersByTimeAsync(50);
    }
    await vi.runAllTimersAsync();
    expect(asked).toBe(2);
    expect(live.state).toBe('ready');
    context.statusChanged.emit('busy');
    context.statusChanged.emit('idle');
    await vi.runAllTimersAsync();
    expect(asked).toBe(2);
  });

  it('forgets the graphs of a kernel that restarts, and asks when it is back', async () => {
    let graphs: unknown[] = [G];
    await connect(() => graphs);
    context.statusChanged.emit('restarting');
    expect(live.state).toBe('starting');
    expect(live.graphs).toEqual([]);
    graphs = [];
    context.statusChanged.emit('idle');
    await vi.runAllTimersAsync();
    expect(live.state).toBe('ready');
    expect(live.graphs).toEqual([]);
  });

  it('drops an answer that comes after the user went to another notebook', async () => {
    let answer: (text: string) => void = () => undefined;
    context.session = { kernel: answering(() => new Promise<string>(done => (answer = done))) };
    live.follow(context.context, 'a.ipynb');
    await vi.runAllTimersAsync();
    const other = new FakeContext();
    live.follow(other.context, 'b.ipynb');
    answer(JSON.stringify([G]));
    await vi.runAllTimersAsync();
    expect(live.state).toBe('no-kernel');
    expect(live.graphs).toEqual([]);
  });

  it('tells why the kernel could not be asked', async () => {
    await connect(() => {
      throw new Error('NameError: no');
    });
    expect(live.state).toBe('failed');
    expect(live.reason).toContain('NameError');
  });

  it('lets go of a notebook that is closed', async () => {
    await connect(() => [G]);
    context.disposed.emit();
    expect(live.state).toBe('none');
    context.run();
    expect(live.state).toBe('none');
  });
});
