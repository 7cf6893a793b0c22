// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { GraphView } from '../src/core';
import {
  formatSaving,
  intervalText,
  outputs,
  rowsOf,
  savingBars,
  spokenPrediction,
  verdict
} from '../src/core/panels/advice/advice';
import { readAnswer } from '../src/proto/answers';
import type { IAdviceAction, IAdviceAnswer, ITryAnswer } from '../src/proto/costs';
import type { IGraphDocument } from '../src/proto/document';
import { StubContext } from './canvas';
import { threeOps, withProfile } from './fixtures';

const mounted: { dispose(): void }[] = [];

beforeEach(() => {
  HTMLCanvasElement.prototype.getContext = (() => new StubContext()) as never;
  for (const [name, size] of [['clientWidth', 900], ['clientHeight', 500]] as const) {
    Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => size });
  }
});

afterEach(() => {
  mounted.splice(0).forEach(view => view.dispose());
  document.body.replaceChildren();
});

const idOf = (op: string): string => threeOps().nodes.find(node => node.op === op)?.id ?? '';
const [MUL, GELU] = [idOf('mul'), idOf('gelu')] as const;

const ACTION: IAdviceAction = {
  id: 'hoist',
  kind: 'hoist',
  title: 'Compute what depends on weights alone before the model is loaded',
  why: 'k0 (tanh) reads only weights.',
  kernels: ['k0'],
  nodes: [MUL],
  predicted_ns: 520_000,
  predicted_share: 0.65,
  low_ns: 430_000,
  high_ns: 650_000,
  how: 'w = compute(weights)',
  can_try: true,
  changes: 'rounding'
};

const TRIAL: ITryAnswer = {
  version: 1,
  id: 'hoist',
  before_ns: 800_000,
  after_ns: 290_000,
  saved_ns: 510_000,
  low_ns: 480_000,
  high_ns: 530_000,
  clear: true,
  predicted_ns: 520_000,
  predicted_low_ns: 430_000,
  predicted_high_ns: 650_000,
  runs: 31,
  before_bytes: 9_000_000,
  after_bytes: 5_000_000,
  before_kernels: 4,
  after_kernels: 2,
  max_ulp: 1.5,
  max_abs: 1.2e-7,
  relative: 2e-8,
  how: 'code'
};

const ADVICE: IAdviceAnswer = {
  version: 2,
  total_ns: 800_000,
  actions: [ACTION, { ...ACTION, id: 'layout:k1', title: 'Avoid the copy k1', nodes: [GELU], predicted_ns: 130_000, predicted_share: 0.16, low_ns: 90_000, high_ns: 140_000, can_try: false, changes: 'nothing' }]
};

