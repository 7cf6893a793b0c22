// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { GraphView } from '../src/core';
import { step } from '../src/core/panels/runs/chart';
import {
  along,
  layoutCurves,
  pointAt,
  readSizes,
  suggestedSizes,
  ticksOf
} from '../src/core/panels/runs/curves';
import { runsOf, type IComparison, type ISweep } from '../src/core/panels/runs/data';
import { paintCurves } from '../src/core/panels/runs/paint';
import { spread } from '../src/core/panels/runs/sizes';
import {
  changeOf,
  forestOf,
  formatChange,
  formatInterval,
  overlayOf,
  verdict,
  widestChange
} from '../src/core/panels/runs/words';
import { makeTheme } from '../src/core/render/theme';
import { Docking } from '../src/core/view/docking';
import { readAnswer } from '../src/proto/answers';
import type { IGraphDocument } from '../src/proto/document';
import type {
  IDiffAnswer,
  IHistoryAnswer,
  IRememberedSide,
  IRunEstimate,
  IRunRow,
  ISweepAnswer,
  ISweepKernel,
  RunState
} from '../src/proto/told';
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

const estimate = (before: number, after: number, state: RunState): IRunEstimate => ({
  before,
  after,
  ratio: before > 0 ? after / before : null,
  low: before > 0 ? (after / before) * 0.97 : null,
  high: before > 0 ? (after / before) * 1.04 : null,
  p: 0.01,
  state
});

function row(kernels: string, nodes: string[], before: number, after: number, state: RunState): IRunRow {
  const more = { name: `op_${kernels}`, kind: 'map', kernels, nodes, regrouped: false, bytes: [1, 1] };
  return { ...more, code: 'same', ...estimate(before, after, state) };
}

const side = (label: string, n: number): IRememberedSide => ({
  label,
  number: n,
  name: 'three',
  device: 'cpu',
  threads: 2,
  dims: { batch: 8 },
  options: n === 2 ? 'fuse=False' : 'defaults',
  runs: 20,
  processes: 1,
  wall: 1000 * n,
  machine: { cpu: 'Abacus', compiler: 'gcc' },
  created: ''
});

/** A comparison of the operations of a document: the first slower, the second the same, one gone. */
function comparison(
  doc: IGraphDocument,
  kind: 'diff' | 'history' = 'diff'
): IDiffAnswer | IHistoryAnswer {
  const [first, second] = doc.nodes.map(node => node.id);
  return {
    version: 1,
    kind,
    confidence: 0.95,
    dims: { batch: 8 },
    sides: [side('old', 1), side('new', 2)],
    pairs: [
      {
        before: 0,
        side: 1,
        wall: estimate(1000, 1200, 'slower'),
        total: estimate(900, 1090, 'slower'),
        notes: ['the options of the compiler differ'],
        more: 0,
        rows: [
          row('k0', [first ?? ''], 100, 150, 'slower'),
          row('k1 →', [], 10, 0, 'gone'),
          row('k2', [second ?? '', first ?? ''], 50, 50, 'same')
        ]
      }
    ]
  };
}

const curve = (id: string, nodes: string[], ns: number[]): ISweepKernel => ({
  id,
  name: `op_${id}`,
  kind: 'map',
  nodes,
  ns,
  low: ns.map(value => value * 0.9),
  high: ns.map(value => value * 1.2),
  growth: { batch: [1, 1, 0.5], seq: [null, null, null] }
});

function sweepData(nodes: string[] = ['n1']): ISweepAnswer {
  const points = [1, 2, 4].flatMap(batch => [16, 64].map(seq => ({ batch, seq })));
  const ns = points.map(({ batch, seq }) => 10 * batch * seq);
  return {
    version: 1,
    kind: 'sweep',
    dims: ['batch', 'seq'],
    points,
    wall: curve('', [], ns.map(value => value * 3)),
    kernels: [curve('k0', nodes, ns), curve('k1', [], ns.map(value => value * 1.5))]
  };
}

const readSweep = (): ISweep => runsOf(sweepData()) as ISweep;

