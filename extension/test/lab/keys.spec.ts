// @vitest-environment jsdom

import { expect, test } from 'vitest';

import { DASHBOARD_KEYS, DASHBOARD_LABELS } from '../../src/core/dashboard/keys';
import schemaText from '../../schema/keys.json?raw';
import { capOf, isTyping, KEYS, KEY_WORDS, keyOf, type IKey } from '../../src/core/view/keys';

/** Where a key stands on the keyboard by which JupyterLab names keys, if that is not its own name. */
const KEYSTROKES: Readonly<Record<string, string>> = {
  ' ': 'Space',
  '+': 'Shift =',
  '?': 'Shift /'
};

function keystroke(key: string): string {
  const found = KEYSTROKES[key];
  const parts = key.split('+').map(part => (part.length === 1 ? part.toUpperCase() : part));
  return found ?? parts.join(' ');
}

function shortcuts(table: readonly IKey[], prefix: string, selectorOf: (key: IKey) => string): object[] {
  return table.flatMap(entry =>
    entry.keys.map(key => ({
      command: `${prefix}${entry.command}`,
      keys: [keystroke(key)],
      selector: selectorOf(entry)
    }))
  );
}

test('the shortcuts of JupyterLab are the keys of the view', () => {
  const schema: unknown = JSON.parse(schemaText);
  const wanted = [
    ...shortcuts(KEYS, 'maxlab:', ({ isPlace }) =>
      isPlace ? '.jp-MaxLab-tree :focus' : '.jp-MaxLab-view :focus:not(:read-write)'
    ),
    ...shortcuts(DASHBOARD_KEYS, 'maxlab:dashboard-', () => '.jp-MaxLab-dash:focus')
  ];
  expect(schema).toMatchObject({ 'jupyter.lab.shortcuts': wanted });
});

test('no key is bound twice, and the list of keys tells of known commands', () => {
  for (const table of [KEYS, DASHBOARD_KEYS]) {
    const keys = table.flatMap(entry => entry.keys);
    expect(new Set(keys).size).toBe(keys.length);
  }
  const commands = new Set(KEYS.map(entry => entry.command));
  expect(KEY_WORDS.flatMap(([told]) => told).filter(command => !commands.has(command))).toEqual([]);
  expect(DASHBOARD_KEYS.map(({ command }) => command).sort()).toEqual(Object.keys(DASHBOARD_LABELS).sort());
});

test('few keys with Ctrl are not those of the page; letters know Shift, signs do not', () => {
  const pressed = (init: KeyboardEventInit): string | undefined =>
    keyOf(new KeyboardEvent('keydown', init))?.command;
  expect(pressed({ key: 'h' })).toBe('toggle-heat');
  expect(pressed({ key: 'H' })).toBe('toggle-heat'); // caps lock
  expect(pressed({ key: 'h', ctrlKey: true })).toBeUndefined();
  expect(pressed({ key: 'h', metaKey: true })).toBeUndefined();
  expect(pressed({ key: 'z', ctrlKey: true })).toBe('edit-undo');
  expect(pressed({ key: 'Z', ctrlKey: true, shiftKey: true })).toBe('edit-redo');
  expect(pressed({ key: 'y', ctrlKey: true })).toBe('edit-redo');
  expect(pressed({ key: 'z' })).toBeUndefined();
  expect(pressed({ key: 'z', metaKey: true })).toBeUndefined();
  expect(pressed({ key: 'u', ctrlKey: true })).toBeUndefined();
  expect(pressed({ key: 'N', shiftKey: true })).toBe('previous-match');
  expect(pressed({ key: 'n' })).toBe('next-match');
  expect(pressed({ key: '/', shiftKey: true })).toBe('search'); // where the sign needs Shift
  expect(pressed({ key: 'ArrowUp' })).toBe('go-up');
  expect(pressed({ key: 'ArrowUp', altKey: true })).toBe('go-parent');
  expect(pressed({ key: 'ArrowUp', shiftKey: true })).toBe('move-up');
  expect(pressed({ key: 'Home', shiftKey: true })).toBeUndefined();
});

test('keys have short names', () => {
  expect(['Alt+ArrowUp', ' ', 'n', '+', 'Shift+Enter', 'Accel+Shift+Z'].map(capOf)).toEqual([
    'Alt+↑',
    'Space',
    'N',
    '+',
    'Shift+Enter',
    'Ctrl+Shift+Z'
  ]);
});

test('a field keeps what edits its text', () => {
  const area = document.createElement('textarea');
  const box = document.createElement('input');
  box.type = 'checkbox';
  const pressed = (target: HTMLElement, init: KeyboardEventInit): boolean => {
    let found = false;
    target.addEventListener('keydown', event => (found = isTyping(event)), { once: true });
    target.dispatchEvent(new KeyboardEvent('keydown', init));
    return found;
  };
  expect(pressed(area, { key: 'm' })).toBe(true);
  expect(pressed(area, { key: 'z', ctrlKey: true })).toBe(true);
  expect(pressed(area, { key: 'Enter', ctrlKey: true })).toBe(true);
  expect(pressed(area, { key: 's', ctrlKey: true })).toBe(false);
  expect(pressed(area, { key: 'C', ctrlKey: true, shiftKey: true })).toBe(false);
  expect(pressed(area, { key: 'F11' })).toBe(false);
  expect(pressed(box, { key: 'm' })).toBe(false);
});
