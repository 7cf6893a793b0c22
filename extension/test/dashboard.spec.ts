// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { DashboardData, placeAt } from '../src/core/dashboard/data';
import { toCsv } from '../src/core/dashboard/export';
import {
  formatClock,
  formatElapsed,
  formatSpan,
  formatTick,
  formatValue,
  niceTop
} from '../src/core/dashboard/format';
import { groupsOf } from '../src/core/dashboard/groups';
import { marksNear, startsOfNext } from '../src/core/dashboard/lanes';
import { TimeRange } from '../src/core/dashboard/range';
import { stepsOf } from '../src/core/dashboard/steps';
import { type IFrame, readFrame } from '../src/core/dashboard/wire';
import { ReplyError } from '../src/core/reply';
import { Dashboard } from '../src/core';
import { reasonIn } from '../src/lab/dashboard-server';
import { renderDashboard } from '../src/widget/dashboard';
import type { IMetricColumn, IMonitorState } from '../src/proto/dashboard';
import { PROTOCOL } from '../src/proto/messages';
import { StubContext } from './canvas';

const HOST: IMetricColumn[] = [
  {
    key: 'cpu',
    device: 'host',
    quantity: 'cpu',
    unit: '%',
    label: 'all cores',
    top: 100,
    average: true,
    window_ns: null
  },
  {
    key: 'mem',
    device: 'host',
    quantity: 'host_memory',
    unit: 'B',
    label: 'whole machine',
    top: 1e9,
    average: false,
    window_ns: null
  }
];
const GPUS: IMetricColumn[] = ['nv0', 'nv1'].map(device => ({
  key: `${device}.util`,
  device,
  quantity: 'utilization',
  unit: '%',
  label: 'compute',
  top: 100,
  average: true,
  window_ns: 166e6
}));

const STATE: IMonitorState = {
  running: true,
  replay: false,
  title: '',
  label: '',
  recorded: true,
  period: 1,
  now: 10,
  names: {},
  ended: '',
  epoch: 0
};

/** What a server answers: 4 bytes with the length of the JSON part, that part, the buffer. */
function reply(content: unknown, bytes: Uint8Array): ArrayBuffer {
  const json = new TextEncoder().encode(JSON.stringify(content));
  const whole = new Uint8Array(4 + json.length + bytes.length);
  new DataView(whole.buffer).setUint32(0, json.length);
  whole.set(json, 4);
  whole.set(bytes, 4 + json.length);
  return whole.buffer;
}

function packed(times: number[], rows: number[][]): Uint8Array {
  const width = rows[0]?.length ?? 0;
  const bytes = new Uint8Array(times.length * 8 + times.length * width * 4);
  bytes.set(new Uint8Array(new Float64Array(times).buffer));
  bytes.set(new Uint8Array(new Float32Array(rows.flat()).buffer), times.length * 8);
  return bytes;
}

function body(count: number, width: number, more: object = {}): Record<string, unknown> {
  return {
    type: 'frame',
    protocol: PROTOCOL,
    reset: true,
    cursor: 'g:1:0',
    continues: null,
    columns: HOST,
    count,
    width,
    breaks: [],
    marks: [],
    problems: {},
    processes: [],
    users: [],
    state: STATE,
    thin: false,
    ...more
  };
}

function frame(times: number[], rows: number[][], more: object = {}): IFrame {
  return readFrame(reply(body(times.length, rows[0]?.length ?? 0, more), packed(times, rows)));
}

