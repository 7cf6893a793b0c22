// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { GraphView } from '../src/core';
import { GraphModel } from '../src/core/model/graph';
import { kernelNames, shares, summary } from '../src/core/panels/compile/report';
import {
  barAt,
  barsOf,
  bytesAt,
  frameOf,
  neighbour,
  panned,
  showing,
  stepAt,
  ticks,
  wholeWindow,
  xOf,
  yOf,
  zoomed
} from '../src/core/panels/memory/geometry';
import { paintPlan } from '../src/core/panels/memory/paint';
import { liveAt, liveBytes, planOf } from '../src/core/panels/memory/plan';
import { sortRows } from '../src/core/panels/parts/table';
import { lastChange, noteOf } from '../src/core/panels/passes';
import { detailOf, stagesOf, tally } from '../src/core/panels/passes/stages';
import { neighbours, ordered } from '../src/core/panels/passes/why';
import { changedLines, indentAfter, placeOf } from '../src/core/panels/source/editor';
import { linesOf, nodesAt, sourceLines } from '../src/core/panels/source/link';
import { trialView } from '../src/core/panels/source/result';
import { headline } from '../src/core/panels/source/trial';
import { makeTheme } from '../src/core/render/theme';
import { readAnswer } from '../src/proto/answers';
import type { ICompileAnswer, IEditAnswer, IMemoryAnswer, IMemorySlot } from '../src/proto/checks';
import type { IGraphDocument } from '../src/proto/document';
import { StubContext } from './canvas';
import { answerTo, compileAnswer, memoryAnswer, stageAnswer, stagesAnswer, trialAnswer } from './explained';
import { threeOps, transformer, withProfile } from './fixtures';

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

type Answers = (what: string, args: Record<string, unknown>) => unknown;

async function mount(
  doc: IGraphDocument,
  answers: Answers = (what, args) => answerTo(doc, what, args)
): Promise<{ view: GraphView; root: HTMLElement; asked: [string, Record<string, unknown>][] }> {
  const view = new GraphView(document.body, { noProfile: null, canAsk: true });
  const asked: [string, Record<string, unknown>][] = [];
  view.events.on('asked', ({ id, what, args }) => {
    asked.push([what, args]);
    queueMicrotask(() => {
      try {
        view.setAnswer(id, true, answers(what, args), '', []);
      } catch (error) {
        view.setAnswer(id, false, null, (error as Error).message, []);
      }
    });
  });
  mounted.push(view);
  view.setDocument(doc);
  await view.layoutDone();
  return { view, root: view.dock.element, asked };
}

const settle = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 0));

function press(target: Element, key: string, init: KeyboardEventInit = {}): void {
  target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...init }));
}

function find(root: Element, text: string, selector = 'button'): HTMLElement {
  const found = [...root.querySelectorAll<HTMLElement>(selector)].find(node => node.textContent?.includes(text));
  expect(found, `${selector} with “${text}”`).toBeDefined();
  return found as HTMLElement;
}

const slot = (id: string, offset: number, bytes: number, first: number, last: number): IMemorySlot => ({
  id,
  kind: 'arena',
  bytes,
  offset,
  first,
  last,
  node: null,
  value: '',
  name: id,
  holder: ''
});

/** Three buffers: a and b together, then c where a was. */
const PLAN: IMemoryAnswer = {
  version: 2,
  steps: ['k0', 'k1', 'k2'],
  slots: [slot('c', 0, 50, 2, 2), slot('a', 0, 100, 0, 1), slot('b', 128, 60, 1, 2)],
  arena: 188,
  peak: 160,
  peak_step: 1,
  fragmentation: 1 - 160 / 188,
  weights: 0,
  packed: 0,
  inputs: 0,
  outputs: 0,
  dims: {}
};