type Answers = (what: string, args: Record<string, unknown>) => unknown;

async function mount(
  doc: IGraphDocument,
  answers: Answers | null
): Promise<{ view: GraphView; root: HTMLElement; asked: [string, Record<string, unknown>][] }> {
  const isLive = answers !== null;
  const view = new GraphView(document.body, { noProfile: isLive ? null : 'no kernel', canAsk: isLive });
  const asked: [string, Record<string, unknown>][] = [];
  view.events.on('asked', ({ id, what, args }) => {
    asked.push([what, args]);
    queueMicrotask(() => {
      try {
        view.setAnswer(id, true, answers?.(what, args), '', []);
      } catch (error) {
        view.setAnswer(id, false, null, (error as Error).message, []);
      }
    });
  });
  mounted.push(view);
  view.setDocument(doc);
  await view.layoutDone();
  await settle();
  return { view, root: view.dock.element, asked };
}

const settle = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 0));

function find(root: Element, text: string, selector = 'button'): HTMLElement {
  const found = [...root.querySelectorAll<HTMLElement>(selector)].find(node => node.textContent?.includes(text));
  expect(found, `${selector} with “${text}”`).toBeDefined();
  return found as HTMLElement;
}

describe('answers', () => {
  it('are read, or it is said what is wrong with them', () => {
    const doc = withProfile(threeOps());
    const answer = comparison(doc, 'history');
    const found = runsOf(readAnswer('runs', answer)) as IComparison;
    expect(found.sides.map(one => one.label)).toEqual(['old', 'new']);
    expect(found.pairs[0]?.rows.map(one => one.state)).toEqual(['slower', 'gone', 'same']);
    expect(found.pairs[0]?.wall.ratio).toBeCloseTo(1.2);
    const [pair] = answer.pairs;
    const wrong: [unknown, RegExp][] = [
      [{ ...answer, version: 2 }, /version 2: this page reads version 1/],
      [{ ...answer, kind: 'odd' }, /kind: expected "history" or "diff" or "sweep", got text "odd"/],
      [{ ...answer, sides: [{ ...side('old', 1), label: 7 }] }, /sides\[0\].label: expected text, got 7/],
      [
        { ...answer, pairs: [{ ...pair, rows: [{ ...row('k0', [], 1, 1, 'same'), state: 'odd' }] }] },
        /pairs\[0\].rows\[0\].state: expected "slower" or/
      ]
    ];
    for (const [odd, words] of wrong) {
      expect(() => readAnswer('runs', odd)).toThrow(words);
    }
    expect(() => runsOf({ ...answer, pairs: [{ ...pair!, side: 9 }] })).toThrow('names the runs 0 and 9 of 2');
    expect(() => runsOf({ ...sweepData(), points: [] })).toThrow('has no sizes');
    const short = { ...sweepData(), kernels: [curve('k0', [], [5])] };
    expect(() => runsOf(short)).toThrow('another number of times');
  });
});