describe('answers about advice', () => {
  it('are read, and say what is wrong and where', () => {
    expect(readAnswer('advice', ADVICE)).toEqual(ADVICE);
    const wrong = { ...ADVICE, actions: [ACTION, { ...ACTION, predicted_ns: 'much' }] };
    expect(() => readAnswer('advice', wrong)).toThrow(
      'The answer to “advice” cannot be read: actions[1].predicted_ns: expected a whole number, got text "much"'
    );
    expect(() => readAnswer('advice', { ...ADVICE, version: 3 })).toThrow(/has version 3: this page reads version 2/);
    const { saved_ns: _, ...less } = TRIAL;
    expect(() => readAnswer('try', less)).toThrow('saved_ns: it is missing');
  });

  it('has words for savings, costs and doubts', () => {
    expect(formatSaving(520_000)).toBe('−520 µs');
    expect(formatSaving(-1500)).toBe('+1.50 µs');
    expect(formatSaving(0)).toBe('±0 ns');
    const trial = TRIAL;
    expect(verdict(trial)).toBe('Faster by 64%.');
    expect(verdict({ ...trial, saved_ns: -80_000 })).toBe('Slower by 10%.');
    expect(verdict({ ...trial, clear: false })).toMatch(/No difference/);
    expect(outputs(trial)).toBe('at most 1.2e-7 apart, 2e-8 of the largest number');
    const { relative: _, ...old } = trial;
    expect(outputs({ ...old, max_ulp: 22528 })).toBe('at most 1.2e-7 apart');
    expect(outputs({ ...trial, max_abs: 0, max_ulp: 0 })).toBe('bit for bit the same');
    expect(outputs({ ...trial, max_abs: null, max_ulp: null })).toMatch(/NaN/);
  });

  it('lists what changed', () => {
    expect(rowsOf(TRIAL)).toEqual([
      ['time of a run (median)', '800 µs', '290 µs', '−510 µs'],
      ['bytes moved', '9.00 MB', '5.00 MB', '−4.00 MB'],
      ['kernels', '4', '2', '−2']
    ]);
    const [, , kernels] = rowsOf(({ ...TRIAL, after_kernels: 4 }));
    expect(kernels?.[3]).toBe('no change');
  });

  it('says where a saving should lie', () => {
    expect(spokenPrediction(ACTION)).toBe('predicted to save 520 µs, 65%, between 430 µs and 650 µs');
    const costs = { ...ACTION, predicted_ns: -2000, predicted_share: -0.01, low_ns: -9000, high_ns: -1000 };
    expect(spokenPrediction(costs)).toBe('predicted to cost 2.00 µs, 1.0%, between 1.00 µs and 9.00 µs');
    expect(spokenPrediction({ ...ACTION, low_ns: -5000 })).toMatch(/between 5.00 µs slower and 650 µs faster: it may change nothing/);
    expect(spokenPrediction({ ...ACTION, predicted_ns: null, predicted_share: null })).toBe('no prediction');
    const { low_ns: _, high_ns: __, ...old } = ACTION;
    expect(spokenPrediction(old)).toBe('predicted to save 520 µs, 65%');
    expect(intervalText(-9000, 650_000)).toBe('+9.00 µs to −650 µs');
    expect(intervalText(-9000, -1000)).toBe('+1.00 µs to +9.00 µs');
    expect(intervalText(null, null)).toBe('');
  });

  it('draws bars on one scale that holds 0', () => {
    const bars = savingBars(({ ...TRIAL, predicted_ns: 400, predicted_low_ns: null, predicted_high_ns: null, saved_ns: -100, low_ns: -200, high_ns: 0 }));
    expect(bars.zero).toBeCloseTo(1 / 3);
    expect(bars.predicted).toEqual({ left: bars.zero, width: expect.closeTo(2 / 3) as number });
    expect(bars.expected).toBeNull();
    expect(bars.measured.left + bars.measured.width).toBeCloseTo(bars.zero);
    expect(bars.interval).toEqual({ left: 0, width: expect.closeTo(1 / 3) as number });
    const still = savingBars(({ ...TRIAL, predicted_ns: 0, predicted_low_ns: 0, predicted_high_ns: 0, saved_ns: 0, low_ns: 0, high_ns: 0 }));
    expect(still.predicted?.width).toBe(0);
    expect(savingBars({ ...TRIAL, predicted_ns: null }).predicted).toBeNull();
  });
});

type Answers = (what: string, args: Record<string, unknown>) => unknown;

const answers: Answers = what => (what === 'try' ? TRIAL : ADVICE);

async function mount(
  doc: IGraphDocument,
  reply: Answers | null = answers
): Promise<{ view: GraphView; panel: HTMLElement; asked: [string, Record<string, unknown>][] }> {
  const view = new GraphView(document.body, { noProfile: reply === null ? 'it is a saved page' : null, canAsk: reply !== null });
  const asked: [string, Record<string, unknown>][] = [];
  view.events.on('asked', ({ id, what, args }) => {
    asked.push([what, args]);
    queueMicrotask(() => {
      try {
        view.setAnswer(id, true, reply?.(what, args), '', []);
      } catch (error) {
        view.setAnswer(id, false, null, (error as Error).message, []);
      }
    });
  });
  mounted.push(view);
  view.setDocument(doc);
  await view.layoutDone();
  const tab = [...view.dock.element.querySelectorAll<HTMLElement>('[role=tab]')].find(t => t.textContent?.includes('Advice'));
  tab?.click();
  await settle();
  return { view, panel: view.dock.element, asked };
}

const settle = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 0));

function find(root: Element, text: string): HTMLButtonElement {
  const found = [...root.querySelectorAll<HTMLButtonElement>('button')].find(node => node.textContent?.includes(text));
  expect(found, `a button with “${text}”`).toBeDefined();
  return found as HTMLButtonElement;
}