describe('a memory plan', () => {
  it('is read, with what can be counted counted', () => {
    const plan = planOf(PLAN);
    expect(plan.arenaSlots.map(s => s.id)).toEqual(['a', 'b', 'c']);
    expect(plan.live).toEqual([100, 160, 110]);
    expect([plan.peak, plan.peakStep]).toEqual([160, 1]);
    expect(plan.fragmentation).toBeCloseTo(1 - 160 / 188);
    expect(liveAt(plan, 1).map(s => s.id)).toEqual(['a', 'b']);
    expect(liveBytes([], 2)).toEqual([0, 0]);
  });

  it('refuses what makes no sense, and other versions', () => {
    const wrong: [unknown, string][] = [
      [null, 'expected an object, got null'],
      [{ ...PLAN, version: 3 }, 'has version 3: this page reads version 2'],
      [{ ...PLAN, steps: ['k0', 7] }, 'steps[1]: expected text, got 7'],
      [{ ...PLAN, slots: [null] }, 'slots[0]: expected an object, got null'],
      [{ ...PLAN, slots: [{ ...slot('a', 0, 1, 0, 0), bytes: '1' }] }, 'slots[0].bytes: expected a whole']
    ];
    for (const [answer, words] of wrong) {
      expect(() => readAnswer('memory', answer)).toThrow(words);
    }
    const odd = [slot('a', -5, 10, 0, 1), slot('b', 180, 10, 0, 1), slot('c', 0, 1, 2, 3), slot('d', 0, 1, 1, 0)];
    for (const one of odd) {
      expect(() => planOf({ ...PLAN, slots: [one] })).toThrow(`the slot ${one.id} does not lie`);
    }
    expect(planOf({ ...PLAN, steps: [], slots: [] }).live).toEqual([]);
  });

  it('is drawn where the numbers say', () => {
    const plan = planOf(PLAN);
    const { area } = frameOf(562, 300);
    const view = wholeWindow(plan);
    const bars = barsOf(plan, area, view);
    const [a, b, c] = bars;
    expect(a).toMatchObject({ x: area.x, w: (area.w * 2) / 3 });
    expect(a!.y + a!.h).toBeCloseTo(area.y + area.h);
    expect(a!.h / area.h).toBeCloseTo(100 / 188);
    expect(b!.y).toBeCloseTo(area.y);
    expect(c!.x).toBeCloseTo(area.x + (area.w * 2) / 3);
    expect(barAt(bars, a!.x + 5, a!.y + 5)?.slot.id).toBe('a');
    expect(barAt(bars, area.x + 2, area.y + 2)).toBeNull();
    for (const step of [0, 1.5, 3]) {
      expect(stepAt(xOf(step, area, view), area, view)).toBeCloseTo(step);
    }
    expect(bytesAt(yOf(77, area, view), area, view)).toBeCloseTo(77);
    const small = frameOf(300, 100);
    expect(small.strip.h).toBe(0);
  });

  it('draws tiny buffers, and leaves out what is out of sight', () => {
    const many = Array.from({ length: 4000 }, (_, i) => slot(`s${i}`, i, 1, i, i));
    const plan = planOf({ ...PLAN, steps: many.map((_, i) => `k${i}`), slots: many, arena: 4000 });
    const { area } = frameOf(600, 200);
    const bars = barsOf(plan, area, wholeWindow(plan));
    expect(bars).toHaveLength(4000);
    expect(Math.min(...bars.map(bar => Math.min(bar.w, bar.h)))).toBeGreaterThanOrEqual(1);
    expect(barsOf(plan, area, { x0: 10, x1: 20, y0: 0, y1: 4000 }).map(b => b.slot.first)).toEqual(
      Array.from({ length: 10 }, (_, i) => i + 10)
    );
    expect(barsOf(plan, area, { x0: 0, x1: 4000, y0: 100, y1: 102 })).toHaveLength(2);
  });

  it('zooms about a point, pans, and never leaves the plan', () => {
    const plan = planOf(PLAN);
    const whole = wholeWindow(plan);
    const near = zoomed(whole, plan, { step: 1, bytes: 0 }, { x: 0.7, y: 1 });
    expect(near.x1 - near.x0).toBeCloseTo(2.1);
    expect((1 - near.x0) / (near.x1 - near.x0)).toBeCloseTo(1 / 3);
    expect(zoomed(near, plan, { step: 1, bytes: 0 }, { x: 100, y: 100 })).toEqual(whole);
    expect(zoomed(near, plan, { step: 1, bytes: 0 }, { x: 1e-9, y: 1 }).x1).toBeLessThanOrEqual(3);
    expect(panned(near, plan, -99, 0).x0).toBe(0);
    expect(panned(near, plan, 99, 0).x1).toBeCloseTo(3);
    const right = showing(near, plan, plan.arenaSlots[2] as IMemorySlot);
    expect(right.x1).toBeCloseTo(3);
    expect(showing(whole, plan, plan.arenaSlots[2] as IMemorySlot)).toEqual(whole);
  });

  it('is walked with arrows', () => {
    const plan = planOf(PLAN);
    const [a, b, c] = plan.arenaSlots as [IMemorySlot, IMemorySlot, IMemorySlot];
    expect(neighbour(plan, null, 'up')).toBe(a);
    expect(neighbour(plan, a, 'right')).toBe(b);
    expect(neighbour(plan, a, 'left')).toBeNull();
    expect(neighbour(plan, a, 'up')).toBe(b);
    expect(neighbour(plan, b, 'down')?.id).toMatch(/a|c/);
    expect(neighbour(plan, c, 'down')).toBeNull();
  });

  it('has round ticks', () => {
    expect(ticks(0, 100, 5)).toEqual([0, 20, 40, 60, 80, 100]);
    expect(ticks(3, 11, 4)).toEqual([4, 6, 8, 10]);
    expect(ticks(5, 5, 4)).toEqual([]);
  });

  it('paints names, the peak and what is selected, in both themes', () => {
    const doc = withProfile(transformer(1));
    const plan = planOf(memoryAnswer(doc));
    for (const isDark of [false, true]) {
      const ctx = new StubContext();
      const frame = frameOf(1400, 400);
      const view = wholeWindow(plan);
      const bars = barsOf(plan, frame.area, view);
      const scene = {
        plan,
        model: new GraphModel(doc),
        theme: makeTheme(isDark, null),
        frame,
        view,
        bars,
        isSelected: (s: IMemorySlot) => s === plan.arenaSlots[0],
        current: null
      };
      paintPlan(ctx.real, scene, { x: 0, y: 0, w: 1400, h: 400 });
      expect(ctx.texts().some(text => text.startsWith('peak '))).toBe(true);
      expect(ctx.texts()).toContain('k0');
      expect(ctx.count('save')).toBe(ctx.count('restore'));
    }
  });
});