describe('words', () => {
  it('say changes with signs', () => {
    expect([1.05, 0.5, 1, 12, 0.99999].map(formatChange)).toEqual(['+5.0%', '−50.0%', '+0.0%', '+1100%', '+0.0%']);
    expect(formatChange(null)).toBe('?');
    const known = { before: 1, after: 1, ratio: 1, low: 0.98, high: 1.03, p: 0.5, state: 'same' } as const;
    expect(formatInterval(known)).toBe('−2.0% to +3.0%');
    expect(formatInterval({ ...known, low: 0, high: null })).toBe('… to …');
    expect(formatInterval({ ...known, ratio: null })).toBe('');
  });

  it('tell no change of too few runs', () => {
    const few = { ...estimate(1, 5.57, 'few'), low: 0, high: null };
    expect([changeOf(few), formatInterval(few), forestOf(few, 1)]).toEqual(['', '', null]);
    expect(widestChange([{ ...row('k0', [], 1, 5.57, 'few') }])).toBeCloseTo(Math.log(1.1));
    expect(changeOf(estimate(1, 1.1, 'unclear'))).toBe('+10.0%');
  });

  it('tell other kernels from other code', () => {
    const one = { state: 'slower', code: 'changed', regrouped: false } as unknown as IRunRow;
    expect(verdict(one)).toBe('▲ slower, other code');
    expect(verdict({ ...one, regrouped: true })).toBe('▲ slower, other kernels');
  });

  it('paint what matters most of an operation', () => {
    const doc = withProfile(threeOps());
    const [pair] = (runsOf(comparison(doc)) as IComparison).pairs;
    const overlay = overlayOf(pair!);
    const [first, second] = doc.nodes.map(node => node.id);
    expect(overlay.get(first!)).toEqual({ tone: 'bad', text: '+50.0%' });
    expect(overlay.get(second!)).toEqual({ tone: 'neutral', text: '' });
    expect(overlay.size).toBe(2);
  });

  it('draw intervals on one axis, cut where it ends', () => {
    const known = { before: 1, after: 1.1, ratio: 1.1, low: 1.05, high: 1.2, p: 0.01, state: 'slower' } as const;
    const widest = Math.log(1.21);
    const forest = forestOf(known, widest)!;
    expect(forest.zero).toBe(0.5);
    expect(forest.at).toBeCloseTo(0.75);
    expect(forest.low).toBeGreaterThan(0.5);
    expect(forest.high).toBeLessThan(1);
    expect(forestOf({ ...known, low: null, high: 99 }, widest)).toMatchObject({ low: 0, high: 1 });
    expect(forestOf({ ...known, ratio: null }, widest)).toBeNull();
    expect(forestOf({ ...known, state: 'new' }, widest)).toBeNull();
    expect(widestChange([])).toBeCloseTo(Math.log(1.1));
  });
});

