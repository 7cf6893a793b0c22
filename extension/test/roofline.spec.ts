// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { GraphView } from '../src/core';
import {
  ceilingLines,
  ChartWindow,
  fitRoofline,
  fitStrip,
  groupNames,
  hasStrip,
  hitDot,
  isMoveOnly,
  layout,
  logTicks,
  placeDots,
  placeLabels,
  shownDots,
  toX,
  toY
} from '../src/core/panels/roofline/chart';
import { ofTypes, rooflineOf as readRoofline, type IRoofline } from '../src/core/panels/roofline/data';
import { paintScene, shapePath } from '../src/core/panels/roofline/paint';
import type { RooflinePanel } from '../src/core/panels/roofline/panel';
import { digits } from '../src/core/panels/roofline/words';
import { makeTheme } from '../src/core/render/theme';
import { readAnswer } from '../src/proto/answers';
import type { IRooflineAnswer, IRooflinePoint } from '../src/proto/costs';
import type { IGraphDocument } from '../src/proto/document';
import { StubContext } from './canvas';
import { copiedFrom } from './copying';
import { threeOps, transformer, withProfile } from './fixtures';
import { rooflineOf } from './rooflines';

function read(answer: unknown): IRoofline {
  return readRoofline(readAnswer('roofline', answer));
}

const POINT: IRooflinePoint = {
  kernel: 'k0',
  flops: 10,
  bytes: 5,
  ns: 2,
  gflops: 5,
  gbs: 2.5,
  intensity: 2,
  bound: null,
  fraction: null,
  level: '',
  why: ''
};

/** An answer with these points, and no ceilings. */
function answerOf(points: unknown[], more: Partial<IRooflineAnswer> = {}): unknown {
  const ceilings = { bandwidth: [], compute: [] };
  const head = { version: 2, device: 'cpu', simulated: false, threads: 1, note: '', measured_at: null };
  return { ...head, ceilings, points, ...more };
}

function sample(): IRoofline {
  return read(rooflineOf(withProfile(transformer(3))));
}

describe('answers', () => {
  it('give rates from the counts, ceilings fastest first, kernels slowest first', () => {
    const roofline = sample();
    expect(roofline.bandwidth.map(roof => roof.name)).toEqual(['L1', 'L2', 'L3', 'DRAM']);
    expect(roofline.compute.map(roof => roof.rate)).toEqual([141, 128, 38]);
    roofline.points.forEach((point, i) => {
      expect(point.gflops * point.ns).toBeCloseTo(point.flops, 3);
      expect(point.gbs * point.ns).toBeCloseTo(point.bytes, 3);
      expect(i === 0 || point.ns <= roofline.points[i - 1]!.ns).toBe(true);
    });
  });

  it('explain what cannot be read, and leave out what makes no sense', () => {
    const wrong: [unknown, RegExp][] = [
      [7, /expected an object, got 7/],
      [{ ...rooflineOf(withProfile(threeOps())), version: 3 }, /version 3: this page reads version 2/],
      [{ version: 2 }, /device: it is missing \(and 6 more\)/],
      [answerOf([{ ...POINT, bytes: null }]), /points\[0\].bytes: expected a whole number, got null/],
      [answerOf([POINT, { ...POINT, bound: 'weather' }]), /points\[1\].bound: expected "bandwidth" or/]
    ];
    for (const [answer, problem] of wrong) {
      expect(() => read(answer)).toThrow(problem);
    }
    const ceilings = { bandwidth: [{ name: 'x', gbs: 0 }], compute: [] };
    const points = [
      POINT,
      { ...POINT, ns: 0 },
      { ...POINT, flops: -1 },
      { ...POINT, kernel: 'k1' }
    ];
    const roofline = read(answerOf(points, { ceilings }));
    expect(roofline.points.map(point => point.kernel)).toEqual(['k0', 'k1']);
    expect(roofline.dropped).toBe(2);
    expect([...roofline.bandwidth, ...roofline.compute]).toEqual([]);
  });
});