describe('wire', () => {
  it('reads times and rows, wherever the bytes begin', () => {
    const bytes = packed([0, 1.5], [[1, 2], [NaN, 4]]);
    const shifted = new Uint8Array(bytes.length + 3);
    shifted.set(bytes, 3);
    const read = readFrame(reply(body(2, 2), shifted.subarray(3)));
    expect([...read.times]).toEqual([0, 1.5]);
    expect([...read.values]).toEqual([1, 2, NaN, 4]);
    expect(read.columns?.[0]).toMatchObject({ key: 'cpu', top: 100, average: true, window: null });
  });

  it('refuses what is not a frame, is of another version, or is cut off', () => {
    const bytes = packed([0], [[1, 2]]);
    const read = (content: unknown, buffer = bytes): IFrame => readFrame(reply(content, buffer));
    expect(() => read({ type: 'graph' })).toThrow('type: expected "frame"');
    expect(() => read(null)).toThrow('expected an object, got null');
    expect(() => read(body(1, 2, { protocol: PROTOCOL + 1 }))).toThrow(/Reload the page/);
    expect(() => read(body(1, 2, { state: 3 }))).toThrow('state: expected an object, got 3');
    expect(() => read(body(1, 2, { marks: [['a', 0, 'long']] }))).toThrow('marks[0]: expected a list of 9');
    expect(() => read(body(1, 2), bytes.subarray(1))).toThrow(/expected 1 samples of 2/);
    expect(() => readFrame(new ArrayBuffer(2))).toThrow(ReplyError);
  });

  it('finds the reason in an error of the server', () => {
    expect(reasonIn('{"message": "Bad", "reason": "period_s must be"}')).toBe('period_s must be');
    expect(reasonIn('{"message": "Bad", "reason": ""}')).toBe('Bad');
    expect(reasonIn('<html>')).toBe('');
  });
});

describe('data', () => {
  it('appends, parts runs by an empty row, and turns NaN into null', () => {
    const data = new DashboardData();
    expect(data.apply(frame([0, 1], [[1, 10], [2, NaN]], { breaks: [0] }))).toBe(true);
    const next = { reset: false, continues: 'g:1:0', cursor: 'g:2:0', columns: undefined, breaks: [5] };
    expect(data.apply(frame([5, 6], [[3, 30], [4, 40]], next))).toBe(true);
    expect(data.times).toEqual([0, 1, 1.001, 5, 6]);
    expect(data.column(0)).toEqual([1, 2, null, 3, 4]);
    expect(data.column(1)).toEqual([10, null, null, 30, 40]);
    expect(data.cursor).toBe('g:2:0');
  });

  it('takes nothing that does not continue what it has', () => {
    const data = new DashboardData();
    data.apply(frame([0], [[1, 2]]));
    expect(data.apply(frame([9], [[1, 2]], { reset: false, continues: 'other:0:0' }))).toBe(false);
    expect(data.times).toEqual([0]);
  });

  it('begins anew with a frame that says so', () => {
    const data = new DashboardData();
    data.apply(frame([0], [[1, 2]]));
    const { shape } = data;
    data.apply(frame([3], [[1]], { columns: [HOST[0]] }));
    expect(data.times).toEqual([3]);
    expect(data.shape).toBe(shape + 1);
  });

  it('shows a closer look where samples were left out', () => {
    const data = new DashboardData();
    data.apply(frame([0, 50, 100], [[1, 1], [2, 2], [3, 3]], { thin: true }));
    expect(data.needsDetail(10, 20)).toBe(true);
    data.setDetail({
      type: 'detail',
      protocol: PROTOCOL,
      generation: 'g',
      count: 4,
      width: 2,
      start: 5,
      end: 30,
      times: new Float64Array([5, 10, 20, 30]),
      values: new Float32Array([1, 1, 2, 2, 3, 3, 4, 4])
    });
    expect(data.needsDetail(10, 20)).toBe(false);
    expect(data.view(10, 20).times).toEqual([5, 10, 20, 30]);
    expect(data.view(0, 100).times).toEqual([0, 50, 100]);
    expect(data.needsDetail(40, 60)).toBe(true);
  });

  it('knows who held memory of a GPU at any time', () => {
    const data = new DashboardData();
    const tables = [[0, { nv0: [[7, 'a', 10]] }], [2, { nv0: [[7, 'a', 30], [8, 'b', 5]] }]];
    data.apply(frame([0, 1], [[1, 2], [1, 2]], { processes: tables.slice(0, 1) }));
    const next = { reset: false, continues: 'g:1:0', columns: undefined, processes: tables.slice(1) };
    data.apply(frame([2, 3], [[1, 2], [1, 2]], next));
    expect(data.processesAt(1.9)).toEqual({ nv0: [[7, 'a', 10]] });
    expect(data.processesAt(2)['nv0']).toHaveLength(2);
    expect(new DashboardData().processesAt(1)).toEqual({});
  });

  it('finds places by time', () => {
    expect([-1, 0, 0.5, 1, 9].map(time => placeAt([0, 1, 2], time))).toEqual([-1, 0, 0, 1, 2]);
    expect(placeAt([], 1)).toBe(-1);
  });
});

