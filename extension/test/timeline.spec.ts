// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { GraphView } from '../src/core';
import { formatTime } from '../src/core/model/format';
import { GraphModel } from '../src/core/model/graph';
import { Timing } from '../src/core/model/timing';
import { timelineOf as readTimeline, type ITimeline } from '../src/core/panels/timeline/data';
import { Lane, makeLanes } from '../src/core/panels/timeline/lanes';
import { COVERAGE_STEPS, Marks, markLane, WHOLE } from '../src/core/panels/timeline/merge';
import { TimelineModel } from '../src/core/panels/timeline/model';
import { fitText } from '../src/core/panels/timeline/paint';
import type { TimelinePanel } from '../src/core/panels/timeline/panel';
import { hitLane, hitRows, type ILaneRow } from '../src/core/panels/timeline/rows';
import { makeStyling } from '../src/core/panels/timeline/styles';
import { niceStep, ticks, TimeWindow } from '../src/core/panels/timeline/window';
import { describeSlice, hitLines, measuredText } from '../src/core/panels/timeline/words';
import { makeTheme } from '../src/core/render/theme';
import { contrast, parseColor } from '../src/core/render/color';
import { readAnswer } from '../src/proto/answers';
import type { IGraphDocument } from '../src/proto/document';
import { StubContext } from './canvas';
import { copiedFrom } from './copying';
import { threeOps, transformer, withProfile } from './fixtures';
import { addEvents, addSlice, emptyTimeline, timelineOf, type IAnswerShape } from './timelines';

/** Numbers that are the same in every run. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function read(answer: unknown, buffers: ArrayBuffer[] = []): ITimeline {
  return readTimeline(readAnswer('timeline', answer), buffers);
}

/** A lane of slices `[start, end]`. */
function lane(spans: readonly (readonly [number, number])[]): Lane {
  return new Lane(
    0,
    0,
    Int32Array.from(spans.map((_, i) => i)),
    Float64Array.from(spans.map(s => s[0])),
    Float64Array.from(spans.map(s => s[1]))
  );
}

function randomLane(seed: number, count: number): Lane {
  const next = random(seed);
  const spans: [number, number][] = [];
  let at = 0;
  for (let i = 0; i < count; i += 1) {
    at += next() < 0.3 ? 0 : next() * 20;
    const end = at + (next() < 0.1 ? next() * 400 : next() * 5);
    spans.push([at, end]);
    at = end;
  }
  return lane(spans);
}

