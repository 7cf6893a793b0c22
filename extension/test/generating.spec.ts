// @vitest-environment jsdom
/** The tokens of an answer as buttons, and the board of a scheduler, on models that play the kernel. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { TokenButtons } from '../src/core/tokens';
import { renderBoard, type IBoardContext } from '../src/widget/board';
import { renderGeneration, type IGenerationContext } from '../src/widget/generation';

const PAGE = `<style>.x {}</style><div class="mx-rq"><section>
  <div class="mx-rq-tokens" tabindex="0">${[10, 11, 12]
    .map(n => `<span class="mx-rq-token" data-token="${n}" title="token ${n}">t</span>`)
    .join('')}</div></section><section>table</section></div>`;

/** A widget model whose traits are set here, and what it was told. */
function modelOf(traits: Record<string, unknown>) {
  const heard = new Map<string, Set<() => void>>();
  return {
    sent: [] as unknown[],
    traits,
    get: (name: string) => traits[name] as never,
    set(name: string, value: unknown) {
      traits[name] = value;
    },
    save_changes: vi.fn(),
    on(event: string, callback: () => void) {
      heard.set(event, (heard.get(event) ?? new Set()).add(callback));
    },
    off: (event: string, callback?: () => void) =>
      callback !== undefined && heard.get(event)?.delete(callback),
    send(content: unknown) {
      this.sent.push(content);
    },
    /** The kernel sets traits. */
    answer(changed: Record<string, unknown>) {
      Object.assign(traits, changed);
      for (const name of Object.keys(changed)) {
        heard.get(`change:${name}`)?.forEach(callback => callback());
      }
    },
    listeners: () => [...heard.values()].reduce((sum, one) => sum + one.size, 0)
  };
}

const press = (key: string): boolean =>
  document.activeElement?.dispatchEvent(
    new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true })
  ) ?? false;
const el = (): HTMLElement => document.body.appendChild(document.createElement('div'));
const tokensIn = (place: Element): HTMLElement[] => [...place.querySelectorAll<HTMLElement>('.mx-rq-token')];

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  document.body.replaceChildren();
});

describe('tokens', () => {
  it('are one stop of Tab, with arrows between them, and tell their places in the answer', () => {
    const place = el();
    place.innerHTML = PAGE;
    const chosen: number[] = [];
    const buttons = new TokenButtons(place, token => chosen.push(token));
    const tokens = tokensIn(place);
    expect(buttons.count).toBe(3);
    expect(tokens.map(one => one.tabIndex)).toEqual([-1, -1, 0]);
    expect(tokens[0]?.getAttribute('aria-label')).toBe('token 10');
    tokens[2]?.focus();
    press('Home');
    expect(document.activeElement).toBe(tokens[0]);
    expect(press('ArrowRight')).toBe(false);
    press('Enter');
    press(' ');
    expect(chosen).toEqual([11, 11]);
    buttons.mark(11);
    expect(tokens.map(one => one.getAttribute('aria-pressed'))).toEqual(['false', 'true', 'false']);
    press('Enter');
    press('Escape');
    expect(chosen).toEqual([11, 11, -1, -1]);
    tokens[2]?.click();
    expect(chosen[4]).toBe(12);
    expect(tokens.map(one => one.tabIndex)).toEqual([-1, -1, 0]);
    expect(press('x')).toBe(true);
    buttons.dispose();
    tokens[0]?.click();
    expect(chosen).toHaveLength(5);
  });

  it('are asked for of the kernel, which is said to be silent where it is', () => {
    const model = modelOf({ kind: 'generation', page: PAGE, about: '', chosen: -1, revision: 0 });
    const place = el();
    const dispose = renderGeneration({ model, el: place } as unknown as IGenerationContext);
    const about = place.querySelector<HTMLElement>('.mx-rq-about');
    const [first] = tokensIn(place);
    expect(about?.hidden).toBe(true);
    first?.click();
    expect(model.sent).toEqual([expect.objectContaining({ type: 'choose', token: 10 })]);
    vi.advanceTimersByTime(5000);
    expect(about?.textContent).toContain('does not answer');
    model.answer({ chosen: 10, about: '<h4>Token 11</h4>', revision: 1 });
    expect(about?.textContent).toBe('Token 11');
    expect(first?.getAttribute('aria-pressed')).toBe('true');
    first?.click();
    expect(model.sent[1]).toEqual(expect.objectContaining({ token: -1 }));
    dispose();
    expect(model.listeners()).toBe(0);
  });
});

describe('the board', () => {
  const traits = {
    kind: 'board', page: '<p>board</p>', position: 3, count: 3, is_live: true, can_control: true,
    is_paused: false, problem: '', revision: 0
  }; // prettier-ignore
  const named = (place: Element, name: string): HTMLButtonElement | undefined =>
    [...place.querySelectorAll('button')].find(one => one.textContent === name);

  it('pauses and steps a scheduler, and says what failed', () => {
    const model = modelOf({ ...traits });
    const place = el();
    const dispose = renderBoard({ model, el: place } as unknown as IBoardContext);
    expect(named(place, 'Step')?.disabled).toBe(true);
    expect(named(place, 'Replay')).toBeUndefined();
    named(place, 'Pause')?.click();
    model.answer({ is_paused: true, revision: 1 });
    named(place, 'Step')?.click();
    named(place, 'Go on')?.click();
    expect(model.sent).toEqual(
      ['pause', 'step', 'resume'].map(action => expect.objectContaining({ type: 'control', action }))
    );
    model.answer({ problem: 'it has ended', revision: 2 });
    expect(place.querySelector('[role=status]')?.textContent).toBe('it has ended');
    dispose();
    expect(model.listeners()).toBe(0);
  });

  it('replays a run step by step, as fast as the kernel draws', () => {
    const model = modelOf({ ...traits, is_live: false, can_control: false });
    const place = el();
    renderBoard({ model, el: place } as unknown as IBoardContext);
    named(place, 'Replay')?.click();
    expect(model.traits['position']).toBe(1);
    for (const position of [2, 3]) {
      model.answer({ revision: position });
      vi.advanceTimersByTime(300);
      expect(model.traits['position']).toBe(position);
    }
    model.answer({ revision: 9 });
    vi.advanceTimersByTime(300);
    expect(named(place, 'Replay')).toBeDefined();
    const slider = place.querySelector('input');
    expect(slider?.getAttribute('aria-valuetext')).toBe('3 of 3 steps');
  });
});
