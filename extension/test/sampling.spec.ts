// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { ISamplingTraits, SamplingClientMessage } from '../src/proto/sampling';
import { isSampling, renderSampling, type ISamplingModel } from '../src/widget/sampling';

const control = (name: 'top_k' | 'top_p', label: string, most: number, step: number) => ({
  name,
  label,
  help: `what ${label} does`,
  least: name === 'top_k' ? -1 : 0,
  most,
  step,
  limit: name === 'top_k' ? 255 : 1
});

const TRAITS: ISamplingTraits = {
  kind: 'sampling',
  controls: [control('top_k', 'top-k', 100, 1), control('top_p', 'top-p', 1, 0.01)],
  temperature: 1,
  top_k: -1,
  top_p: 0.9,
  min_p: 0,
  repetition_penalty: 1,
  frequency_penalty: 0,
  presence_penalty: 0,
  seed: '18446744073709551615',
  label: 'The token at place 2',
  css: '.mx-rq { color: red; }',
  page: '<section><b>3 of 4 tokens</b></section>',
  problem: '',
  revision: 1
};

/** A model without a kernel: what is set and sent is kept. */
class Model implements ISamplingModel {
  readonly sent: SamplingClientMessage[] = [];
  saved = 0;

  get<K extends keyof ISamplingTraits>(name: K): ISamplingTraits[K] {
    return this._traits[name];
  }
  set<K extends keyof ISamplingTraits>(name: K, value: ISamplingTraits[K]): void {
    this._traits = { ...this._traits, [name]: value };
    this._callbacks.get(`change:${name}`)?.forEach(call => call());
  }
  save_changes(): void {
    this.saved += 1;
  }
  on(event: string, callback: () => void): void {
    this._callbacks.set(event, [...(this._callbacks.get(event) ?? []), callback]);
  }
  off(event: string, callback?: () => void): void {
    this._callbacks.set(event, (this._callbacks.get(event) ?? []).filter(one => one !== callback));
  }
  send(content: SamplingClientMessage): void {
    this.sent.push(content);
  }
  get listeners(): number {
    return [...this._callbacks.values()].flat().length;
  }

  private _traits = { ...TRAITS };
  private readonly _callbacks = new Map<string, (() => void)[]>();
}

describe('the view of sampling', () => {
  let model: Model;
  let el: HTMLElement;
  let end: () => void;

  const input = (label: string): HTMLInputElement => {
    const found = [...el.querySelectorAll('label')].find(one => one.textContent === label);
    const box = found && el.querySelector<HTMLInputElement>(`#${found.htmlFor}`);
    if (!box) {
      throw new Error(`no box is labelled ${label}`);
    }
    return box;
  };
  const slider = (label: string): HTMLInputElement =>
    el.querySelector<HTMLInputElement>(`input[aria-label="${label}, slider"]`)!;
  const problem = (): string => el.querySelector('[role=status]')?.textContent ?? '';
  const type = (box: HTMLInputElement, text: string): void => {
    box.value = text;
    box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
  };

  beforeEach(() => {
    vi.useFakeTimers();
    model = new Model();
    el = document.createElement('div');
    document.body.append(el);
    end = renderSampling({ model, el });
  });
  afterEach(() => {
    el.remove();
    vi.useRealTimers();
  });

  it('knows its models', () => {
    expect(isSampling({ model: { get: () => 'sampling' } })).toBe(true);
    expect(isSampling({ model: { get: () => 'dashboard' } })).toBe(false);
  });

  it('shows what the traits say, and names every control', () => {
    expect(el.textContent).toContain('The token at place 2');
    expect(el.textContent).toContain('3 of 4 tokens');
    expect(input('top-p').value).toBe('0.9');
    expect(slider('top-p').value).toBe('0.9');
    expect(input('seed').value).toBe('18446744073709551615');
    for (const box of el.querySelectorAll('input')) {
      const isNamed = box.hasAttribute('aria-label') || el.querySelector(`label[for="${box.id}"]`);
      expect(isNamed).toBeTruthy();
    }
  });

  it('gives a slider to the trait and to its box', () => {
    const moved = slider('top-k');
    moved.value = '7';
    moved.dispatchEvent(new Event('input'));
    expect(model.get('top_k')).toBe(7);
    expect(model.saved).toBe(1);
    expect(input('top-k').value).toBe('7');
    expect(moved.getAttribute('aria-valuetext')).toBe('7');
  });

  it('gives a typed number to the trait once', () => {
    const box = input('top-p');
    type(box, '0.25');
    box.dispatchEvent(new Event('change'));
    expect(model.get('top_p')).toBe(0.25);
    expect(model.saved).toBe(1);
    type(box, '');
    expect(model.get('top_p')).toBe(0.25);
  });

  it('follows the traits', () => {
    model.set('top_k', 3);
    model.set('page', '<section>2 of 4 tokens</section>');
    model.set('problem', 'no such penalty');
    expect(input('top-k').value).toBe('3');
    expect(el.textContent).toContain('2 of 4 tokens');
    expect(el.textContent).not.toContain('3 of 4 tokens');
    expect(problem()).toBe('no such penalty');
  });

  it('keeps keys of its boxes from the page, but those that lead out', () => {
    const heard: string[] = [];
    const hear = (event: KeyboardEvent): void => void heard.push(event.key);
    document.addEventListener('keydown', hear);
    for (const key of ['ArrowLeft', 'Enter', 'Tab', 'Escape']) {
      input('top-k').dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    }
    document.removeEventListener('keydown', hear);
    expect(heard).toEqual(['Tab', 'Escape']);
  });

  it.each([
    ['18446744073709551616', false],
    ['-1', false],
    ['1.5', false],
    ['', false],
    ['0', true],
    [' 42 ', true]
  ])('takes the seed %j: %j', (text, isTaken) => {
    type(input('seed'), text);
    expect(model.get('seed')).toBe(isTaken ? text.trim() : TRAITS.seed);
    expect(problem() === '').toBe(isTaken);
  });

  it('asks for draws', () => {
    el.querySelectorAll('button').forEach(button => button.click());
    expect(model.sent.map(one => ('count' in one ? one.count : 0))).toEqual([1, 100]);
  });

  it('says when the kernel does not answer, until it does', () => {
    type(input('top-p'), '0.5');
    vi.advanceTimersByTime(3000);
    expect(problem()).toBe('');
    vi.advanceTimersByTime(2000);
    expect(problem()).toContain('does not answer');
    expect(el.textContent).toContain('3 of 4 tokens');
    model.set('revision', 2);
    expect(problem()).toBe('');
  });

  it('runs no script of a page', () => {
    const spy = vi.spyOn(console, 'log').mockImplementation(() => undefined);
    model.set('page', '<script>console.log("ran")</script><section>safe</section>');
    expect(el.textContent).toContain('safe');
    expect(spy).not.toHaveBeenCalled();
    spy.mockRestore();
  });

  it('leaves nothing behind', () => {
    expect(model.listeners).toBeGreaterThan(0);
    end();
    expect(model.listeners).toBe(0);
    expect(el.childElementCount).toBe(0);
  });
});