describe('chart', () => {
  it('draws ceilings where bandwidth times intensity meets the peak', () => {
    const roofline = sample();
    const { x, y } = fitRoofline(roofline);
    const lines = ceilingLines(roofline, x, y);
    expect(lines).toHaveLength(7);
    for (const line of lines) {
      const { rate } = line.ceiling;
      for (const [logX, logY] of [line.from, line.to]) {
        const wanted = line.kind === 'compute' ? rate : rate * 10 ** logX;
        expect(10 ** logY).toBeCloseTo(wanted, 6);
        expect(10 ** logY).toBeLessThanOrEqual(141.0001);
      }
    }
    const dram = lines.find(line => line.ceiling.name === 'DRAM')!;
    expect(10 ** dram.to[0]).toBeCloseTo(141 / 21.5, 6);
    const loops = lines.find(line => line.ceiling.name === 'generated loops')!;
    expect(10 ** loops.from[0]).toBeCloseTo(Math.max(38 / 410, 10 ** x.from), 6);
    expect(ceilingLines({ ...roofline, compute: [] }, x, y)).toHaveLength(4);
    expect(ceilingLines({ ...roofline, bandwidth: [], compute: [] }, x, y)).toEqual([]);
  });

  it('shows every kernel: those without operations in the strip, by their bandwidth', () => {
    const roofline = sample();
    const { x, y } = fitRoofline(roofline);
    const window = new ChartWindow();
    window.setFit(x, y);
    const places = layout(1000, 300, hasStrip(roofline));
    const strip = fitStrip(roofline);
    const dots = placeDots(roofline, places, window, strip);
    expect(dots).toHaveLength(roofline.points.length);
    expect(shownDots(dots, places)).toHaveLength(dots.length);
    for (const dot of dots) {
      expect(dot.isMove).toBe(isMoveOnly(dot.point));
      if (dot.isMove) {
        expect(dot.y).toBeCloseTo(toY(places.strip!, strip, Math.log10(dot.point.gbs)), 6);
        expect(dot.x).toBeLessThan(places.chart.x);
      } else {
        expect(dot.x).toBeCloseTo(toX(places.chart, x, Math.log10(dot.point.intensity)), 6);
        expect(dot.y).toBeCloseTo(toY(places.chart, y, Math.log10(dot.point.gflops)), 6);
      }
    }
    // Areas are times, as long as a dot is not too small to be seen.
    const big = dots.filter(dot => dot.r > 3.5);
    for (const dot of big) {
      const ratio = (dot.r * dot.r) / (big[0]!.r * big[0]!.r);
      expect(ratio).toBeCloseTo(dot.point.ns / big[0]!.point.ns, 6);
    }
  });

  it('has a place for kernels without bytes, and none for those without anything', () => {
    const roofline = read(
      answerOf([
        { ...POINT, kernel: 'k0', flops: 100, bytes: 0, ns: 10 },
        { ...POINT, kernel: 'k1', flops: 0, bytes: 0, ns: 10 }
      ])
    );
    const { x, y } = fitRoofline(roofline);
    const window = new ChartWindow();
    window.setFit(x, y);
    const places = layout(600, 300, hasStrip(roofline));
    const dots = placeDots(roofline, places, window, fitStrip(roofline));
    expect(dots.map(dot => dot.point.kernel)).toEqual(['k0']);
    expect(shownDots(dots, places)).toHaveLength(1);
    expect(places.strip).toBeNull();
  });

  it('finds the dot under the pointer, the small one before the large one', () => {
    const roofline = sample();
    const places = layout(1000, 300, true);
    const window = new ChartWindow();
    const { x, y } = fitRoofline(roofline);
    window.setFit(x, y);
    const dots = placeDots(roofline, places, window, fitStrip(roofline));
    const [large] = dots;
    const small = { ...dots[5]!, x: large!.x + 2, y: large!.y, r: 3.5 };
    expect(hitDot([large!, small], small.x, small.y)).toBe(small);
    expect(hitDot([large!, small], large!.x - large!.r + 1, large!.y)).toBe(large);
    expect(hitDot(dots, -50, -50)).toBeNull();
  });

  it('puts labels on no other label, dot or ceiling name, slowest kernels first', () => {
    const roofline = sample();
    const places = layout(900, 260, true);
    const window = new ChartWindow();
    const { x, y } = fitRoofline(roofline);
    window.setFit(x, y);
    const dots = placeDots(roofline, places, window, fitStrip(roofline));
    const taken = [{ x: places.chart.x, y: places.chart.y, w: 200, h: 60 }];
    const labels = placeLabels(
      groupNames(dots, dot => `name of ${dot.point.kernel}`),
      dots,
      text => text.length * 6,
      dot => (dot.isMove ? places.strip! : places.chart),
      taken,
      40
    );
    expect(labels.length).toBeGreaterThan(3);
    const boxes = [...taken, ...labels.map(label => label.box)];
    boxes.forEach((a, i) =>
      boxes.slice(i + 1).forEach(b => {
        const apart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y;
        expect(apart).toBe(true);
      })
    );
    for (const { dot, box } of labels) {
      for (const other of dots) {
        if (other !== dot) {
          const inside =
            other.x > box.x && other.x < box.x + box.w && other.y > box.y && other.y < box.y + box.h;
          expect(inside).toBe(false);
        }
      }
    }
    const names = groupNames(dots, () => 'x');
    expect(names.length).toBeLessThan(dots.length);
    const count = (text: string): number => Number(/×(\d+)$/.exec(text)?.[1] ?? 1);
    expect(names.reduce((sum, { text }) => sum + count(text), 0)).toBe(dots.length);
    const one = placeLabels(names, dots, () => 6, () => places.chart, [], 1);
    expect(one).toHaveLength(1);
  });

  it('zooms about a place, pans, and keeps the kernels in sight', () => {
    const window = new ChartWindow();
    window.setFit({ from: -1, to: 3 }, { from: 0, to: 2 });
    window.zoom(2, 0.25, 0.5);
    expect(window.x.from + 0.25 * (window.x.to - window.x.from)).toBeCloseTo(0, 9);
    expect(window.y).toEqual({ from: 0.5, to: 1.5 });
    window.pan(100, -100);
    expect(window.x.from).toBeLessThan(3);
    expect(window.y.to).toBeGreaterThan(0);
    window.reveal(2.5, 1.9);
    expect(window.x.from <= 2.5 && window.x.to >= 2.5).toBe(true);
    expect(window.y.from <= 1.9 && window.y.to >= 1.9).toBe(true);
    window.fit();
    expect(window.x).toEqual({ from: -1, to: 3 });
  });

  it('labels its axes at round numbers', () => {
    const labels = (from: number, to: number, room: number): string[] =>
      logTicks({ from, to }, room).map(tick => tick.label).filter(Boolean);
    expect(labels(-2, 3, 300)).toEqual(['0.01', '0.1', '1', '10', '100', '1k']);
    expect(labels(0, 1, 100)).toEqual(['1', '2', '5', '10']);
    expect(labels(5.9, 7.1, 80)).toEqual(['1M', '10M']);
    expect([0, 0.0421, 9.999, 12.34, 512.7, Infinity].map(digits)).toEqual([
      '0',
      '0.0421',
      '10',
      '12.3',
      '513',
      '∞'
    ]);
  });

  it('draws a shape of its own for each bound', () => {
    const shapes = (['bandwidth', 'compute', 'launch', 'imbalance'] as const).map(bound => {
      const ctx = new StubContext();
      shapePath(ctx.real, bound, 10, 10, 5);
      return ctx.calls.map(call => call.name).join(' ');
    });
    expect(new Set(shapes).size).toBe(4);
    const ctx = new StubContext();
    const roofline = sample();
    const window = new ChartWindow();
    const { x, y } = fitRoofline(roofline);
    window.setFit(x, y);
    const places = layout(1000, 300, true);
    const strip = fitStrip(roofline);
    const taken = paintScene(ctx.real, {
      roofline,
      theme: makeTheme(false, null),
      measure: text => text.length * 6,
      layout: places,
      window,
      strip,
      dots: placeDots(roofline, places, window, strip),
      familyOf: () => 'contract'
    });
    const texts = ctx.texts().join('|');
    for (const name of ['L1 · 410 GB/s', 'DRAM · 21.5 GB/s', 'GEMM f32 · 128 GFLOP/s', 'operations per byte']) {
      expect(texts).toContain(name);
    }
    expect(taken.length).toBeGreaterThanOrEqual(7);
  });
});

