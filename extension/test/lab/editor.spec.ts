/** The text of a document that a kernel edits, as it is kept on the page. */

import { describe, expect, it } from 'vitest';

import { KernelText, replacement, replacements } from '../../src/lab/editor/kernel-text';
import type { IEditorText } from '../../src/proto/editor';
import { PROTOCOL } from '../../src/proto/messages';

const told = (since: number, start: number, removed: number, lines: string[]): IEditorText => ({
  type: 'text',
  protocol: PROTOCOL,
  since,
  number: since + 1,
  parts: [{ start, removed, lines }]
});

describe('KernelText', () => {
  it('keeps the bytes of the file until something is edited, and again when it is undone', () => {
    const text = new KernelText('{ "written": "otherwise" }');
    expect(text.text).toBe('{ "written": "otherwise" }');
    text.opened({ number: 0, raw: '{ "written": "otherwise" }', given: 'a\nb\nc', text: 'a\nb\nc' });
    expect(text.text).toBe('{ "written": "otherwise" }');
    expect(text.revise(told(0, 1, 1, ['x', 'y']))).toBe(true);
    expect(text.text).toBe('a\nx\ny\nc');
    expect(text.revise(told(1, 1, 2, ['b']))).toBe(true);
    expect(text.text).toBe('{ "written": "otherwise" }');
  });

  it('has what was edited before the page was loaded again', () => {
    const text = new KernelText('file');
    text.opened({ number: 7, raw: null, given: 'a', text: 'a\nb' });
    expect(text.text).toBe('a\nb');
    expect(text.number).toBe(7);
  });

  it('does not take lines of a text that it does not have', () => {
    const text = new KernelText('');
    text.opened({ number: 0, raw: '', given: 'a\nb', text: 'a\nb' });
    expect(text.revise(told(1, 0, 1, ['z']))).toBe(false);
    expect(text.revise(told(0, 1, 5, ['z']))).toBe(false);
    expect(text.text).toBe('');
    expect(text.revise(told(-1, 0, 1, ['z'])), 'what it has already').toBe(true);
    expect(text.text).toBe('');
  });
});

describe('replacement', () => {
  const after = (before: string, now: string): string => {
    const { start, end, value } = replacement(before, now);
    return before.slice(0, start) + value + before.slice(end);
  };

  it('makes the one text of the other', () => {
    const texts = ['', 'a', 'aa', 'aba', 'abcba', 'xabcbax', 'ab😀c', 'ab😁c', '😀', '😁😀', 'aab'];
    for (const before of texts) {
      for (const now of texts) {
        expect(after(before, now)).toBe(now);
      }
    }
  });

  it('replaces what differs and no more, and no half of a pair', () => {
    expect(replacement('one two three', 'one 2 three')).toEqual({ start: 4, end: 7, value: '2' });
    expect(replacement('a😀b', 'a😁b')).toEqual({ start: 1, end: 3, value: '😁' });
    expect(replacement('same', 'same')).toEqual({ start: 4, end: 4, value: '' });
  });
});

describe('replacements', () => {
  const before = 'a\nb😀\nc\nd\ne\n';
  const after = (made: ReturnType<typeof replacements>): string =>
    made.reduceRight((text, { start, end, value }) => text.slice(0, start) + value + text.slice(end), before);

  it('are the parts that a kernel has told, and what lies between them is left alone', () => {
    const now = 'a\nb😁\nc\nx\ny\ne\nf\n';
    const made = replacements(before, now, [
      { start: 1, removed: 1, lines: ['b😁'] },
      { start: 3, removed: 1, lines: ['x', 'y'] },
      { start: 5, removed: 0, lines: ['f'] }
    ]);
    expect(after(made)).toBe(now);
    expect(made).toEqual([
      { start: 3, end: 5, value: '😁' },
      { start: 8, end: 9, value: 'x\ny' },
      { start: 12, end: 12, value: 'f\n' }
    ]);
  });

  it('are one where the parts are not of this text', () => {
    for (const parts of [
      [],
      [{ start: 3, removed: 1, lines: ['z'] }],
      [{ start: 9, removed: 1, lines: ['z'] }],
      [{ start: 2, removed: 1, lines: [] }, { start: 1, removed: 1, lines: [] }]
    ]) {
      const made = replacements(before, 'a\nb\n', parts);
      expect(made).toHaveLength(1);
      expect(after(made)).toBe('a\nb\n');
    }
  });
});
