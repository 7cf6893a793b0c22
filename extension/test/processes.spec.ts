// @vitest-environment jsdom

import { beforeEach, describe, expect, it, vi } from 'vitest';

import { DashboardData } from '../src/core/dashboard/data';
import { ProcessCard, processRows } from '../src/core/dashboard/processes';
import { cellOf } from '../src/core/dashboard/revealing';
import type { IFrame, IMark } from '../src/core/dashboard/wire';
import { hintOf, wordsOf } from '../src/lab/status-words';

const STATE = {
  running: true,
  replay: false,
  title: '',
  label: '',
  period: 1,
  names: {},
  ended: '',
  epoch: 0,
  now: 10,
  recorded: true
};

function frame(more: Partial<IFrame>): IFrame {
  return {
    type: 'frame',
    protocol: 2,
    count: 0,
    width: 0,
    reset: true,
    cursor: 'g:0',
    continues: null,
    columns: [],
    breaks: [],
    marks: [],
    problems: {},
    processes: [],
    users: [],
    state: STATE,
    thin: false,
    times: new Float64Array(0),
    values: new Float32Array(0),
    ...more
  };
}

const USERS: IFrame['users'] = [
  {
    time: 0,
    rows: [
      [10, 5, 12, 3 << 20, 0, 'python'],
      [5, 5, 1, 1 << 20, 0, 'ipykernel'],
      [2, 1, 0, 2 << 20, 0, 'jupyter'],
      [99, 0, null, 9 << 20, 0, 'browser']
    ],
    kernels: { 5: ['0a1b2c3d-11', 'book.ipynb'] }
  },
  { time: 10, rows: [[5, 5, 50, 1 << 20, 0, 'ipykernel']], kernels: { 5: ['0a1b2c3d-11', ''] } }
];

let data: DashboardData;

beforeEach(() => {
  data = new DashboardData();
  data.apply(frame({ users: USERS }));
});

const none = new Set<string>();

describe('processes', () => {
  it('belong to notebooks, to the session, or to nobody', () => {
    const whose = processRows(data, 5, none).map(row => row.whose);
    expect(whose).toEqual(['book.ipynb', 'book.ipynb', 'this session', '']);
    expect(processRows(data, 11, none).map(row => row.whose)).toEqual(['kernel 0a1b2c3d']);
  });

  it('hold memory of GPUs, those that cannot be seen from here too', () => {
    data.apply(
      frame({
        users: USERS,
        processes: [{ time: 0, held: { nv0: [[10, 'python', 1024]], nv1: [[10, '', 2048], [77, '', 512]] } }]
      })
    );
    const rows = processRows(data, 5, none);
    const shared = rows.find(row => row.pid === 10);
    expect(shared).toMatchObject({ gpu: 3072, gpuWords: 'nv0 1.00 KiB, nv1 2.00 KiB', cpu: 12 });
    expect(rows.find(row => row.pid === 77)).toMatchObject({ cpu: null, memory: null });
    expect(rows.find(row => row.pid === 77)?.name).toContain('another user');
    expect(processRows(data, 5, new Set(['nv0'])).find(row => row.pid === 10)?.gpu).toBe(2048);
  });

  it('are sorted by what is asked for, and stay so', () => {
    const open = vi.fn();
    const card = new ProcessCard(open);
    const pids = (): string[] =>
      [...card.element.querySelectorAll('tbody tr')].map(row => row.children[1]?.textContent ?? '');
    const head = (title: string): HTMLButtonElement | undefined =>
      [...card.element.querySelectorAll<HTMLButtonElement>('th button')].find(
        node => node.textContent === title
      );
    card.show(data, 5, none);
    // The session first, the largest of it on top.
    expect(pids()).toEqual(['10', '2', '5', '99']);
    head('CPU')?.click();
    expect(pids()).toEqual(['10', '5', '2', '99']);
    head('CPU')?.click();
    expect(pids()).toEqual(['99', '2', '5', '10']);
    head('process')?.click();
    expect(pids()).toEqual(['99', '5', '2', '10']);
    const link = card.element.querySelector<HTMLButtonElement>('tr[data-pid="5"] button');
    link?.click();
    expect(open).toHaveBeenCalledWith('0a1b2c3d-11');
    card.show(data, 11, none);
    expect(pids()).toEqual(['5']);
    expect(card.element.querySelector('th[aria-sort="ascending"]')?.textContent).toBe('process');
    expect(card.element.classList.contains('jp-mod-noGpu')).toBe(true);
  });
});

describe('marks', () => {
  const mark = (kind: string, start: number, took: number | null, pid = 1, cell = ''): IMark => ({
    id: '',
    kind,
    start,
    took,
    name: '',
    count: 1,
    pid,
    cell,
    line: ''
  });

  it('belong to the cell in which they happened', () => {
    const cells = [mark('cell', 0, 5, 1, 'a'), mark('cell', 6, null, 1, 'b'), mark('cell', 0, 9, 2, 'c')];
    expect(cellOf(cells, mark('op', 3, 1))?.cell).toBe('a');
    expect(cellOf(cells, mark('op', 8, 1))?.cell).toBe('b');
    expect(cellOf(cells, mark('op', 8, 1, 2))?.cell).toBe('c');
    expect(cellOf(cells, mark('op', 5.5, 0.1))).toBeNull();
    expect(cellOf([], mark('cell', 0, 1))).toBeNull();
  });
});

describe('the status bar', () => {
  const now = { cpu: 12.4, memory: 3 << 30, memory_total: 16 * 2 ** 30, gpus: [], recording: false };

  it('says CPU and memory, and GPUs where there are some', () => {
    const host = { ...now, memory: 3 * 2 ** 30 };
    expect(wordsOf(host)).toBe('CPU 12 % · memory 3.00 GiB of 16.0 GiB');
    expect(wordsOf({ ...host, cpu: null })).toContain('CPU –');
    const gpus = [
      { id: 'nv0', percent: 40, used: 1024, total: 4096 },
      { id: 'nv1', percent: 60, used: 0, total: 4096 }
    ];
    expect(wordsOf({ ...host, gpus })).toContain(' · GPUs 50 %');
    expect(hintOf({ ...host, gpus, recording: true }, 'Click.').split('\n')).toEqual([
      'nv0: 40 %, 1.00 KiB of 4.00 KiB',
      'nv1: 60 %, 0 B of 4.00 KiB',
      'A monitor records.',
      'Click.'
    ]);
  });
});