describe('answers', () => {
  it('reads lists and buffers alike, from the first slice on', () => {
    const answer = timelineOf(withProfile(threeOps()));
    answer.columns.start = answer.columns.start.map(t => t + 5_000);
    const plain = read(answer);
    const names = ['start', 'dur', 'track', 'name', 'kernel', 'depth'] as const;
    const kinds = { start: 'f8', dur: 'f8', track: 'i2', name: 'i4', kernel: 'i4', depth: 'u1' };
    const arrays = { f8: Float64Array, i2: Int16Array, i4: Int32Array, u1: Uint8Array };
    const buffers = names.map(name => {
      const kind = kinds[name] as keyof typeof arrays;
      return arrays[kind].from(answer.columns[name]).buffer;
    });
    const columns = Object.fromEntries(
      names.map((name, buffer) => [name, { buffer, dtype: kinds[name] }])
    );
    const binary = read({ ...answer, columns }, buffers);
    for (const name of names) {
      expect([...binary[name]], name).toEqual([...plain[name]]);
    }
    expect(Math.min(...binary.start)).toBe(0);
    expect(binary.length).toBe(plain.length);
  });

  it('explains what cannot be read', () => {
    const good = timelineOf(withProfile(threeOps()));
    const bad: [unknown, RegExp][] = [
      [null, /expected an object, got null/],
      [[], /expected an object, got a list/],
      [{ ...good, version: 2 }, /version 2: this page reads version 1/],
      [{ ...good, tracks: 'no' }, /tracks: expected a list, got text "no"/],
      [{ ...good, tracks: [{ name: 't', kind: 'odd', process: 'p' }] }, /tracks\[0\].kind: expected/],
      [{ ...good, columns: null }, /columns: expected an object, got null/],
      [{ ...good, n: -1 }, /column start .* has \d+ rows, expected -1/],
      [{ ...good, n: good.n + 1 }, /column start .* has \d+ rows, expected/],
      [{ ...good, columns: { ...good.columns, dur: { buffer: 3, dtype: 'f8' } } }, /column .* missing/],
      [{ ...good, columns: { ...good.columns, track: undefined } }, /columns.track: it is missing/],
      [{ ...good, columns: { ...good.columns, turns: [1] } }, /column turns .* has 1 rows/],
      [{ ...good, columns: { ...good.columns, turns: 'many' } }, /turns: expected a list or an object/]
    ];
    for (const [answer, problem] of bad) {
      expect(() => read(answer)).toThrow(problem);
    }
  });

  it('leaves out slices that make no sense, and counts them', () => {
    const answer = emptyTimeline();
    answer.tracks.push({ name: 't', kind: 'thread', process: 'p' });
    answer.kernels = ['k0'];
    addSlice(answer, 0, 'good', 10, 5, 0);
    addSlice(answer, 0, 'no kernel of ours', 20, 5, 7);
    addSlice(answer, 3, 'no such track', 10, 5);
    addSlice(answer, 0, 'negative', 10, -1);
    addSlice(answer, 0, 'endless', 10, Infinity);
    addSlice(answer, 0, 'never', NaN, 1);
    // Numbers without end are in no list, but may be in a buffer.
    const { start, dur } = answer.columns;
    const buffers = [start, dur].map(column => Float64Array.from(column).buffer);
    const refs = { start: { buffer: 0, dtype: 'f8' }, dur: { buffer: 1, dtype: 'f8' } };
    expect(() => read(answer)).toThrow(/columns.*finite number/);
    const timeline = read({ ...answer, columns: { ...answer.columns, ...refs } }, buffers);
    expect(timeline.n).toBe(2);
    expect(timeline.dropped).toBe(4);
    expect([...timeline.kernel]).toEqual([0, -1]);
    expect(timeline.length).toBe(15);
  });
});

describe('lanes', () => {
  it('find what a search through all finds', () => {
    for (const seed of [1, 2, 3]) {
      const one = randomLane(seed, 400);
      const next = random(seed + 100);
      const last = one.ends[one.length - 1] as number;
      for (let n = 0; n < 300; n += 1) {
        const time = next() * last * 1.1 - last * 0.05;
        const expected = [...one.ends].findIndex(end => end > time);
        expect(one.after(time)).toBe(expected < 0 ? one.length : expected);
        const from = Math.floor(next() * one.length);
        const later = [...one.ends].findIndex((end, i) => i >= from && end > time);
        expect(one.after(time, from)).toBe(later < 0 ? one.length : later);
        const to = time + next() * last * 0.3;
        let busy = 0;
        for (let i = 0; i < one.length; i += 1) {
          const low = Math.max(time, one.starts[i] as number);
          busy += Math.max(0, Math.min(to, one.ends[i] as number) - low);
        }
        expect(one.busy(time, to)).toBeCloseTo(busy, 6);
      }
      for (let n = 0; n < 300; n += 1) {
        const from = Math.floor(next() * one.length);
        const to = Math.min(one.length, from + 1 + Math.floor(next() * 200));
        const sizes = [...one.ends].map((end, i) => end - (one.starts[i] as number));
        const most = Math.max(...sizes.slice(from, to));
        const found = one.longest(from, to);
        expect(found >= from && found < to).toBe(true);
        expect(sizes[found]).toBe(most);
      }
    }
  });

  it('hold no two slices at once, whatever the answer says of depths', () => {
    const answer = emptyTimeline();
    answer.tracks.push({ name: 'a', kind: 'thread', process: '' });
    answer.tracks.push({ name: 'empty', kind: 'thread', process: '' });
    const next = random(7);
    for (let i = 0; i < 500; i += 1) {
      addSlice(answer, 0, 'x', Math.floor(next() * 9000), Math.floor(next() * 60), -1, i % 3);
    }
    const timeline = read(answer);
    const [lanes, none] = makeLanes(timeline) as [Lane[], Lane[]];
    expect(none.map(one => one.length)).toEqual([0]);
    const seen = new Set(lanes.flatMap(one => [...one.slices]));
    expect(seen.size).toBe(500);
    for (const one of lanes) {
      for (let i = 1; i < one.length; i += 1) {
        expect((one.starts[i] as number) >= (one.ends[i - 1] as number)).toBe(true);
      }
    }
  });

  it('put what is nested below what holds it', () => {
    const answer = emptyTimeline();
    answer.tracks.push({ name: 'a', kind: 'python', process: '' });
    addSlice(answer, 0, 'inner', 10, 20, -1, 1);
    addSlice(answer, 0, 'outer', 0, 100, -1, 0);
    addSlice(answer, 0, 'leaf', 12, 0, -1, 2);
    const [lanes] = makeLanes(read(answer)) as [Lane[]];
    expect(lanes.map(one => [...one.slices])).toEqual([[1], [0], [2]]);
  });
});