describe('curves', () => {
  it('hold all other dims at their last size', () => {
    const sweep = readSweep();
    const sizes = (dim: string): unknown[] => along(sweep, dim).map(i => sweep.points[i]);
    expect(sizes('batch')).toEqual([{ batch: 1, seq: 64 }, { batch: 2, seq: 64 }, { batch: 4, seq: 64 }]);
    expect(sizes('seq')).toEqual([{ batch: 4, seq: 16 }, { batch: 4, seq: 64 }]);
  });

  it('are straight where times are powers, and level where each costs the same', () => {
    const sweep = readSweep();
    const total = layoutCurves(sweep, [sweep.wall, ...sweep.kernels], 'batch', false, 600, 300);
    for (const { points } of total.drawn) {
      const slopes = [1, 2].map(i => (points[i]!.y - points[i - 1]!.y) / (points[i]!.x - points[i - 1]!.x));
      expect(slopes[0]).toBeCloseTo(slopes[1]!, 6);
      expect(slopes[0]).toBeLessThan(0);
      for (const point of points) {
        expect(point.yHigh).toBeLessThan(point.y);
        expect(point.yLow).toBeGreaterThan(point.y);
        expect(point.x).toBeGreaterThanOrEqual(total.area.x);
        expect(point.x).toBeLessThanOrEqual(total.area.x + total.area.w);
        expect(point.y).toBeGreaterThanOrEqual(total.area.y);
        expect(point.y).toBeLessThanOrEqual(total.area.y + total.area.h);
      }
    }
    const each = layoutCurves(sweep, sweep.kernels, 'batch', true, 600, 300);
    const [flat] = each.drawn;
    expect(flat!.points[0]!.y).toBeCloseTo(flat!.points[2]!.y, 6);
    expect(flat!.points[2]!.value).toBe(640);
  });

  it('are found by the pointer and by keys', () => {
    const sweep = readSweep();
    const layout = layoutCurves(sweep, [sweep.wall, ...sweep.kernels], 'batch', false, 600, 300);
    const { x, y } = layout.drawn[1]!.points[1]!;
    expect(pointAt(layout, x + 3, y - 2)?.drawn.curve.id).toBe('k0');
    expect(pointAt(layout, 1, 1)).toBeNull();
    const go = (from: ReturnType<typeof step>, key: string): ReturnType<typeof step> =>
      step(layout.drawn, from, key);
    let at = go(null, 'ArrowDown');
    expect([at?.drawn.curve.id, at?.point.size]).toEqual(['', 4]);
    at = go(at, 'ArrowDown');
    expect(at?.drawn.curve.id).toBe('k1');
    at = go(at, 'ArrowDown');
    at = go(at, 'ArrowDown');
    expect(at?.drawn.curve.id).toBe('k0');
    at = go(go(at, 'ArrowLeft'), 'ArrowLeft');
    expect(go(at, 'ArrowLeft')?.point.size).toBe(1);
    expect(go(at, 'ArrowUp')?.drawn.curve.id).toBe('k1');
    expect(go(at, 'q')).toBeNull();
    expect(step([], null, 'ArrowUp')).toBeNull();
  });

  it('survive times of zero and sizes that are alike', () => {
    const data = sweepData();
    const zero = runsOf({ ...data, kernels: [curve('k0', [], [0, 0, 0, 0, 0, 0])] }) as ISweep;
    const layout = layoutCurves(zero, zero.kernels, 'batch', false, 300, 200);
    expect(layout.drawn[0]?.points).toEqual([]);
    const one = runsOf({
      ...data,
      points: [{ batch: 8, seq: 2 }],
      wall: curve('', [], [9]),
      kernels: [curve('k0', [], [3])]
    }) as ISweep;
    const alone = layoutCurves(one, one.kernels, 'batch', false, 300, 200);
    expect(Number.isFinite(alone.drawn[0]?.points[0]?.x)).toBe(true);
  });

  it('are drawn once each, with their quartiles', () => {
    const sweep = readSweep();
    const context = new StubContext();
    const scene = {
      theme: makeTheme(false, null),
      layout: layoutCurves(sweep, [sweep.wall, ...sweep.kernels], 'batch', false, 600, 300),
      dim: 'batch',
      isEach: false,
      colorOf: () => '#123456',
      isSelected: () => false,
      hasSelection: false,
      current: null
    };
    const arc = vi.spyOn(context as unknown as CanvasRenderingContext2D, 'arc');
    paintCurves(context as unknown as CanvasRenderingContext2D, scene, 600, 300);
    expect(arc).toHaveBeenCalledTimes(9);
  });

  it('have ticks that do not touch', () => {
    for (const [from, to, room] of [[0, 1, 300], [-2, 9, 200], [3.1, 3.2, 500], [0, 0, 100]] as const) {
      const ticks = ticksOf({ from, to }, room);
      expect(ticks.length).toBeLessThanOrEqual(room / 8 + 1);
      expect(ticks.every(tick => tick.log >= from && tick.log <= to)).toBe(true);
    }
  });

  it('take sizes as people type them', () => {
    expect(readSizes('1, 2;4  8\n')).toEqual([1, 2, 4, 8]);
    expect(readSizes(' ')).toMatch(/Type sizes/);
    for (const typed of ['1 two', '0', '-3', '1.5', '1e99']) {
      expect(readSizes(typed)).toMatch(/is not a size/);
    }
    expect(suggestedSizes(8)).toEqual([1, 2, 4, 8, 16]);
    expect(suggestedSizes(12)).toContain(12);
    expect(suggestedSizes(0)).toEqual([1, 2, 4, 8]);
    expect(suggestedSizes(1_000_000).length).toBeLessThanOrEqual(10);
    expect(spread([1, 2, 3, 4, 5], 3)).toEqual([1, 3, 5]);
    expect(spread([1, 2], 3)).toEqual([1, 2]);
  });
});

