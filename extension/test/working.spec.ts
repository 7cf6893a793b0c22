// @vitest-environment jsdom
/** The rows that say what the kernel does for a view. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { workText, Working, type Told } from '../src/core/view/working';

const TOLD: Told = {
  id: 7,
  title: 'sweep small',
  phase: 'sweeping',
  done: 12,
  total: 58,
  what: 'n 8',
  elapsed_s: 3.25,
  status: 'running'
};

describe('rows of work', () => {
  let cancelled: number[] = [];
  let working: Working;
  const texts = (): string[] =>
    [...working.element.querySelectorAll('.jp-MaxLab-workingText')].map(each => each.textContent ?? '');
  const press = (): void => working.element.querySelector('button')?.click();

  beforeEach(() => {
    vi.useFakeTimers();
    cancelled = [];
    working = new Working(id => cancelled.push(id));
  });

  afterEach(() => {
    working.dispose();
    vi.useRealTimers();
  });

  it('say phase, how far it is, and what now', () => {
    expect(workText(TOLD)).toBe('sweeping 12 of 58 · n 8');
    expect(workText({ ...TOLD, total: 0, what: '' })).toBe('sweeping');
    expect(workText({ ...TOLD, phase: '', total: 0, what: '' })).toBe('sweep small');
    working.told(TOLD);
    expect(texts()).toEqual(['sweeping 12 of 58 · n 8']);
    expect(working.element.querySelector('.jp-MaxLab-workingTime')?.textContent).toBe('3.3 s');
    working.told({ ...TOLD, status: 'over' });
    expect(texts()).toEqual([]);
  });

  it('ask for an end, and say that the wish was heard', () => {
    working.told(TOLD);
    press();
    expect(cancelled).toEqual([7]);
    expect(texts()).toEqual(['Cancelling…']);
    working.told({ ...TOLD, status: 'cancelling' });
    vi.advanceTimersByTime(5000);
    expect(texts()).toEqual(['Cancelling…']);
  });

  it('say that a wish is queued which nobody heard', () => {
    working.told(TOLD);
    press();
    vi.advanceTimersByTime(1000);
    expect(texts()).toEqual(['Cancel is queued: the kernel does something else first']);
    working.told({ ...TOLD, status: 'cancelling' });
    expect(texts()).toEqual(['Cancelling…']);
  });

  it('say that a profile waits for the kernel, and is being drawn', () => {
    working.profile('running');
    expect(texts()).toEqual([]);
    vi.advanceTimersByTime(400);
    expect(texts()).toEqual(['Profile · waiting for the kernel']);
    working.told({ ...TOLD, id: 0, phase: 'running' });
    expect(texts()).toEqual(['running 12 of 58 · n 8']);
    working.told({ ...TOLD, id: 0, status: 'over' });
    expect(texts()).toEqual(['drawing']);
    working.profile('done');
    expect(texts()).toEqual([]);
  });
});