describe('marks', () => {
  it('cover the pixels of every slice in the window, and no others', () => {
    const width = 300;
    for (const [seed, part] of [[1, 1], [2, 0.5], [3, 0.1], [4, 0.01]] as const) {
      const one = randomLane(seed, 3000);
      const last = one.ends[one.length - 1] as number;
      const from = last * 0.3;
      const window = { from, to: from + last * part * 0.6 };
      const out = new Marks();
      markLane(one, window, width, 0, () => 0, out);
      expect(out.n).toBeLessThanOrEqual(2 * width + 2);
      const drawn = new Set<number>();
      for (let i = 0; i < out.n; i += 1) {
        const x = out.x[i] as number;
        for (let px = Math.floor(x); px < x + (out.w[i] as number) - 1e-3; px += 1) {
          drawn.add(px);
        }
      }
      const scale = width / (window.to - window.from);
      const wanted = new Set<number>();
      for (let i = 0; i < one.length; i += 1) {
        const left = ((one.starts[i] as number) - from) * scale;
        const right = ((one.ends[i] as number) - from) * scale;
        if (right <= 0 || left >= width) {
          continue;
        }
        // The middle of each slice has to be drawn; its edges may round.
        const middle = Math.floor(Math.min(width - 1, Math.max(0, (left + right) / 2)));
        expect(drawn.has(middle) || drawn.has(middle - 1), `seed ${seed} slice ${i}`).toBe(true);
        for (let px = Math.floor(left) - 1; px <= Math.ceil(right); px += 1) {
          wanted.add(px);
        }
      }
      expect([...drawn].filter(px => px >= 0 && px < width && !wanted.has(px))).toEqual([]);
    }
  });

  it('show the longest slice of a pixel, and how busy the pixel is', () => {
    const spans: [number, number][] = [];
    for (let i = 0; i < 1000; i += 1) {
      spans.push([i, i + (i === 503 ? 0.9 : 0.1)]);
    }
    const out = new Marks();
    markLane(lane(spans), { from: 0, to: 1000 }, 10, 0, slice => (slice === 503 ? 1 : 0), out);
    const rows = Array.from({ length: out.n }, (_, i) => [out.x[i], out.w[i], out.style[i], out.cover[i]]);
    // 100 slices a pixel: runs of alike pixels are one mark, and the one with slice 503 is another.
    expect(rows).toEqual([[0, 5, 0, 1], [5, 1, 1, 1], [6, 4, 0, 1]]);
    out.clear();
    markLane(lane([[0, 3], [3, 6], [6, 9]]), { from: 0, to: 10 }, 5, 0, () => 0, out);
    expect([...out.cover.subarray(0, out.n)]).toEqual([WHOLE, WHOLE, WHOLE]);
    out.clear();
    markLane(lane([[0, 1], [1, 2], [2, 3]]), { from: 0, to: 10 }, 1, 0, () => 0, out);
    expect(out.n).toBe(1);
    expect(out.cover[0]).toBe(Math.ceil(0.3 * COVERAGE_STEPS));
  });

  it('number as many as there are pixels, for a million slices', () => {
    const count = 1_000_000;
    const starts = Float64Array.from({ length: count }, (_, i) => i * 100);
    const ends = starts.map(s => s + 60);
    const slices = Int32Array.from({ length: count }, (_, i) => i);
    const one = new Lane(0, 0, slices, starts, ends);
    const out = new Marks();
    markLane(one, { from: 0, to: count * 100 }, 1200, 0, slice => slice % 5, out);
    expect(out.n).toBeLessThanOrEqual(1200);
    expect(out.n).toBeGreaterThan(0);
  });

  it('are what a pointer hits', () => {
    const spans: [number, number][] = [[0, 400], [400, 400.1], [400.1, 400.5], [700, 1000]];
    const row = { lane: lane(spans), y: 0 };
    const window = { from: 0, to: 1000 };
    expect(hitLane(row, window, 100, 20)?.slice).toBe(0);
    // Two slices share pixel 40: the longer one is drawn.
    expect(hitLane(row, window, 100, 40.02)).toMatchObject({ slice: 2, count: 2 });
    expect(hitLane(row, window, 1000, 400.3)).toMatchObject({ slice: 2 });
    expect(hitLane(row, window, 100, 55)).toBeNull();
    expect(hitLane(row, window, 100, 99)?.slice).toBe(3);
  });
});