describe('groups', () => {
  it('makes a chart for each quantity that has values, with a colour for each GPU', () => {
    const data = new DashboardData();
    data.apply(frame([0], [[5, 6, 7, 8]], { columns: [...HOST, ...GPUS] }));
    const groups = groupsOf(data, new Set());
    expect(groups.map(group => group.title)).toEqual(['GPU utilisation', 'CPU', 'Host memory']);
    expect(groups[0]?.series.map(one => [one.label, one.color])).toEqual([['nv0', 0], ['nv1', 1]]);
    expect(groups[0]?.note).toContain('166 ms');
    expect(groups[1]?.note).toContain('since the sample before');
    const [left] = groupsOf(data, new Set(['nv0']));
    expect(left?.series.map(one => [one.label, one.color])).toEqual([['nv1', 1]]);
  });

  it('leaves out counters that nothing reports', () => {
    const data = new DashboardData();
    data.apply(frame([0, 1], [[5, NaN], [6, NaN]]));
    expect(groupsOf(data, new Set()).map(group => group.title)).toEqual(['CPU']);
  });
});

describe('steps of means', () => {
  const times = [0, 1, 2, 3];

  it('are as wide as their window, and no wider than from sample to sample', () => {
    const steps = stepsOf(times, [1, 2, 3, 4], 0, 3, 0.25, 0);
    expect(steps.map(step => [step.start, step.end])).toEqual([
      [-0.25, 0],
      [0.75, 1],
      [1.75, 2],
      [2.75, 3]
    ]);
    expect(steps.every(step => !step.isJoined)).toBe(true);
    const wide = stepsOf(times, [1, 2, 3, 4], 0, 3, 60, 0);
    expect(wide.slice(1).map(step => step.start)).toEqual([0, 1, 2]);
    expect(wide.slice(1).every(step => step.isJoined)).toBe(true);
  });

  it('reach back to the sample before when the window says so, and the first reaches nowhere', () => {
    const steps = stepsOf(times, [1, 2, null, 4], 0, 3, null, 0);
    expect(steps.map(step => [step.start, step.end, step.value])).toEqual([
      [0, 1, 2],
      [2, 3, 4]
    ]);
    expect(steps[1]?.isJoined).toBe(false);
  });

  it('are drawn joined where they are too close to tell apart', () => {
    const steps = stepsOf(times, [1, 2, 3, 4], 0, 3, 0.25, 2);
    expect(steps.slice(1).every(step => step.isJoined)).toBe(true);
  });
});

describe('lanes', () => {
  const mark = (kind: string, start: number) =>
    ({ id: '', kind, start, took: 1, name: '', count: 1, pid: 1, cell: '', line: '' });

  it('know when the next mark of a lane begins', () => {
    const marks = [mark('cell', 0), mark('run', 1), mark('cell', 2), mark('run', 3)];
    expect(startsOfNext(marks).slice(0, 2)).toEqual([2, 3]);
    expect(startsOfNext(marks)[2]).toBeGreaterThan(1e9);
  });

  it('read what went on, and what is near only where nothing of its lane did', () => {
    const marks = [mark('cell', 0), mark('run', 0), mark('cell', 1.1), mark('run', 3)];
    const read = (time: number, end = 9): [string, number][] =>
      marksNear(marks, time, 0.2, end).map(({ kind, start }) => [kind, start]);
    expect(read(0.95)).toEqual([['cell', 0], ['run', 0]]);
    expect(read(1.05)).toEqual([['cell', 0], ['run', 0], ['cell', 1.1]]);
    expect(read(1.15)).toEqual([['run', 0], ['cell', 1.1]]);
    expect(read(2.5)).toEqual([]);
    expect(marksNear([{ ...mark('cell', 0), took: null }], 7, 0, 6)).toEqual([]);
    expect(marksNear([{ ...mark('cell', 0), took: null }], 7, 0, 8)).toHaveLength(1);
  });
});