describe('the advice panel', () => {
  it('ranks actions, and tries one', async () => {
    const { panel, asked } = await mount(withProfile(threeOps()));
    const titles = [...panel.querySelectorAll('ol .jp-MaxLab-adviceTitle')].map(node => node.textContent);
    expect(titles).toEqual(ADVICE.actions.map(action => action.title));
    find(panel, 'Try it').click();
    expect(panel.textContent).toContain('running both in turns');
    await settle();
    expect(asked.filter(([what]) => what === 'try')).toEqual([['try', { id: 'hoist' }]]);
    expect(panel.querySelector('.jp-MaxLab-adviceResult strong')?.textContent).toBe('Faster by 64%.');
    expect(panel.querySelector('.jp-MaxLab-adviceTable')?.textContent).toContain('bytes moved');
  });

  it('shows where each saving should lie', async () => {
    const { panel } = await mount(withProfile(threeOps()));
    const intervals = [...panel.querySelectorAll('ol .jp-MaxLab-adviceInterval')].map(node => node.textContent);
    expect(intervals).toEqual(['−430 µs to −650 µs', '−90.0 µs to −140 µs']);
  });

  it('says why nothing is predicted, and what it was, and then draws no bar', async () => {
    const none = { predicted_ns: null, predicted_share: null, low_ns: null, high_ns: null };
    const withheld = 'the machine was too busy to tell: profile again when nothing else runs';
    const busy: IAdviceAnswer = { ...ADVICE, withheld, actions: ADVICE.actions.map(action => ({ ...action, ...none })) };
    const { panel } = await mount(withProfile(threeOps()), what => (what === 'try' ? { ...TRIAL, predicted_ns: null } : busy));
    expect(panel.querySelector('.jp-MaxLab-adviceWithheld')?.textContent).toBe(`No savings are predicted: ${withheld}.`);
    expect([...panel.querySelectorAll('ol .jp-MaxLab-adviceSaving')].map(node => node.textContent)).toEqual(['no prediction', 'no prediction']);
    expect(panel.querySelector('.jp-MaxLab-adviceGauge')).toBeNull();
    find(panel, 'Try it').click();
    await settle();
    expect(panel.querySelector('.jp-MaxLab-adviceResult')?.textContent).toContain('Nothing was predicted.');
  });

  it('lists what was chosen of kernels with several variants, and nothing where there is none', async () => {
    const line = 'k0: chose in place, 990 µs; next best packed, 2.13 ms';
    const told = await mount(withProfile(threeOps()), what => (what === 'try' ? TRIAL : { ...ADVICE, chosen: [line] }));
    expect([...told.panel.querySelectorAll('.jp-MaxLab-chosen li')].map(node => node.textContent)).toEqual([line]);
    const silent = await mount(withProfile(threeOps()));
    expect(silent.panel.querySelector('.jp-MaxLab-chosen')).toBeNull();
  });

  it('has nothing to press where the change is the user’s', async () => {
    const { panel } = await mount(withProfile(threeOps()));
    const cards = [...panel.querySelectorAll('ol .jp-MaxLab-adviceCard')];
    expect(cards.map(card => card.querySelector('.jp-mod-primary') !== null)).toEqual([true, false]);
    expect(cards[1]?.textContent).toContain('a change to make in the graph');
  });

  it('selects what an action is about, and marks it when that is selected elsewhere', async () => {
    const { view, panel } = await mount(withProfile(threeOps()));
    find(panel, ADVICE.actions[1]?.title ?? '').click();
    expect(view.selection).toEqual([GELU]);
    view.select([MUL]);
    const marked = [...panel.querySelectorAll('ol .jp-MaxLab-adviceCard')].map(card => card.classList.contains('jp-mod-selected'));
    expect(marked).toEqual([true, false]);
  });

  it('asks for experiments with the selected operations', async () => {
    const { view, asked } = await mount(withProfile(threeOps()));
    view.select([GELU]);
    await settle();
    expect(asked.filter(([what]) => what === 'experiments').pop()).toEqual(['experiments', { nodes: [GELU] }]);
  });

  it('shows why a trial failed, and lets one try again', async () => {
    const failing: Answers = what => {
      if (what === 'try') {
        throw new Error('the input w has symbolic dims [ML903]');
      }
      return ADVICE;
    };
    const { panel } = await mount(withProfile(threeOps()), failing);
    find(panel, 'Try it').click();
    await settle();
    expect(panel.querySelector('.jp-MaxLab-adviceProblem')?.textContent).toContain('ML903');
    expect(find(panel, 'Try it').disabled).toBe(false);
  });

  it('shows saved advice with no kernel, and says what needs one', async () => {
    const doc = { ...withProfile(threeOps()), answers: { advice: ADVICE } };
    const { panel, asked } = await mount(doc, null);
    expect(asked).toEqual([]);
    expect(panel.querySelectorAll('ol .jp-MaxLab-adviceCard')).toHaveLength(2);
    expect(find(panel, 'Try it').disabled).toBe(true);
    expect(panel.textContent).toContain('needs a running kernel');
  });

  it('says so when there is nothing to do', async () => {
    const { panel } = await mount(withProfile(threeOps()), () => ({ ...ADVICE, actions: [] }));
    expect(panel.textContent).toContain('Nothing is known that would save');
  });

  it('copies the code', async () => {
    const write = vi.fn(() => Promise.resolve());
    Object.defineProperty(navigator, 'clipboard', { configurable: true, value: { writeText: write } });
    const { panel } = await mount(withProfile(threeOps()));
    find(panel, 'Copy code').click();
    await settle();
    expect(write).toHaveBeenCalledWith('w = compute(weights)');
    expect(panel.textContent).toContain('Copied');
  });
});