describe('window', () => {
  it('zooms about a time and keeps to the run', () => {
    const window = new TimeWindow(1000);
    expect(window.isWhole).toBe(true);
    window.zoom(4, 250);
    const part = (250 - window.from) / window.span;
    window.zoom(2, 250);
    expect((250 - window.from) / window.span).toBeCloseTo(part, 9);
    window.pan(1e9);
    expect(window.from).toBeLessThan(1000);
    window.pan(-1e9);
    expect(window.to).toBeGreaterThan(0);
    window.zoom(1e-9, 500);
    expect(window.isWhole).toBe(true);
    window.zoom(1e12, 500);
    expect(window.span).toBe(20);
    window.reveal(900, 910);
    expect(window.from <= 900 && window.to >= 900).toBe(true);
    window.show(10, 30);
    const { from } = window;
    window.reveal(12, 14);
    expect(window.from).toBe(from);
    window.reveal(500, 700);
    expect(window.from < 500 && window.to > 700).toBe(true);
  });

  it('has an axis of round times with units', () => {
    expect([1.2, 1, 3, 7, 0.002].map(niceStep)).toEqual([2, 1, 5, 10, 0.002]);
    const labels = (from: number, to: number): string[] => ticks({ from, to }, 420).map(t => t.label);
    expect(labels(0, 1000)).toEqual(['0', '0.2 µs', '0.4 µs', '0.6 µs', '0.8 µs', '1.0 µs']);
    expect(labels(0, 5e6)).toEqual(['0', '1 ms', '2 ms', '3 ms', '4 ms', '5 ms']);
    expect(labels(2.5e9, 2.5e9 + 1000)[0]).toMatch(/^2\.500000\d* s$/);
    expect(new Set(labels(2.5e9, 2.5e9 + 1000)).size).toBe(labels(2.5e9, 2.5e9 + 1000).length);
    expect(ticks({ from: 0, to: 10 }, 20)).toEqual([]);
    expect(ticks({ from: 5, to: 5 }, 500)).toEqual([]);
  });
});

function modelOf(document: IGraphDocument, answer: IAnswerShape): TimelineModel {
  const model = new GraphModel(document);
  return new TimelineModel(read(answer), model, new Timing(model, document.profile));
}