const mounted: GraphView[] = [];

describe('panel', () => {
  beforeEach(() => {
    HTMLCanvasElement.prototype.getContext = (() => new StubContext()) as never;
    for (const [name, size] of [['clientWidth', 1000], ['clientHeight', 300]] as const) {
      Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => size });
    }
    globalThis.ResizeObserver = class {
      constructor(private readonly _call: () => void) {}
      observe(): void {
        this._call();
      }
      unobserve(): void {}
      disconnect(): void {}
    } as never;
  });

  afterEach(() => {
    mounted.splice(0).forEach(view => view.dispose());
    document.body.replaceChildren();
  });

  async function open(doc: IGraphDocument): Promise<{ view: GraphView; panel: RooflinePanel }> {
    const view = new GraphView(document.body, {});
    view.stage.reducedMotion = true;
    mounted.push(view);
    view.setDocument(doc);
    await view.layoutDone();
    view.showDock('roofline');
    const panel = view.dock.panel('roofline') as RooflinePanel;
    // With an answer, it is painted in a frame.
    const count = doc.answers?.roofline === undefined ? 0 : 1;
    await vi.waitFor(() => expect(panel.dots.length).toBeGreaterThanOrEqual(count));
    return { view, panel };
  }

  function saved(): IGraphDocument {
    const doc = withProfile(transformer(2));
    doc.answers = { roofline: rooflineOf(doc) };
    return doc;
  }

  function press(panel: RooflinePanel, key: string, init: KeyboardEventInit = {}): void {
    const stage = panel.element.querySelector('.jp-MaxLab-rooflineStage')!;
    stage.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...init }));
  }

  it('says what it needs', async () => {
    const view = new GraphView(document.body, {});
    mounted.push(view);
    view.setDocument(threeOps());
    view.showDock('roofline');
    expect(view.element.querySelector('.jp-MaxLab-dockNotice')?.textContent).toContain('No times yet');
    const { panel } = await open(withProfile(transformer(2)));
    expect(panel.element.querySelector('.jp-MaxLab-panelProblem')?.textContent).toContain('running kernel');
  });

  it('goes through kernels by time with keys, and selects', async () => {
    const { view, panel } = await open(saved());
    const points = panel.roofline!.points;
    press(panel, 'ArrowRight');
    expect(panel.focus).toBe(points[0]!.kernel);
    press(panel, 'ArrowDown');
    expect(panel.focus).toBe(points[1]!.kernel);
    press(panel, 'End');
    press(panel, 'ArrowRight');
    expect(panel.focus).toBe(points[points.length - 1]!.kernel);
    press(panel, 'Home');
    press(panel, 'Enter');
    const nodes = view.timing.nodesOf(view.timing.kernel(points[0]!.kernel)!);
    expect(view.selection).toEqual(nodes);
    const span = panel.window.x.to - panel.window.x.from;
    press(panel, '+');
    expect(panel.window.x.to - panel.window.x.from).toBeCloseTo(span / 1.3, 9);
    const { from } = panel.window.x;
    press(panel, 'ArrowRight', { shiftKey: true });
    expect(panel.window.x.from).toBeGreaterThan(from);
    press(panel, 'f');
    expect(panel.window.x.to - panel.window.x.from).toBeCloseTo(span, 9);
    press(panel, 'Escape');
    expect(panel.focus).toBeNull();
  });

  it('selects the kernel that is clicked', async () => {
    const { view, panel } = await open(saved());
    const stage = panel.element.querySelector('.jp-MaxLab-rooflineStage')!;
    const dot = panel.dots[panel.dots.length - 1]!;
    const at = { clientX: dot.x, clientY: dot.y, button: 0, bubbles: true };
    stage.dispatchEvent(new MouseEvent('pointerdown', at));
    stage.dispatchEvent(new MouseEvent('pointerup', at));
    const { kernel } = hitDot(panel.dots, dot.x, dot.y)!.point;
    expect(panel.focus).toBe(kernel);
    expect(view.selection).toEqual(view.timing.nodesOf(view.timing.kernel(kernel)!));
  });

  it('is a table as well, which marks what is selected in the graph', async () => {
    const { view, panel } = await open(saved());
    [...panel.element.querySelectorAll('button')].find(b => b.textContent === 'Table')!.click();
    expect(panel.element.querySelector('caption')?.textContent).toContain('DRAM 21.5 GB/s');
    const rows = [...panel.element.querySelectorAll<HTMLElement>('tbody tr')];
    expect(rows.map(row => row.dataset.kernel)).toEqual(panel.roofline!.points.map(p => p.kernel));
    rows[2]!.querySelector('button')!.click();
    expect(rows.filter(row => row.classList.contains('jp-mod-selected'))).toEqual([rows[2]]);
    const other = panel.roofline!.points[4]!.kernel;
    view.select(view.timing.nodesOf(view.timing.kernel(other)!));
    const marked = panel.element.querySelectorAll<HTMLElement>('tr.jp-mod-selected');
    expect([...marked].map(row => row.dataset.kernel)).toEqual([other]);
    const button = [...panel.element.querySelectorAll('button')].find(b => b.textContent === 'Table')!;
    button.click();
    button.click();
    expect(panel.element.querySelectorAll('tr.jp-mod-selected')).toHaveLength(1);
  });

  it('copies its table as CSV, not rounded, also while the room around it has the focus', async () => {
    const { panel } = await open(saved());
    [...panel.element.querySelectorAll('button')].find(b => b.textContent === 'Table')!.click();
    expect(panel.element.querySelectorAll('thead [aria-label="Copy as CSV"]')).toHaveLength(1);
    const [heads, ...lines] = copiedFrom(panel.element.querySelector('.jp-MaxLab-tableRoom')!);
    expect(heads).toBe(
      'kernel,name,ops,time [ns],work [flop],moved [B],intensity [flop/B],GFLOP/s,GB/s,bound by,level,of roof'
    );
    const { points } = panel.roofline!;
    expect(lines).toHaveLength(points.length);
    const point = points[0]!;
    expect(lines[0]!.split(',').slice(3, 6)).toEqual([point.ns, point.flops, point.bytes].map(String));
  });

  it('draws ceilings of the types in the graph, and all when asked', async () => {
    const doc = saved();
    const answer = rooflineOf(doc);
    answer.ceilings.compute = [
      { name: 'f32 FMA', gflops: 100 },
      { name: 'bf16 dot', gflops: 230 },
      { name: 'f64 FMA', gflops: 50 },
      { name: 'generated loops', gflops: 20 }
    ];
    doc.answers = { roofline: answer };
    const { panel } = await open(doc);
    const names = (): string[] => panel.roofline!.compute.map(roof => roof.name);
    expect(names()).toEqual(['f32 FMA', 'generated loops']);
    const box = panel.element.querySelector<HTMLInputElement>('input[type="checkbox"]')!;
    box.checked = true;
    box.dispatchEvent(new Event('change'));
    expect(names()).toEqual(['bf16 dot', 'f32 FMA', 'f64 FMA', 'generated loops']);
    const only = { ...panel.roofline!, compute: [{ name: 'f64 FMA', rate: 50 }] };
    expect(ofTypes(only, new Set(['f32'])).compute).toEqual(only.compute);
  });

  it('says that a simulator has no ceilings', async () => {
    const doc = saved();
    const answer = rooflineOf(doc);
    answer.simulated = true;
    answer.ceilings = { bandwidth: [], compute: [] };
    answer.points = answer.points.map(point => ({ ...point, bound: null, fraction: null }));
    doc.answers = { roofline: answer };
    const { panel } = await open(doc);
    expect(panel.element.querySelector('.jp-MaxLab-panelStatus')?.textContent).toContain(
      'a simulator has no ceilings'
    );
    expect(panel.dots.length).toBeGreaterThan(0);
  });
});
