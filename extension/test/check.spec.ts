// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { GraphView } from '../src/core';
import {
  comparisonOf,
  histogramOf,
  histogramText,
  imageOf,
  noteOf,
  short,
  type IImage
} from '../src/core/panels/check/answers';
import { binsOf, gridOf, paintImage, rampStep, zeroAt } from '../src/core/panels/check/draw';
import { makeTheme } from '../src/core/render/theme';
import { readAnswer } from '../src/proto/answers';
import type { ICheckedNode, IComparisonAnswer, INanAnswer, IValueAnswer } from '../src/proto/checks';
import type { IGraphDocument } from '../src/proto/document';
import { StubContext } from './canvas';
import { transformer, withProfile } from './fixtures';

const mounted: { dispose(): void }[] = [];
let painted: StubContext[] = [];

beforeEach(() => {
  painted = [];
  HTMLCanvasElement.prototype.getContext = (() => {
    const context = new StubContext();
    painted.push(context);
    return context;
  }) as never;
  for (const [name, size] of [['clientWidth', 900], ['clientHeight', 500]] as const) {
    Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => size });
  }
});

afterEach(() => {
  mounted.splice(0).forEach(view => view.dispose());
  document.body.replaceChildren();
});

interface IReply {
  data: unknown;
  buffers?: ArrayBuffer[];
}

type Answers = (what: string, args: Record<string, unknown>) => IReply;

const settle = (ms = 0): Promise<void> => new Promise(resolve => setTimeout(resolve, ms));