describe('timeline of a graph', () => {
  const document = withProfile(transformer(3));
  const answer = timelineOf(document, 3, 2);
  addEvents(answer);
  const data = modelOf(document, answer);

  it('knows the operations of a slice, and the slices of an operation', () => {
    const kernel = document.kernels.find(k => k.nodes.length > 2)!;
    const found = data.kernelsOf([kernel.nodes[1]!]);
    expect([...found].map(k => data.timeline.kernels[k])).toEqual([kernel.id]);
    const marks = data.ofKernels(found)!;
    const slices = [...marks].flatMap((on, slice) => (on === 1 ? [slice] : []));
    expect(slices).toHaveLength(6);
    for (const slice of slices) {
      expect(data.kernelOf(slice)).toBe(kernel.id);
      expect(data.nodesOf(data.kernelOf(slice)!)).toEqual(kernel.nodes);
    }
    expect(data.ofKernels(data.kernelsOf(['no such node']))).toBeNull();
  });

  it('walks over lanes and tracks without missing a slice', () => {
    const row = data.rows.tracks.find(one => one.track.name === 'thread 1')!;
    const { slices } = row.lanes[0]!.lane;
    let at: number | null = slices[0]!;
    const seen: number[] = [];
    while (at !== null) {
      seen.push(at);
      at = data.beside(at, 1);
    }
    expect(seen).toEqual([...slices]);
    const below = data.across(slices[5]!, 1)!;
    expect(data.timeline.tracks[data.timeline.track[below]!]?.name).toBe('thread 2');
    expect(data.across(below, -1)).toBe(slices[5]);
    for (let slice = 0; slice < data.timeline.n; slice += 1) {
      const place = data.locate(slice)!;
      expect(place.row.lane.slices[place.at]).toBe(slice);
    }
  });

  it('hits every slice that is wide enough where it is drawn', () => {
    const window = new TimeWindow(data.timeline.length);
    const width = 4000;
    let wide = 0;
    for (const row of data.rows.lanes) {
      row.lane.slices.forEach((slice, at) => {
        const left = (((row.lane.starts[at] as number) - window.from) / window.span) * width;
        const right = (((row.lane.ends[at] as number) - window.from) / window.span) * width;
        if (right - left > 2) {
          wide += 1;
          const hit = hitRows(data.rows, window, width, (left + right) / 2, row.y + 5);
          expect(hit).toMatchObject({ slice, count: 1 });
        }
      });
    }
    expect(wide).toBeGreaterThan(100);
  });

  it('finds slices by name, kernel, operation, line and track', () => {
    const count = (query: string): number => data.search(query)?.count ?? -1;
    const softmax = document.kernels.filter(k => k.name.includes('softmax')).length;
    expect(count('softmax')).toBe(softmax * 6);
    expect(count('SOFTMAX thread')).toBe(softmax * 6);
    expect(count('softmax copies')).toBe(0);
    expect(count('fold constants')).toBe(1);
    expect(count('scores = q @ k')).toBeGreaterThan(0);
    expect(data.search('  ')).toBeNull();
    const { marks } = data.search('softmax')!;
    let at: number | null = null;
    const seen: number[] = [];
    for (let i = 0; i < softmax * 6; i += 1) {
      at = data.step(marks, at, 1);
      seen.push(at!);
    }
    expect(new Set(seen).size).toBe(softmax * 6);
    expect(seen.map(slice => data.start(slice))).toEqual(
      seen.map(slice => data.start(slice)).sort((a, b) => a - b)
    );
    expect(data.step(marks, at, 1)).toBe(seen[0]);
    expect(data.step(marks, seen[0]!, -1)).toBe(at);
  });

  it('says how many turns of a loop a slice stands for', () => {
    const document = withProfile(threeOps());
    const answer = timelineOf(document, 1);
    const turns = answer.columns.start.map((_, i) => (i === 1 ? 1200 : i === 2 ? 0 : 1));
    const model = (columns: unknown): TimelineModel => {
      const graph = new GraphModel(document);
      return new TimelineModel(
        read({ ...answer, columns }),
        graph,
        new Timing(graph, document.profile ?? null)
      );
    };
    const data = model({ ...answer.columns, turns });
    const label = data.label(1);
    expect(data.title(1)).toBe(`${label} × 1,200 turns`);
    expect([data.title(0), data.title(2)]).toEqual([data.label(0), data.label(2)]);
    const [title, times] = hitLines(data, { row: data.rows.lanes[1] as ILaneRow, slice: 1, count: 1 });
    expect(title).toBe(`${label} × 1,200 turns`);
    expect(times).toContain(`${formatTime(data.dur(1))}, ${formatTime(data.dur(1) / 1200)} a turn`);
    expect(describeSlice(data, 1)).toContain('× 1,200 turns');
    expect(describeSlice(data, 0)).not.toContain('turn');
    expect(data.totals(9).find(total => total.slice === 1)?.label).toBe(label);
    // An older answer has no such column, and one that makes no sense counts as one launch.
    expect(model(answer.columns).title(1)).toBe(label);
    const odd = answer.columns.start.map(() => -2);
    expect(model({ ...answer.columns, turns: odd }).title(1)).toBe(label);
  });

  it('adds up what each kernel took', () => {
    const totals = data.totals(1000);
    expect(totals.every((t, i) => i === 0 || t.ns <= totals[i - 1]!.ns)).toBe(true);
    const all = totals.filter(t => t.kernel !== null).reduce((sum, t) => sum + t.ns, 0);
    expect(all).toBeCloseTo(data.kernelNs, 3);
    expect(totals.reduce((sum, t) => sum + t.count, 0)).toBe(data.timeline.n);
    // Two threads are busy all of the span, the third a little less.
    const k0 = data.timeline.kernel.indexOf(0);
    const span = { from: data.start(k0), to: data.end(k0) };
    expect(measuredText(data, span)).toMatch(/ · 3 slices · 93% busy$/);
  });

  it('colours by family as the graph does, and every text can be read', () => {
    for (const isDark of [false, true]) {
      const theme = makeTheme(isDark, null);
      for (const by of ['family', 'time'] as const) {
        const { styles, styleOf, legend } = makeStyling(data, theme, by);
        for (const style of styles) {
          const ratio = contrast(parseColor(style.fill)!, parseColor(style.text)!);
          expect(ratio, `${style.name} ${style.fill}`).toBeGreaterThanOrEqual(4.5);
        }
        const names = legend.map(style => style.name);
        expect(new Set(names).size).toBe(names.length);
        expect(names).toContain('transfer');
        const product = data.timeline.kernels.findIndex(id => data.familyOf(id) === 'contract');
        const slice = data.timeline.kernel.indexOf(product);
        if (by === 'family') {
          expect(styles[styleOf(slice)]?.fill).toBe(theme.family.contract.stripe);
        } else {
          // Heat has a pattern in each band but the coldest.
          const patterns = new Set(legend.slice(0, 4).map(style => style.pattern));
          expect(patterns.size).toBe(4);
        }
      }
    }
  });

  it('draws spans in the colours that the user gave them', () => {
    const own = timelineOf(document, 1);
    addEvents(own);
    const colored = modelOf(document, {
      ...own,
      colors: { tokenize: '#ff8000', forward: 'no colour', softmax: '#00ff00' }
    });
    const theme = makeTheme(false, null);
    const { styles, styleOf } = makeStyling(colored, theme, 'family');
    const { timeline } = colored;
    const fill = (name: string): string | undefined =>
      styles[styleOf(timeline.name.indexOf(timeline.names.indexOf(name)))]?.fill;
    expect(fill('tokenize')).toBe('rgb(255, 128, 0)');
    const plain = makeStyling(modelOf(document, own), theme, 'family');
    for (const name of ['forward', 'load']) {
      const slice = timeline.name.indexOf(timeline.names.indexOf(name));
      expect(fill(name)).toBe(plain.styles[plain.styleOf(slice)]?.fill);
    }
  });

  it('cuts labels to their room', () => {
    const measure = (text: string): number => text.length * 6;
    expect(fitText('matmul', 36, measure)).toBe('matmul');
    expect(fitText('matmul_add', 36, measure)).toBe('matmu…');
    expect(fitText('matmul_add', 20, measure)).toBe('');
  });
});