describe('a compile report', () => {
  it('is read and summed up', () => {
    const report: ICompileAnswer = {
      version: 1,
      options: 'defaults',
      phases: [{ name: 'passes', ns: 5, text: '' }],
      units: [
        { kernels: ['k0'], name: 'a', symbol: 's0', hit: true, why: 'on disk', ms: 0.1, lines: 4, library: 0 },
        { kernels: ['k1', 'k2'], name: 'b', symbol: 's1', hit: false, why: 'new', ms: 1500, lines: null, library: null }
      ]
    };
    expect(readAnswer('compile', report)).toEqual(report);
    expect(report.units.map(kernelNames)).toEqual(['k0', 'k1 +1']);
    expect(summary(report)).toBe('2 units: 1 found compiled, 1 compiled. Their times add up to 1.50 s; compilers work side by side.');
    expect(summary({ ...report, units: report.units.slice(0, 1) })).toBe('1 unit, all found compiled.');
    expect(summary({ ...report, units: [] })).toBe('Nothing had to be compiled.');
  });

  it('joins phases that are too short to see', () => {
    const phases = [
      { name: 'a', ns: 900, text: '' },
      { name: 'b', ns: 95, text: '' },
      { name: 'c', ns: 3, text: '' },
      { name: 'd', ns: 2, text: '' }
    ];
    expect(shares(phases).map(p => [p.name, p.ns])).toEqual([['a', 900], ['b', 95], ['2 others', 5]]);
    expect(shares(phases).reduce((sum, p) => sum + p.share, 0)).toBeCloseTo(1);
    expect(shares(phases)[2]?.text).toBe('c, d');
    expect(shares([{ name: 'a', ns: 0, text: '' }])).toEqual([]);
  });

  it('sorts with the unknown last, either way', () => {
    const rows = [{ ms: 3 }, { ms: null }, { ms: 1 }];
    expect(sortRows(rows, r => r.ms, false).map(r => r.ms)).toEqual([1, 3, null]);
    expect(sortRows(rows, r => r.ms, true).map(r => r.ms)).toEqual([3, 1, null]);
    const names = [{ n: 'k10' }, { n: 'k2' }];
    expect(sortRows(names, r => r.n, false).map(r => r.n)).toEqual(['k2', 'k10']);
  });
});