describe('the panel', () => {
  it('compares a document that was made for it, with nobody to ask', async () => {
    const doc = withProfile(threeOps());
    const painted = vi.spyOn(Docking.prototype, 'setOverlay');
    const { view, root, asked } = await mount(
      { ...doc, answers: { runs: comparison(doc) }, panel: 'runs' },
      null
    );
    expect(view.dock.current).toBe('runs');
    expect(asked).toEqual([]);
    expect(root.textContent).toContain('1.00 µs → 1.20 µs');
    expect(root.textContent).toContain('the options of the compiler differ');
    const rows = [...root.querySelectorAll('tbody tr')];
    expect(rows.map(one => one.querySelector('th')?.textContent)).toEqual(['k0', 'k1 →', 'k2']);
    // before the numbers, which may be wider than the panel
    expect(rows[0]?.querySelectorAll('th, td')[2]?.textContent).toContain('▲ slower');

    const [first] = doc.nodes.map(node => node.id);
    expect(painted.mock.lastCall?.[0]?.get(first!)?.tone).toBe('bad');
    find(root, 'k0').click();
    expect(view.selection).toEqual([first]);
    expect(rows[0]?.classList.contains('jp-mod-selected')).toBe(true);
    find(root, 'k1 →').click();
    expect(view.selection).toEqual([first]);

    const paint = root.querySelector<HTMLInputElement>('input[type=checkbox]')!;
    paint.click();
    expect(painted.mock.lastCall).toEqual([null]);
    paint.click();
    view.showDock('timeline');
    expect(painted.mock.lastCall).toEqual([null]);
    view.showDock('runs');
    expect(painted.mock.lastCall?.[0]).not.toBeNull();
    view.dock.close();
    expect(painted.mock.lastCall).toEqual([null]);
    painted.mockRestore();
  });

  it('asks for any two runs of a live graph', async () => {
    const doc = withProfile(threeOps());
    const { view, root, asked } = await mount(doc, () => comparison(doc, 'history'));
    view.showDock('runs');
    await settle();
    expect(asked).toEqual([['runs', {}]]);
    const [before, after] = [...root.querySelectorAll('select')];
    expect([...(after?.options ?? [])].map(option => option.textContent)).toEqual([
      'old · 1.00 µs · batch=8',
      'new · 2.00 µs · batch=8 · fuse=False'
    ]);
    before!.value = '1';
    before!.dispatchEvent(new Event('change'));
    await settle();
    expect(asked[asked.length - 1]).toEqual(['runs', { before: 2, after: 2 }]);
  });

  it('sweeps a live graph', async () => {
    const doc = withProfile(threeOps());
    const [first] = doc.nodes.map(node => node.id);
    const { view, root, asked } = await mount(doc, what =>
      what === 'sweep' ? sweepData([first!]) : comparison(doc, 'history')
    );
    view.showDock('runs');
    await settle();
    find(root, 'Sizes').click();
    const input = root.querySelector<HTMLInputElement>('.jp-MaxLab-sizesInput')!;
    expect(input.value).toBe('1 2 4 8 16');
    input.value = 'many';
    find(root, 'Sweep').click();
    expect(root.textContent).toContain('“many” is not a size');
    input.value = '1 2 4';
    find(root, 'Sweep').click();
    await settle();
    expect(asked[asked.length - 1]).toEqual(['sweep', { sizes: { batch: [1, 2, 4] } }]);
    const chart = root.querySelector<HTMLElement>('.jp-MaxLab-curves')!;
    expect(chart.getAttribute('aria-label')).toContain('3 curves');
    find(root, 'Table').click();
    const heads = [...root.querySelectorAll('thead th')].map(one => one.textContent);
    expect(heads.slice(0, 5)).toEqual(['kernel', 'name', 'batch 1', 'batch 2', 'batch 4']);
    find(root, 'k0').click();
    expect(view.selection).toEqual([first]);
  });

  it('says what it cannot do', async () => {
    const doc = withProfile(threeOps());
    const { view, root } = await mount(doc, () => {
      throw new Error('the model is gone');
    });
    view.showDock('runs');
    await settle();
    expect(root.textContent).toContain('the model is gone');

    const saved = await mount(doc, null);
    saved.view.showDock('runs');
    expect(saved.root.textContent).toContain('One run is in this graph.');
    const fresh = await mount(threeOps(), () => null);
    fresh.view.showDock('runs');
    expect(fresh.root.textContent).toContain('press Profile');
    const odd = await mount({ ...doc, answers: { runs: { version: 9 } } }, null);
    odd.view.showDock('runs');
    await settle();
    expect(odd.root.textContent).toContain('version 9');
  });
});