const mounted: GraphView[] = [];

describe('panel', () => {
  beforeEach(() => {
    HTMLCanvasElement.prototype.getContext = (() => new StubContext()) as never;
    for (const [name, size] of [['clientWidth', 1000], ['clientHeight', 500]] as const) {
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

  async function open(doc: IGraphDocument): Promise<{
    view: GraphView;
    panel: TimelinePanel;
    stage: HTMLElement;
    press: (key: string, init?: KeyboardEventInit) => void;
  }> {
    const view = new GraphView(document.body, {});
    view.stage.reducedMotion = true;
    mounted.push(view);
    view.setDocument(doc);
    await view.layoutDone();
    view.showDock('timeline');
    await Promise.resolve();
    await new Promise(done => setTimeout(done, 0));
    const panel = view.dock.panel('timeline') as TimelinePanel;
    const stage = panel.element.querySelector<HTMLElement>('.jp-MaxLab-timelineStage')!;
    const press = (key: string, init: KeyboardEventInit = {}): void => {
      stage.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...init }));
    };
    return { view, panel, stage, press };
  }

  function saved(): IGraphDocument {
    const doc = withProfile(transformer(2));
    doc.answers = { timeline: timelineOf(doc, 2) };
    return doc;
  }

  it('says what it needs when there are no times', () => {
    const view = new GraphView(document.body, {});
    mounted.push(view);
    view.setDocument(threeOps());
    view.showDock('timeline');
    expect(view.element.querySelector('.jp-MaxLab-dockNotice')?.textContent).toContain('No times yet');
  });

  it('shows a saved timeline without a kernel, and explains one that is missing or broken', async () => {
    const { panel, stage } = await open(saved());
    expect(panel.data?.timeline.n).toBeGreaterThan(50);
    expect(stage.getAttribute('aria-label')).toMatch(/Timeline of .*slices on 3 tracks/);
    const runs = panel.element.querySelector<HTMLSelectElement>('select[aria-label="Runs"]')!;
    expect(runs.disabled).toBe(true);
    expect(runs.title).toContain('running kernel');
    const none = withProfile(transformer(2));
    const { panel: empty } = await open(none);
    expect(empty.element.querySelector('.jp-MaxLab-panelProblem')?.textContent).toContain('running kernel');
    const broken = withProfile(transformer(2));
    broken.answers = { timeline: { version: 9 } };
    const { panel: bad } = await open(broken);
    expect(bad.element.querySelector('.jp-MaxLab-panelProblem')?.textContent).toContain('version 9');
  });

  it('goes from slice to slice by keys, and selects in the graph', async () => {
    const { view, panel, press } = await open(saved());
    press('ArrowRight');
    const first = panel.focus!;
    press('Home');
    press('ArrowRight');
    press('ArrowRight');
    const slice = panel.focus!;
    expect(slice).not.toBe(first);
    expect(view.selection).toEqual([]);
    press('Enter');
    const kernel = panel.data!.kernelOf(slice)!;
    const drawn = panel.data!.nodesOf(kernel);
    expect(view.selection).toEqual(drawn);
    press('ArrowDown');
    const { timeline } = panel.data!;
    expect(timeline.tracks[timeline.track[panel.focus!]!]?.name).toBe('thread 1');
    const { span } = panel.window;
    press('+');
    expect(panel.window.span).toBeLessThan(span);
    const { from } = panel.window;
    press('d');
    expect(panel.window.from).toBeGreaterThan(from);
    expect(view.dock.isOpen).toBe(true);
    press('f');
    expect(panel.window.isWhole).toBe(true);
    press('Escape');
    expect(panel.focus).toBeNull();
    expect(view.selection).toEqual(drawn);
    press('Escape');
    expect(view.selection).toEqual([]);
  });

  it('brings the slices of a selection made in the graph into its window', async () => {
    const { view, panel } = await open(saved());
    const last = panel.data!.timeline.kernels.length - 1;
    panel.window.show(0, 200_000);
    view.select(panel.data!.nodesOf(panel.data!.timeline.kernels[last]!));
    const slice = panel.data!.timeline.kernel.indexOf(last);
    expect(panel.window.from).toBeLessThan(panel.data!.end(slice));
    expect(panel.window.to).toBeGreaterThan(panel.data!.start(slice));
    expect(panel.window.span).toBeCloseTo(200_000, 0);
  });

  it('measures with the keyboard, and searches', async () => {
    const { panel, press } = await open(saved());
    press('Home');
    press('Home');
    press('m');
    press('ArrowRight');
    press('ArrowRight');
    press('m');
    const status = panel.element.querySelector('.jp-MaxLab-panelStatus')!;
    expect(status.textContent).toMatch(/ · 6 slices · \d+% busy$/);
    const search = panel.element.querySelector<HTMLInputElement>('input[type="search"]')!;
    search.value = 'softmax';
    search.dispatchEvent(new Event('input'));
    expect(panel.element.querySelector('.jp-MaxLab-searchCount')?.textContent).toBe('4 slices');
    search.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
    expect(panel.data!.label(panel.focus!)).toContain('softmax');
  });

  it('lists its keys, and takes the keyboard back', async () => {
    const { panel, stage, press } = await open(saved());
    press('?');
    const card = panel.element.querySelector('[role="dialog"]')!;
    expect(card.textContent).toContain('measure');
    expect(card.contains(document.activeElement)).toBe(true);
    const { from } = panel.window;
    card.dispatchEvent(new KeyboardEvent('keydown', { key: 'd', bubbles: true }));
    expect(panel.window.from).toBe(from);
    card.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
    expect(panel.element.querySelector('[role="dialog"]')).toBeNull();
    expect(document.activeElement).toBe(stage);
  });

  it('is a table as well, whose rows select', async () => {
    const { view, panel } = await open(saved());
    const button = [...panel.element.querySelectorAll('button')].find(b => b.textContent === 'Table')!;
    button.click();
    const rows = [...panel.element.querySelectorAll('tbody tr')];
    const totals = panel.data!.totals(200);
    expect(rows).toHaveLength(totals.length);
    const index = totals.findIndex(total => total.kernel !== null);
    rows[index]!.querySelector('button')!.click();
    expect(view.selection).toEqual(panel.data!.nodesOf(totals[index]!.kernel!));
    expect(rows.filter(row => row.classList.contains('jp-mod-selected'))).toEqual([rows[index]]);
    button.click();
    expect(panel.element.querySelector('table')).toBeNull();
    button.click();
    expect(panel.element.querySelectorAll('tr.jp-mod-selected')).toHaveLength(1);
  });

  it('copies its table as CSV, not rounded', async () => {
    const { panel } = await open(saved());
    [...panel.element.querySelectorAll('button')].find(b => b.textContent === 'Table')!.click();
    const [heads, ...lines] = copiedFrom(panel.element.querySelector('.jp-MaxLab-tableRoom table')!);
    expect(heads).toBe('what,kernel,times,total [ns],share of kernels,longest [ns]');
    const totals = panel.data!.totals();
    expect(lines).toHaveLength(totals.length);
    const first = totals.findIndex(total => total.kernel !== null);
    const { kernel, count, ns, longestNs } = totals[first]!;
    const fields = lines[first]!.split(',').slice(-5);
    expect(fields).toEqual([kernel, count, ns, ns / panel.data!.kernelNs, longestNs].map(String));
  });

  it('asks a live kernel for all runs and events', async () => {
    const doc = saved();
    const view = new GraphView(document.body, { noProfile: null, canAsk: true });
    mounted.push(view);
    const asked: { id: number; what: string; args: unknown }[] = [];
    view.events.on('asked', question => asked.push(question));
    view.setDocument(doc);
    await view.layoutDone();
    view.showDock('timeline');
    expect(asked.map(a => [a.what, a.args])).toEqual([['timeline', {}]]);
    const panel = view.dock.panel('timeline') as TimelinePanel;
    view.setAnswer(asked[0]!.id, true, doc.answers!.timeline, '', []);
    await new Promise(done => setTimeout(done, 0));
    const before = panel.data!.timeline.n;
    const events = panel.element.querySelector<HTMLInputElement>('input[type="checkbox"]')!;
    events.checked = true;
    events.dispatchEvent(new Event('change'));
    expect(asked[1]!.args).toEqual({ runs: 'one', events: true });
    const more = timelineOf(doc, 2);
    addEvents(more);
    view.setAnswer(asked[1]!.id, true, more, '', []);
    await new Promise(done => setTimeout(done, 0));
    expect(panel.data!.timeline.n).toBe(before + 9);
    // An answer to a question that was overtaken is not shown.
    events.checked = false;
    events.dispatchEvent(new Event('change'));
    events.checked = true;
    events.dispatchEvent(new Event('change'));
    view.setAnswer(asked[3]!.id, true, more, '', []);
    view.setAnswer(asked[2]!.id, true, doc.answers!.timeline, '', []);
    await new Promise(done => setTimeout(done, 0));
    expect(panel.data!.timeline.n).toBe(before + 9);
    // What cannot be had leaves what is shown, and the controls say what that is.
    const runs = panel.element.querySelector<HTMLSelectElement>('select[aria-label="Runs"]')!;
    runs.value = 'all';
    runs.dispatchEvent(new Event('change'));
    expect(asked[4]!.args).toEqual({ runs: 'all', events: true });
    view.setAnswer(asked[4]!.id, false, null, 'the kernel is busy', []);
    await new Promise(done => setTimeout(done, 0));
    expect(panel.data!.timeline.n).toBe(before + 9);
    expect([runs.value, events.checked]).toEqual(['one', true]);
    const status = panel.element.querySelector('.jp-MaxLab-panelStatus');
    expect(status?.textContent).toBe('the kernel is busy');
  });

  it('does not ask while nobody looks, and catches up', async () => {
    const { view, panel } = await open(saved());
    const { data } = panel;
    view.dock.close();
    const doc = saved();
    doc.answers = { timeline: timelineOf(doc, 4) };
    view.setDocument(doc);
    await view.layoutDone();
    expect(panel.data).toBe(data);
    view.dock.open('timeline');
    await new Promise(done => setTimeout(done, 0));
    expect(panel.data?.timeline.tracks).toHaveLength(5);
  });
});