describe('range', () => {
  it('follows the newest, holds still, zooms about a place, and stays inside', () => {
    const range = new TimeRange();
    range.span = 60;
    expect(range.shown(0, 600)).toEqual({ start: 540, end: 600 });
    expect(range.shown(0, 2)).toEqual({ start: -3, end: 2 });
    expect(range.shown(0, 20)).toEqual({ start: 0, end: 20 });
    range.zoom(0.5, 570, 0, 600);
    expect(range.isFollowing).toBe(false);
    expect(range.shown(0, 900)).toEqual({ start: 555, end: 585 });
    range.pan(-100, 0, 900);
    expect(range.shown(0, 900)).toEqual({ start: 0, end: 30 });
    range.pan(1000, 0, 900);
    expect(range.shown(0, 900)).toEqual({ start: 870, end: 900 });
    range.zoom(1000, 10, 0, 900);
    expect(range.shown(0, 900)).toEqual({ start: 0, end: 900 });
    range.follow(null);
    expect(range.shown(0, 900)).toEqual({ start: 0, end: 900 });
    range.pause(range.shown(0, 900));
    expect(range.shown(0, 2000)).toEqual({ start: 0, end: 900 });
    expect(range.isZoomed).toBe(false);
  });
});

describe('numbers', () => {
  it('are written with their units', () => {
    expect(formatValue(87, '%')).toBe('87 %');
    expect(formatValue(0.44, '%')).toBe('0.4 %');
    expect(formatValue(141 * 2 ** 30, 'B')).toBe('141 GiB');
    expect(formatValue(1023.9 * 2 ** 20, 'B')).toBe('1.00 GiB');
    expect(formatValue(512, 'B')).toBe('512 B');
    expect(formatValue(1.98e9, 'Hz')).toBe('1.98 GHz');
    expect(formatValue(612.3, 'W')).toBe('612 W');
    expect(formatValue(61, '°C')).toBe('61 °C');
    expect(formatValue(null, 'W')).toBe('–');
    expect(formatTick(2 * 2 ** 30, 'B')).toBe('2 GiB');
    expect(formatTick(2.5e9, 'Hz')).toBe('2.5 GHz');
    expect(formatElapsed(65)).toBe('1:05');
    expect(formatElapsed(3725)).toBe('1:02:05');
    expect(formatElapsed(1.25, 0.01)).toBe('0:01.25');
    expect(formatElapsed(-3)).toBe('−0:03');
    const noon = new Date(2026, 0, 1, 12, 0, 0).getTime();
    expect(formatClock(61, noon)).toBe('12:01:01');
    expect([0.0004, 0.02, 1.25, 185].map(formatSpan)).toEqual(['400 µs', '20 ms', '1.3 s', '3 min 5 s']);
  });

  it('have axes that hold them', () => {
    for (const unit of ['B', 'W', 'Hz']) {
      for (const value of [1e-3, 0.9, 7, 99, 101, 1023, 1025, 7e8, 3.2e9]) {
        const top = niceTop(value, unit);
        expect(top).toBeGreaterThanOrEqual(value);
        expect(top).toBeLessThan(value * 1.6);
      }
    }
    expect(niceTop(0, 'B')).toBe(1);
  });
});

describe('the table', () => {
  it('holds the samples of the stretch that is shown, and no empty rows', () => {
    const data = new DashboardData();
    data.apply(frame([0, 1], [[1, 10], [2, NaN]]));
    data.apply(
      frame([5], [[3, 30]], { reset: false, continues: 'g:1:0', columns: undefined, breaks: [5] })
    );
    expect(toCsv(data, { start: 0.5, end: 9 }).trim().split('\n')).toEqual([
      'time [s],cpu [%],mem [B]',
      '1.000000,2,',
      '5.000000,3,30'
    ]);
  });
});

