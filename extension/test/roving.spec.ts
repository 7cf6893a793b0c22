// @vitest-environment jsdom
import { beforeEach, describe, expect, it } from 'vitest';

import { el } from '../src/core/view/dom';
import { Roving } from '../src/core/view/roving';

describe('a toolbar', () => {
  let row: HTMLElement;
  let field: HTMLInputElement;
  let buttons: HTMLButtonElement[];
  let roving: Roving;
  const stops = (): Element[] => [...row.querySelectorAll('[tabindex="0"]')];
  const press = (key: string): Element | null => {
    document.activeElement?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    return document.activeElement;
  };

  beforeEach(() => {
    field = el('input');
    field.type = 'text';
    buttons = ['a', 'b', 'c'].map(name => el('button', '', name));
    row = el('div', '', field, ...buttons);
    document.body.replaceChildren(row);
    roving = new Roving(row);
  });

  it('is one stop of Tab, in which arrows, Home and End move', () => {
    expect(stops()).toEqual([field]);
    buttons[1]?.focus();
    expect(stops()).toEqual([buttons[1]]);
    expect(press('ArrowRight')).toBe(buttons[2]);
    expect(press('ArrowRight')).toBe(field);
    expect(press('ArrowLeft')).toBe(buttons[2]);
    expect(press('Home')).toBe(field);
    buttons[0]?.focus();
    expect(press('End')).toBe(buttons[2]);
    expect(press('ArrowDown')).toBe(buttons[2]);
    expect(stops()).toEqual([buttons[2]]);
  });

  it('leaves a field of text from its ends only', () => {
    field.value = 'soft';
    field.focus();
    field.setSelectionRange(2, 2);
    expect(press('ArrowRight')).toBe(field);
    expect(press('End')).toBe(field);
    field.setSelectionRange(4, 4);
    expect(press('ArrowRight')).toBe(buttons[0]);
  });

  it('passes over what is not seen, and is never without a stop', () => {
    buttons[0]?.focus();
    for (const gone of [buttons[0], buttons[1]]) {
      gone?.classList.add('jp-mod-overflown');
    }
    roving.update();
    expect(stops()[0]).toBe(field);
    field.focus();
    expect(press('ArrowRight')).toBe(buttons[2]);
  });
});