describe('passes', () => {
  it('are read with what they did', () => {
    const doc = withProfile(transformer(1));
    const stages = stagesOf(readAnswer('passes', stagesAnswer(doc)));
    expect(stages.map(s => s.name)).toEqual(['canonicalise', 'fold', 'dce', 'schedule']);
    expect(lastChange(stages)).toBe(3);
    expect(lastChange(stages.slice(0, 3))).toBe(1);
    expect(lastChange(stages.slice(2, 3))).toBe(0);
    expect(stages[0]?.counts).toEqual([['rewritten', 3], ['removed', 2]]);
    const detail = detailOf(readAnswer('passes', stageAnswer(doc, 3)));
    const counts = tally(detail, doc.nodes.map(n => n.id));
    expect(counts.get('rewritten')).toEqual({ now: 0, before: 2 });
    expect([...counts.values()].reduce((sum, c) => sum + c.now + c.before, 0)).toBe(doc.nodes.length);
    const melted = { n2: { state: 'melted', kernel: null, rule: '', changed: true } };
    expect(() => readAnswer('passes', { ...stageAnswer(doc, 3), nodes: melted })).toThrow(
      'nodes.n2.state: expected "kept" or'
    );
    expect(() => stagesOf(stageAnswer(doc, 3))).toThrow('one stage instead of all');
    expect(() => detailOf(stagesAnswer(doc))).toThrow('all stages instead of one');
  });

  it('write on operations what became of them', () => {
    const fate = { kernel: null, rule: '', changed: true };
    expect(noteOf(undefined)).toEqual({ tone: 'neutral', text: '' });
    expect(noteOf({ ...fate, state: 'fused', kernel: 'k3' })).toEqual({ tone: 'fused', text: 'k3' });
    expect(noteOf({ ...fate, state: 'removed' })).toEqual({ tone: 'bad', text: 'removed' });
    // What an earlier pass took away is gone; what it fused still is.
    expect(noteOf({ ...fate, state: 'removed', changed: false }).tone).toBe('quiet');
    expect(noteOf({ ...fate, state: 'rewritten', kernel: 'k1', changed: false })).toEqual({ tone: 'neutral', text: 'k1' });
    expect(noteOf({ ...fate, state: 'fused', kernel: 'k3', changed: false }).tone).toBe('fused');
  });

  it('know neighbours and their order', () => {
    const model = new GraphModel(withProfile(threeOps()));
    const [mul, add, gelu] = model.nodes.filter(n => !n.isChip);
    expect(neighbours(model, add!)).toEqual({ before: [mul], after: [gelu] });
    expect(ordered(model, add!, mul!)).toEqual([mul, add]);
    expect(ordered(model, mul!, gelu!)).toEqual([mul, gelu]);
  });
});