describe('the view', () => {
  beforeEach(() => {
    HTMLCanvasElement.prototype.getContext = (() => new StubContext()) as never;
    document.body.replaceChildren();
  });

  it('says that nothing is recorded, and asks to start', () => {
    const dashboard = new Dashboard(document.body);
    const started = vi.fn();
    dashboard.events.on('startRequested', started);
    expect(dashboard.element.textContent).toContain('Nothing is recorded yet');
    const start = dashboard.element.querySelector('[aria-label="Start recording"]') as HTMLElement;
    start.click();
    expect(started).toHaveBeenCalledWith(1);
    expect(start.getAttribute('aria-disabled')).toBe('true');
    dashboard.fail('it cannot');
    expect(dashboard.element.textContent).toContain('it cannot');
    expect(start.getAttribute('aria-disabled')).toBe('false');
    dashboard.dispose();
    expect(document.body.childElementCount).toBe(0);
  });

  it('shows cards with readings, a label, and why there is no GPU', () => {
    const dashboard = new Dashboard(document.body);
    dashboard.apply(
      frame([0, 1], [[10, 5e8], [20, 6e8]], {
        problems: { gpu: 'no GPU was found. NVIDIA: none.' },
        state: { ...STATE, running: false, replay: true, label: 'simulated', title: 'a.mlrec' }
      })
    );
    const text = dashboard.element.textContent ?? '';
    expect(text).toContain('simulated');
    expect(text).toContain('No GPU: NVIDIA: none.');
    expect(dashboard.cards.map(card => card.words)).toEqual([
      'all cores 20 %',
      'whole machine 572 MiB of 954 MiB'
    ]);
    dashboard.hover(0.1);
    expect(dashboard.cards[0]?.words).toBe('all cores 10 %');
    const plots = [...dashboard.element.querySelectorAll('[role=img]')];
    expect(plots.every(plot => (plot.getAttribute('aria-label') ?? '').length > 20)).toBe(true);
    dashboard.dispose();
  });

  it('is driven by keys', () => {
    const dashboard = new Dashboard(document.body);
    dashboard.apply(frame([0, 1, 2, 3], [[1, 1], [2, 1], [3, 1], [4, 1]]));
    const press = (key: string, more: KeyboardEventInit = {}): void => {
      dashboard.element.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, ...more }));
    };
    press(' ');
    expect(dashboard.range.isFollowing).toBe(false);
    press(' ');
    expect(dashboard.range.isFollowing).toBe(true);
    press('ArrowLeft');
    expect(dashboard.cards[0]?.words).toBe('all cores 4 %');
    press('ArrowLeft');
    expect(dashboard.cards[0]?.words).toBe('all cores 3 %');
    expect(dashboard.element.querySelector('[aria-live=polite]')?.textContent).toContain('CPU: all cores 3 %');
    press('+');
    expect(dashboard.range.isZoomed).toBe(true);
    press('0');
    expect(dashboard.range.isFollowing).toBe(true);
    dashboard.dispose();
  });

  it('asks anew when it has missed something', () => {
    const dashboard = new Dashboard(document.body);
    const restart = vi.fn();
    dashboard.events.on('restartRequested', restart);
    dashboard.apply(frame([0], [[1, 1]]));
    dashboard.apply(frame([9], [[1, 1]], { reset: false, continues: 'gone:1:1' }));
    expect(restart).toHaveBeenCalledOnce();
    dashboard.dispose();
  });
});

describe('the widget', () => {
  it('watches, asks, and shows what comes', () => {
    const sent: unknown[] = [];
    const heard = new Map<string, (...args: never[]) => void>();
    const traits: Record<string, unknown> = { kind: 'dashboard', height: 0, theme: 'light', not_live: '' };
    const model = {
      get: (name: string) => traits[name],
      on: (event: string, call: (...args: never[]) => void) => heard.set(event, call),
      off: (event: string) => heard.delete(event),
      send: (content: unknown) => sent.push(content)
    };
    const el = document.createElement('div');
    document.body.append(el);
    const gone = renderDashboard({ model: model as never, el });
    expect(sent).toEqual([{ type: 'watch', protocol: PROTOCOL, cursor: '' }]);
    const receive = heard.get('msg:custom') as unknown as (message: object, buffers: ArrayBuffer[]) => void;
    receive(body(1, 2), [packed([0], [[10, 20]]).buffer]);
    expect(el.textContent).toContain('Diagnostics');
    expect(el.querySelector('[data-quantity=cpu]')?.textContent).toContain('10 %');
    (el.querySelector('[aria-label="Stop recording"]') as HTMLElement).click();
    expect(sent[sent.length - 1]).toEqual({ type: 'stop', protocol: PROTOCOL });
    receive({ type: 'failed', protocol: PROTOCOL, request: 'start', fault: { code: '', message: 'no room', why: [], fix: '', where: '' } }, []);
    expect(el.textContent).toContain('no room');
    receive({ type: 'failed', protocol: 9, message: 'no' }, []);
    expect(el.textContent).toContain('it speaks version 9 of the protocol');
    receive({ type: 'frame', protocol: PROTOCOL }, []);
    expect(el.textContent).toContain('count: it is missing');
    receive(body(1, 2), [new ArrayBuffer(3)]);
    expect(el.textContent).toContain('expected 1 samples');
    gone();
    expect(heard.size).toBe(0);
    expect(el.childElementCount).toBe(0);
  });
});