async function mount(
  doc: IGraphDocument,
  answers: Answers | null
): Promise<{ view: GraphView; root: HTMLElement; asked: [string, Record<string, unknown>][] }> {
  const noProfile = answers === null ? 'the kernel is gone' : null;
  const view = new GraphView(document.body, { noProfile, canAsk: answers !== null });
  const asked: [string, Record<string, unknown>][] = [];
  view.events.on('asked', ({ id, what, args }) => {
    asked.push([what, args]);
    queueMicrotask(() => {
      try {
        const { data, buffers } = (answers as Answers)(what, args);
        view.setAnswer(id, true, data, '', buffers ?? []);
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

function find(root: Element, words: string, selector = 'button'): HTMLElement {
  const found = [...root.querySelectorAll<HTMLElement>(selector)].find(node =>
    node.textContent?.includes(words)
  );
  expect(found, `${selector} with “${words}”`).toBeDefined();
  return found as HTMLElement;
}

const node = (id: string, more: Partial<ICheckedNode> = {}): ICheckedNode => ({
  id,
  op: 'gelu',
  kernel: 'k3',
  ok: true,
  by: 'value',
  message: '',
  max_ulp: 3,
  max_abs: 1e-7,
  max_rel: 2e-7,
  nan: 0,
  inf: 0,
  nan_wanted: 0,
  inf_wanted: 0,
  wrong: 0,
  size: 64,
  excess: 0.25,
  ...more
});

const COMPARISON: IComparisonAnswer = {
  version: 2,
  kind: 'comparison',
  ok: true,
  message: 'It is right.',
  first: null,
  kernel: null,
  can_repro: false,
  nodes: [node('n1')],
  outputs: []
};

const SEARCH: INanAnswer = {
  version: 2,
  message: 'It makes 1 NaN.',
  trip: {
    kind: 'NaN',
    node: 'n3',
    op: 'log',
    kernel: 'k1',
    sure: true,
    count: 1,
    at: [0],
    operands: { v2: '-1' },
    is_given: false
  }
};

const check = (more: Partial<ICheckedNode> = {}): ICheckedNode => node('n1', more);

describe('a comparison', () => {
  it('is read, or it is said what is wrong with it', () => {
    expect(comparisonOf(readAnswer('compare', COMPARISON))).toEqual(COMPARISON);
    expect(comparisonOf(readAnswer('compare', { version: 2, kind: 'none' }))).toBeNull();
    expect(readAnswer('nan', SEARCH)).toEqual(SEARCH);
    const wrong: [unknown, string][] = [
      [{ version: 2 }, 'kind: expected "comparison" or "none", got nothing'],
      [{ ...COMPARISON, version: 3 }, 'has version 3: this page reads version 2'],
      [{ ...COMPARISON, nodes: [{ ...node('n1'), max_ulp: 'many' }] }, 'nodes[0].max_ulp: expected'],
      [{ ...COMPARISON, ok: 1 }, 'ok: expected true or false, got 1']
    ];
    for (const [answer, words] of wrong) {
      expect(() => readAnswer('compare', answer)).toThrow(words);
    }
  });

  it('is a note on an operation, never colour alone', () => {
    expect(noteOf(check())).toEqual({ tone: 'good', text: '25% of tolerance' });
    expect(noteOf(check({ by: 'kernel' }))).toEqual({ tone: 'good', text: 'k3' });
    expect(noteOf(check({ nan: 2, inf: 1 }))).toEqual({ tone: 'warn', text: '2 NaN 1 inf' });
    expect(noteOf(check({ ok: false, message: '7 are off' }))).toEqual({ tone: 'bad', text: 'wrong' });
    expect(noteOf(check({ message: 'it follows' }))).toEqual({ tone: 'warn', text: 'behind' });
  });

  it('spells numbers short', () => {
    expect([null, 0, 12, 0.12345678, 1e-9, 2e9].map(short)).toEqual([
      '–',
      '0',
      '12',
      '0.1235',
      '1.00e-9',
      '2.00e+9'
    ]);
  });
});

describe('a value', () => {
  const points = new Float32Array([0, 1, NaN, 3, 4, 5]);
  const answer: IValueAnswer = {
    version: 1,
    node: 'n1',
    op: 'exp',
    kernel: 'k0',
    how: 'memory',
    text: 'Read from memory.',
    dtype: 'float32',
    shape: [2, 3],
    size: 6,
    nan: 1,
    inf: 0,
    zero: 1,
    min: 0,
    max: 5,
    mean: 2.6,
    std: 2,
    histogram: { counts: [1, 0, 4], edges: [-1, 0, 1, 2] },
    image: { buffer: 0, dtype: 'f4', rows: 2, columns: 3, low: 0, high: 5 },
    corner: [['0', '1', 'nan']]
  };

  it('is read with its picture', () => {
    expect(readAnswer('value', answer)).toEqual(answer);
    expect(imageOf(answer, [points.buffer])).toMatchObject({ rows: 2, columns: 3, high: 5 });
    expect(histogramText(histogramOf(answer)!)).toBe(
      'Histogram from -1 to 2, 3 bins; most, 4, between 1 and 2.'
    );
    const other = { ...answer, image: { ...answer.image!, rows: 5 } };
    expect(() => imageOf(other, [points.buffer])).toThrow('another size');
    expect(histogramOf({ ...answer, histogram: { counts: [1], edges: [0] } })).toBeNull();
    expect(imageOf({ ...answer, image: null }, [])).toBeNull();
    const strange = { ...answer, corner: [['0', '1', 'nan'], 7] };
    expect(() => readAnswer('value', strange)).toThrow('corner[1]: expected a list, got 7');
  });

  it('is drawn where the numbers say', () => {
    const histogram = answer.histogram!;
    const bins = binsOf(histogram, 300, 96);
    expect(bins.map(b => b.x)).toEqual([0, 100, 200]);
    expect(bins[1]?.height).toBe(0);
    expect(bins[0]!.height / bins[2]!.height).toBeCloseTo(1 / 4);
    expect(bins[0]!.y + bins[0]!.height).toBeCloseTo(80);
    expect(zeroAt(histogram, 300)).toBeCloseTo(100);
    expect(zeroAt({ counts: [1], edges: [1, 2] }, 300)).toBeNull();

    const image: IImage = { ...answer.image!, points };
    expect(gridOf(image, 300, 100)).toMatchObject({ cellWidth: 50, cellHeight: 50 });
    expect(gridOf({ ...image, rows: 1, columns: 6 }, 300, 100)).toMatchObject({
      cellWidth: 50,
      cellHeight: 24
    });
    expect([0, 5, 2.5, NaN, Infinity, -Infinity].map(x => rampStep(x, 0, 5, 10))).toEqual([
      0, 9, 5, -1, 9, 0
    ]);
    expect(rampStep(7, 7, 7, 10)).toBe(5);
    const theme = makeTheme(false, null);
    const context = new StubContext();
    paintImage(context as never, image, 300, 100, theme);
    const fills = context.calls.filter(c => c.name === 'fillRect').map(c => c.fill);
    expect(fills).toHaveLength(6);
    expect(fills[2]).toBe(theme.error);
    expect(fills[0]).toBe(theme.ramp[0]);
  });
});

describe('the panel Check', () => {
  const doc = withProfile(transformer(1));
  const ids = doc.kernels.flatMap(kernel => kernel.nodes);
  const bad = ids[4] as string;
  const wrong: IComparisonAnswer = {
    ...COMPARISON,
    ok: false,
    message: 'It is wrong.',
    first: bad,
    can_repro: true,
    nodes: [
      node(bad, { ok: false, wrong: 5, message: '5 of 64 elements are wrong' }),
      ...ids.slice(0, 4).map(id => node(id))
    ]
  };
  const value: IValueAnswer = {
    version: 1,
    node: bad,
    op: 'exp',
    kernel: 'k0',
    how: 'memory',
    text: 'Read from memory.',
    dtype: 'float32',
    shape: [4],
    size: 4,
    nan: 1,
    inf: 0,
    zero: 1,
    min: 0,
    max: 1,
    mean: 0.5,
    std: 0.4,
    histogram: { counts: [2, 1], edges: [0, 0.5, 1] },
    image: { buffer: 0, dtype: 'f4', rows: 1, columns: 4, low: 0, high: 1 },
    corner: [['0', '1', 'nan', '0.5']]
  };
  const answers: Answers = what => {
    switch (what) {
      case 'compare':
        return { data: wrong };
      case 'nan':
        return {
          data: { ...SEARCH, trip: { ...SEARCH.trip!, node: bad } }
        };
      case 'value':
        return { data: value, buffers: [new Float32Array([0, 1, NaN, 0.5]).buffer] };
      case 'repro':
        return { data: { version: 1, path: '/tmp/x.py', files: ['x.c', 'x.npz', 'x.py'] } };
      default:
        throw new Error('nobody knows');
    }
  };

  it('compares, selects and paints the wrong operation, and writes a script', async () => {
    const { view, root, asked } = await mount(doc, answers);
    view.dock.open('check');
    const script = find(root, 'Write repro') as HTMLButtonElement;
    expect(script.disabled).toBe(true);
    find(root, 'Compare').click();
    await settle();
    expect(find(root, 'It is wrong.', 'p').className).toBe('jp-mod-bad');
    expect(view.selection).toEqual([bad]);
    const rows = [...root.querySelectorAll('.jp-MaxLab-checkPanel tbody tr')];
    expect(rows[0]?.textContent).toContain('✗ 5 of 64 elements are wrong');
    expect(rows[0]?.className).toContain('jp-mod-selected');
    expect(script.disabled).toBe(false);
    script.click();
    await settle();
    expect(find(root, '/tmp/x.py', 'p').textContent).toContain('2 files');
    expect(asked.map(([what]) => what).filter(what => what !== 'value')).toEqual(
      expect.arrayContaining(['compare', 'repro'])
    );
  });

  it('finds NaN in three clicks, and shows what is there', async () => {
    const { view, root } = await mount(doc, answers);
    view.dock.open('check');
    find(root, 'Find NaN').click();
    await settle();
    expect(view.selection).toEqual([bad]);
    await settle(200);
    expect(find(root, '1 NaN, 0 infinite', 'strong')).toBeTruthy();
    const figures = [...root.querySelectorAll('.jp-MaxLab-checkPanel [role=img]')];
    expect(figures.map(f => f.getAttribute('aria-label'))).toEqual([
      expect.stringContaining('Histogram from 0 to 1'),
      expect.stringContaining('1 row of 4 points')
    ]);
    expect(root.querySelectorAll('.jp-MaxLab-corner .jp-MaxLab-bad')).toHaveLength(1);
  });

  it('asks for values only while it is in front, and of one operation', async () => {
    const { view, root, asked } = await mount(doc, answers);
    const values = (): number => asked.filter(([what]) => what === 'value').length;
    view.select([bad]);
    await settle(200);
    expect(values()).toBe(0);
    view.dock.open('check');
    await settle(200);
    expect(values()).toBe(1);
    view.select([ids[0] as string, ids[1] as string]);
    await settle(200);
    expect(values()).toBe(1);
    expect(find(root, 'Select an operation', 'p')).toBeTruthy();
  });

  it('shows a saved comparison without a kernel, and says what needs one', async () => {
    const saved = { ...doc, answers: { compare: wrong } } as IGraphDocument;
    const { view, root } = await mount(saved, null);
    view.dock.open('check');
    await settle();
    expect(find(root, 'It is wrong.', 'p')).toBeTruthy();
    for (const name of ['Compare', 'Find NaN', 'Write repro']) {
      expect((find(root, name) as HTMLButtonElement).disabled).toBe(true);
    }
    await settle(200);
    expect(find(root, 'need a running kernel', 'p')).toBeTruthy();
  });

  it('says what went wrong and asks again', async () => {
    let count = 0;
    const { view, root } = await mount(doc, what => {
      count += 1;
      if (what === 'compare' && count === 1) {
        throw new Error('The inputs are gone.');
      }
      return answers(what, {});
    });
    view.dock.open('check');
    find(root, 'Compare').click();
    await settle();
    expect(find(root, 'The inputs are gone.', 'p')).toBeTruthy();
    find(root, 'Ask again').click();
    await settle();
    expect(find(root, 'It is wrong.', 'p')).toBeTruthy();
  });
});