describe('source', () => {
  const doc = withProfile(transformer(1));
  const model = new GraphModel(doc);
  const kernel = doc.kernels.find(k => k.nodes.length > 1)!;

  it('links lines of both sides through operations', () => {
    const files = sourceLines(model, kernel);
    expect(files.map(f => f.file)).toEqual(['cell [7]']);
    expect(files[0]?.lines.flatMap(l => l.nodes).sort()).toEqual([...kernel.nodes].sort());
    expect(nodesAt(kernel, 3)).toEqual([kernel.nodes[0]]);
    expect(nodesAt(kernel, 99)).toEqual([]);
    const marked = linesOf(kernel, new Set([kernel.nodes[0]!]), 20);
    expect(marked.map((on, i) => (on ? i + 1 : 0)).filter(Boolean)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  });

  it('takes the narrowest span of a line', () => {
    const nested = { ...kernel, lines: [[1, 9, 'outer'], [4, 5, 'inner'], [4, 5, 'twin']] as [number, number, string][] };
    expect(nodesAt(nested, 4)).toEqual(['inner', 'twin']);
    expect(nodesAt(nested, 2)).toEqual(['outer']);
  });

  it('knows which lines were edited, and how a new line starts', () => {
    expect(changedLines('a\nb\nc', 'a\nb\nc')).toBeNull();
    expect(changedLines('a\nb\nc', 'a\nX\nY\nc')).toEqual([2, 3]);
    expect(changedLines('a\nb\nc', 'a\nc')).toEqual([2, 2]);
    expect(changedLines('a', 'a\nb')).toEqual([2, 2]);
    expect(indentAfter('x\n    y = 1;')).toBe('    ');
    expect(indentAfter('  for (;;) {')).toBe('    ');
    expect(placeOf('ab\ncd\n', 2, 2)).toBe(4);
    expect(placeOf('ab', 9, null)).toBe(2);
  });

  it('says honestly how a trial went', () => {
    const base: IEditAnswer = {
      ...trialAnswer('k1', 'good'),
      before_ns: 1000,
      after_ns: 900,
      before_iqr: 50,
      after_iqr: 40
    };
    expect(headline(base)).toBe('It is right and 10% faster: 1.00 µs → 900 ns.');
    expect(headline({ ...base, after_ns: 1500 })).toContain('50% slower');
    expect(headline({ ...base, after_ns: 960 })).toContain('No difference can be shown');
    expect(headline({ ...base, before_ns: null })).toContain('not measured');
    expect(headline({ ...base, state: 'crashed' })).toContain('The model is unharmed');
    const errors = [{ line: 2, column: null, text: 'x' }];
    expect(headline({ ...base, state: 'compile_error', errors })).toBe('It does not compile: 1 error.');
    expect(headline({ ...base, state: 'wrong' })).toContain('something else');
    const trial: IEditAnswer = { ...base, kernels: ['k1', 'k4'] };
    expect(trialView(trial, () => undefined).textContent).toContain('same text ink4');
  });
});

describe('panels', () => {
  it('show memory as a chart or a table, and select who computes a buffer', async () => {
    const doc = withProfile(transformer(1));
    const { view, root } = await mount(doc);
    view.showDock('memory');
    await settle();
    expect(root.textContent).toContain('fragmentation');
    expect(root.textContent).toContain('packed copies of weights');
    const chart = root.querySelector('[role=application]')!;
    expect(chart.getAttribute('aria-label')).toContain('buffers');
    press(chart, 'ArrowRight');
    press(chart, 'ArrowRight');
    press(chart, 'Enter');
    expect(view.selection).toHaveLength(1);
    find(root, 'Table').click();
    const rows = [...root.querySelectorAll('tbody tr')];
    expect(rows.length).toBe((memoryAnswer(doc).slots as unknown[]).length);
    expect(rows.filter(row => row.classList.contains('jp-mod-selected')).length).toBeGreaterThan(0);
    find(root, 'bytes').click();
    expect(root.querySelector('[aria-sort=descending]')?.textContent).toBe('bytes');
    const names = [...root.querySelectorAll<HTMLButtonElement>('.jp-MaxLab-rowName')];
    expect(names.filter(name => name.tabIndex === 0)).toHaveLength(1);
    press(names[0]!, 'ArrowDown');
    expect(document.activeElement).toBe(names[1]);
  });

  it('wait with their question until they are in front', async () => {
    const doc = withProfile(threeOps());
    const { view, asked } = await mount(doc);
    view.showDock('memory');
    view.showDock('compile');
    await settle();
    const count = (what: string): number => asked.filter(([name]) => name === what).length;
    expect(count('memory')).toBe(1);
    view.setDocument({ ...withProfile(threeOps()), revision: 2 });
    await view.layoutDone();
    expect([count('memory'), count('compile')]).toEqual([1, 2]);
    view.showDock('memory');
    expect(count('memory')).toBe(2);
  });

  it('explain a refusal and ask again', async () => {
    const doc = withProfile(threeOps());
    let isBusy = true;
    const { view, root } = await mount(doc, what => {
      if (isBusy) {
        throw new Error('ML806: there are no times yet');
      }
      return answerTo(doc, what, {});
    });
    view.showDock('memory');
    await settle();
    expect(root.textContent).toContain('ML806: there are no times yet');
    isBusy = false;
    find(root, 'Ask again').click();
    await settle();
    expect(root.textContent).toContain('fragmentation');
  });

  it('sort and filter units, and select their kernels', async () => {
    const doc = withProfile(transformer(1));
    const { view, root } = await mount(doc);
    view.showDock('compile');
    await settle();
    const report = compileAnswer(doc);
    const { units } = report;
    expect(root.textContent).toContain(summary(report));
    expect(root.querySelector('tbody tr')?.textContent).toContain('compiled');
    find(root, 'time').click();
    expect(root.querySelector('tbody tr')?.textContent).toContain('found');
    find(root, 'Compiled').click();
    expect(root.querySelectorAll('tbody tr')).toHaveLength(units.filter(u => !u.hit).length);
    root.querySelector<HTMLElement>('tbody .jp-MaxLab-rowName')!.click();
    const kernel = doc.kernels.find(k => view.selection.every(id => k.nodes.includes(id)));
    expect(kernel).toBeDefined();
    expect(root.querySelectorAll('tr.jp-mod-selected')).toHaveLength(1);
  });

  it('colour the graph by what each pass did, while they are in front', async () => {
    const doc = withProfile(transformer(1));
    const { view, root } = await mount(doc);
    const overlay = vi.spyOn(view.docking, 'setOverlay');
    view.showDock('passes');
    await settle();
    const slider = root.querySelector<HTMLInputElement>('input[type=range]')!;
    expect([slider.max, slider.value]).toEqual(['3', '3']);
    expect(slider.getAttribute('aria-valuetext')).toContain('4 of 4: schedule');
    slider.value = '0';
    slider.dispatchEvent(new Event('input'));
    await settle();
    expect(overlay.mock.lastCall?.[1]).toBe('after canonicalise · ! rewritten · ✗ removed');
    const tones = [...(overlay.mock.lastCall?.[0]?.values() ?? [])].map(note => note.tone);
    expect(tones.filter(tone => tone === 'warn')).toHaveLength(2);
    expect(root.querySelectorAll('tbody tr')).toHaveLength(3);
    expect(root.textContent).toContain('a reshape of a reshape is one reshape');
    view.select([doc.nodes.find(n => n.operands.length > 0)!.id]);
    expect(root.textContent).toContain('x + 0 is x.');
    find(root, '›').click();
    find(root, '›').click();
    await settle();
    expect(root.textContent).toContain('rewritten, by an earlier stage');
    expect(root.textContent).toContain('No rule fired in this stage');
    view.showDock('compile');
    expect(overlay.mock.lastCall).toEqual([null]);
    view.showDock('passes');
    expect(overlay.mock.lastCall?.[1]).toContain('after dce');
    view.dock.close();
    expect(overlay.mock.lastCall).toEqual([null]);
  });

  it('say why two operations share a kernel', async () => {
    const doc = withProfile(threeOps());
    const { view, root, asked } = await mount(doc);
    view.showDock('passes');
    await settle();
    expect(root.textContent).toContain('Select an operation, or two');
    const [mul, add] = doc.nodes.map(n => n.id) as [string, string];
    view.select([add, mul]);
    await settle();
    expect(asked[asked.length - 1]).toEqual(['why', { a: mul, b: add }]);
    expect(root.textContent).toContain('⋈ In one kernel (k0): ');
    expect(root.textContent).toContain('at its own index');
    view.select([add]);
    await settle();
    find(root, '↓ gelu').click();
    await settle();
    expect(asked[asked.length - 1]?.[1]).toMatchObject({ a: add });
    expect(find(root, '↓ gelu').getAttribute('aria-pressed')).toBe('true');
  });

  it('are one click away from the kernel in the inspector', async () => {
    const { view } = await mount(withProfile(threeOps()));
    view.setPanel(true);
    view.select([view.model.nodes.find(n => !n.isChip)!.node.id]);
    const aside = view.element.querySelector('.jp-MaxLab-inspector')!;
    find(aside, 'Why one kernel?').click();
    expect(view.dock.current).toBe('passes');
    find(aside, 'Beside your code').click();
    expect(view.dock.current).toBe('source');
  });

  it('link the lines of both sides', async () => {
    const doc = withProfile(threeOps());
    const { view, root } = await mount(doc);
    view.showDock('source');
    await settle();
    const kernel = doc.kernels[0]!;
    const first = root.querySelector<HTMLElement>('.jp-MaxLab-cellLine')!;
    first.focus();
    const pointed = root.querySelectorAll('.jp-MaxLab-textSide .jp-mod-pointed');
    expect(pointed.length).toBe(11);
    first.click();
    expect(view.selection.length).toBeGreaterThan(0);
    expect(view.selection.every(id => kernel.nodes.includes(id))).toBe(true);
    const side = root.querySelector('.jp-MaxLab-textSide')!;
    press(side, 'ArrowDown');
    press(side, 'ArrowDown');
    expect(side.querySelector('.jp-mod-caret')?.textContent).toContain('2');
    press(side, 'Enter');
    expect(view.selection).toEqual([kernel.nodes[0]]);
  });

  it('edit a kernel: errors at their lines, a wrong result, a better one that is kept', async () => {
    const doc = withProfile(threeOps());
    const { view, root, asked } = await mount(doc);
    view.showDock('source');
    await settle();
    find(root, 'Edit').click();
    const area = root.querySelector<HTMLTextAreaElement>('textarea')!;
    expect(area.value).toContain('int k_3fa41c');
    const write = async (text: string): Promise<void> => {
      area.value = text;
      area.dispatchEvent(new Event('input'));
      press(area, 'Enter', { ctrlKey: true });
      await settle();
    };
    await write('int k;\n\nx = oops;');
    expect(root.textContent).toContain('It does not compile: 1 error.');
    expect(root.querySelector('.jp-mod-bad.jp-MaxLab-editorLine')?.textContent).toBe('✗ 3');
    find(root, 'line 3').click();
    expect(area.selectionStart).toBe(8 + 8);
    await write('y = x + 1;');
    expect(root.textContent).toContain('first at [0, 3]');
    const keep = (): HTMLButtonElement => find(root, 'Keep') as HTMLButtonElement;
    expect(keep().disabled).toBe(true);
    await write('y = x;');
    expect(root.textContent).toContain('18% faster');
    expect(keep().disabled).toBe(false);
    area.value = 'y = x; // and more';
    area.dispatchEvent(new Event('input'));
    expect(keep().disabled).toBe(true);
    await write('y = x;');
    keep().click();
    await settle();
    expect(asked.map(([what]) => what)).toContain('keep');
    expect(root.textContent).toContain('runs the edited text');
    expect(root.querySelector('textarea')).toBeNull();
  });

  it('keep a draft through a selection elsewhere, and drop it only when told', async () => {
    const doc = withProfile(transformer(1));
    const { view, root, asked } = await mount(doc);
    view.showDock('source');
    await settle();
    const picker = root.querySelector('select')!;
    const before = picker.value;
    find(root, 'Edit').click();
    const area = root.querySelector<HTMLTextAreaElement>('textarea')!;
    area.value = 'draft';
    area.dispatchEvent(new Event('input'));
    const other = doc.kernels.find(k => k.id !== before)!;
    view.select(other.nodes);
    expect(picker.value).toBe(before);
    find(root, 'Close').click();
    expect(root.textContent).toContain('has a draft');
    find(root, 'Discard').click();
    await settle();
    expect(asked.map(([what]) => what)).not.toContain('discard');
    expect(root.textContent).not.toContain('has a draft');
    view.select([doc.nodes.find(n => n.op === 'gelu')!.id]);
    await settle();
    expect(picker.value).toBe(doc.kernels.find(k => k.nodes.includes(view.selection[0]!))?.id);
  });

  it('work on a saved graph, where nobody answers', async () => {
    const doc = withProfile(threeOps());
    const view = new GraphView(document.body, { noProfile: 'saved notebook' });
    mounted.push(view);
    const answers = { memory: memoryAnswer(doc), compile: compileAnswer(doc) };
    view.setDocument({ ...doc, answers });
    await view.layoutDone();
    const root = view.dock.element;
    view.showDock('memory');
    await settle();
    expect(root.textContent).toContain('fragmentation');
    view.showDock('source');
    await settle();
    expect(root.textContent).toContain('int k_3fa41c');
    expect((find(root, 'Edit') as HTMLButtonElement).disabled).toBe(true);
    view.showDock('passes');
    await settle();
    await view.layoutDone();
    // The kernels are in the document: what they fused can be shown, the rules cannot.
    expect([...(view.stage.picture?.notes?.values() ?? [])].map(note => note.tone)).toEqual(['fused', 'fused', 'fused']);
    expect(root.textContent).toContain('The rules need a running kernel: saved notebook.');
    view.select(doc.kernels[0]!.nodes.slice(0, 2));
    await settle();
    expect(root.textContent).toContain('⋈ In one kernel (k0): the reason needs a running kernel: saved notebook.');
    find(root, '‹').click();
    await settle();
    expect(root.textContent).toContain('This needs a running kernel: saved notebook.');
    find(root, '›').click();
    expect(root.textContent).toContain('The rules need a running kernel');
  });

  it('never turn text of an answer into markup', async () => {
    const doc = withProfile(transformer(1));
    const evil = '<img src=x onerror="globalThis.hacked=1">';
    const poison = (value: unknown): unknown => {
      if (typeof value === 'string') {
        return /^[nkv]\d+$|^(measured|wrong|arena|stages?|kept|rewritten|folded|removed|fused)$/.test(value) ? value : evil;
      }
      if (Array.isArray(value)) {
        return value.map(poison);
      }
      return typeof value === 'object' && value !== null
        ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, poison(v)]))
        : value;
    };
    const { view, root } = await mount(doc, (what, args) => poison(answerTo(doc, what, args)));
    view.select([doc.nodes[0]!.id, doc.nodes[1]!.id]);
    for (const id of ['memory', 'compile', 'passes', 'source']) {
      view.showDock(id);
      await settle();
      if (id === 'memory') {
        find(root, 'Table').click();
      }
      expect(root.textContent, id).toContain(evil);
      expect(root.querySelector('img')).toBeNull();
    }
  });
});
