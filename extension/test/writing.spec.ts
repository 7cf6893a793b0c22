// @vitest-environment jsdom
/** The difference that is shown before a cell is written, and what is replaced then. */

import { expect, test, vi } from 'vitest';

import { lineDifference, textEdits } from '../src/core/view/lines';
import { WRITE_CELL, Writing, type IWriteCell } from '../src/core/view/writing';
import type { IWriteAnswer } from '../src/proto/code';

function edited(before: string, after: string): string {
  let text = before;
  for (const { start, end, value } of textEdits(before, after)) {
    text = text.slice(0, start) + value + text.slice(end);
  }
  return text;
}

/** Numbers that are the same in every run. */
function* chance(seed: number): Generator<number, never> {
  let state = seed;
  for (;;) {
    state = (state * 1103515245 + 12345) % 2147483648;
    yield state / 2147483648;
  }
}

test('edits lead from one text to the other, and replace no more than a line of what is the same', () => {
  const next = chance(7);
  const pick = (most: number): number => Math.floor(next.next().value * most);
  const letters = ['a', 'b = 1', 'é', '𝛼 + 𝛽', '', '\r', '  x'];
  for (let round = 0; round < 2000; round++) {
    const one = Array.from({ length: pick(7) }, () => letters[pick(letters.length)] ?? '');
    const other = [...one];
    for (let n = pick(4); n > 0; n--) {
      other.splice(pick(other.length + 1), pick(2), ...Array.from({ length: pick(3) }, () => letters[pick(letters.length)] ?? ''));
    }
    const [before, after] = [one.join('\n'), other.join('\n')];
    expect(edited(before, after)).toBe(after);
    const lines = lineDifference(before, after);
    expect(lines.filter(({ kind }) => kind !== 'added').map(({ text }) => text).join('\n')).toBe(before);
    expect(lines.filter(({ kind }) => kind !== 'removed').map(({ text }) => text).join('\n')).toBe(after);
  }
});

test('what stands between two changes is not replaced', () => {
  const before = 'x = 1\n# kept\ny = relu(x)  # é\nz\n';
  const after = 'x = 2\n# kept\ny = exp(x)  # é\nz\nw\n';
  expect(textEdits(before, after)).toEqual([
    { start: before.length, end: before.length, value: 'w\n' },
    { start: 17, end: 21, value: 'exp' },
    { start: 4, end: 5, value: '2' }
  ]);
});

const ANSWER: IWriteAnswer = {
  version: 1,
  cell: 'c',
  title: 'cell [7]',
  before: 'a\nb\nc\nd\ne\nf\ny = relu(x)',
  after: 'a\nb\nc\nd\ne\nf\ny = tanh(x)',
  says: ['tanh n3 takes the place of relu n1'],
  checked: true,
  unchecked: ''
};

function shown(answer: IWriteAnswer): { writing: Writing; said: string[]; asked: unknown[]; left: () => void } {
  const said: string[] = [];
  const asked: unknown[] = [];
  const left = vi.fn();
  const ask = (what: string, args: unknown): Promise<never> => {
    asked.push([what, args]);
    const data = what === 'write' ? answer : { version: 1, says: '' };
    return Promise.resolve({ data, buffers: [], isSaved: false } as never);
  };
  const writing = new Writing({ say: text => said.push(text), left }, ask as never);
  document.body.replaceChildren(writing.element);
  return { writing, said, asked, left };
}

const buttons = (): string[] => [...document.querySelectorAll('button')].map(({ textContent }) => textContent ?? '');

test('the difference is shown first, accepted, and taken back', async () => {
  const { writing, said, asked } = shown(ANSWER);
  await writing.open();
  const rows = [...writing.element.querySelectorAll('.jp-MaxLab-writingRow')].map(row => row.textContent);
  expect(rows).toEqual(['… ', '5 e', '6 f', '7−removed: y = relu(x)', '7+added: y = tanh(x)']);
  expect([...writing.element.querySelectorAll('mark')].map(({ textContent }) => textContent)).toEqual(['relu', 'tanh']);
  expect(document.activeElement?.textContent).toBe('Write');
  const requests: IWriteCell[] = [];
  const undo = vi.fn(() => null);
  const listen = (event: Event): void => {
    event.preventDefault();
    const { detail } = event as CustomEvent<IWriteCell>;
    requests.push(detail);
    detail.done({ undo });
  };
  document.addEventListener(WRITE_CELL, listen);
  document.querySelector('button')?.click();
  document.removeEventListener(WRITE_CELL, listen);
  expect(requests.map(({ cell, before, after }) => [cell, before, after])).toEqual([['c', ANSWER.before, ANSWER.after]]);
  expect(asked[asked.length - 1]).toEqual(['written', { cell: 'c', text: ANSWER.after }]);
  expect(writing.canUndo).toBe(true);
  writing.undo();
  expect(undo).toHaveBeenCalledOnce();
  expect([writing.canUndo, writing.isOpen, said[said.length - 1]]).toEqual([false, false, 'the cell is as it was']);
});

test('a refusal says why, and offers what can be done instead', async () => {
  const refused = { code: 'ML873', says: 'relu n1 was made in a loop', fix: 'override it', ways: ['override' as const] };
  const { writing, asked, left } = shown({ ...ANSWER, refused });
  await writing.open();
  expect(writing.element.textContent).toContain('relu n1 was made in a loop [ML873]');
  expect(buttons()).toEqual(['Override it behind the graph', 'Close']);
  document.querySelector('button')?.click();
  expect(asked[asked.length - 1]).toEqual(['write', { way: 'override' }]);
  writing.element.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
  expect([writing.isOpen, vi.mocked(left).mock.calls.length]).toEqual([false, 1]);
});

test('where nobody has the cell the text can be copied', async () => {
  const { writing } = shown({ ...ANSWER, checked: false, unchecked: 'it calls load' });
  await writing.open();
  expect(writing.element.textContent).toContain('Not tried, since it calls load');
  document.querySelector('button')?.click();
  expect(buttons()).toEqual(['Copy the new text', 'Close']);
});
