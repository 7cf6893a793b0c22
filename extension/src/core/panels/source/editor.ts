/**
 * A plain editor for the text of one kernel: a text area with numbered lines and marks, over a copy of
 * the text that has the colours.
 */

import type { IEditError } from '../../../proto/checks';
import { tokenize } from '../../view/code';
import { Disposables, el } from '../../view/dom';

/** First and last line (from 1) of `after` that differ from `before`; null when none do. */
export function changedLines(before: string, after: string): [number, number] | null {
  const a = before.split('\n');
  const b = after.split('\n');
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) {
    start += 1;
  }
  if (start === a.length && start === b.length) {
    return null;
  }
  let end = 0;
  while (
    end < a.length - start &&
    end < b.length - start &&
    a[a.length - 1 - end] === b[b.length - 1 - end]
  ) {
    end += 1;
  }
  // Lines that were only taken away leave no line behind: the one after them is marked.
  return [start + 1, Math.max(start + 1, b.length - end)];
}

/** The white space that a new line after `text` starts with. */
export function indentAfter(text: string): string {
  const line = text.slice(text.lastIndexOf('\n') + 1);
  const indent = /^[ \t]*/.exec(line)?.[0] ?? '';
  return /[{(]\s*$/.test(line) ? `${indent}  ` : indent;
}

/** Place of the first character of a line (from 1). */
export function placeOf(text: string, line: number, column: number | null): number {
  const lines = text.split('\n').slice(0, Math.max(0, line - 1));
  const start = lines.reduce((sum, each) => sum + each.length + 1, 0);
  return Math.min(text.length, start + Math.max(0, (column ?? 1) - 1));
}

/** A longer text has no colours: they are made anew with each key. */
const MOST_COLOURED = 1500;

export class Editor {
  readonly element = el('div', 'jp-MaxLab-editor');
  readonly area = el('textarea', 'jp-MaxLab-editorText');
  private readonly _gutter = el('div', 'jp-MaxLab-editorGutter');
  private readonly _colors = el('div', 'jp-MaxLab-editorColors');
  private readonly _disposables = new Disposables();
  private _original = '';
  private _errors: readonly IEditError[] = [];
  private _drawn = '';

  constructor(label: string, changed: (text: string) => void, run: () => void) {
    const { area } = this;
    area.spellcheck = false;
    area.wrap = 'off';
    area.autocomplete = 'off';
    area.setAttribute('autocapitalize', 'off');
    area.setAttribute('aria-label', label);
    area.setAttribute('aria-description', 'Control Enter compiles and checks. Tab leaves the editor.');
    this._gutter.setAttribute('aria-hidden', 'true');
    this._colors.setAttribute('aria-hidden', 'true');
    this.element.append(this._gutter, el('div', 'jp-MaxLab-editorBody', this._colors, area));
    const d = this._disposables;
    d.listen(area, 'input', () => {
      this._draw();
      changed(area.value);
    });
    d.listen(area, 'scroll', () => {
      this._follow();
    });
    d.listen(area, 'keydown', (event: KeyboardEvent) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        run();
      } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this._insert(`\n${indentAfter(area.value.slice(0, area.selectionStart))}`);
        changed(area.value);
      }
    });
  }

  get text(): string {
    return this.area.value;
  }

  /** Shows `text`, an edited form of `original`. */
  set(text: string, original: string): void {
    this._original = original;
    this._errors = [];
    this.area.value = text;
    this.area.scrollTop = 0;
    this._draw();
  }

  /** Marks the lines that the compiler complains about. */
  setErrors(errors: readonly IEditError[]): void {
    this._errors = errors;
    this._draw();
  }

  /** Puts the caret on a line and scrolls to it. */
  goTo(line: number, column: number | null): void {
    const { area } = this;
    const at = placeOf(area.value, line, column);
    area.focus();
    area.setSelectionRange(at, at);
    const count = area.value.split('\n').length;
    area.scrollTop = Math.max(0, ((line - 3) / Math.max(1, count)) * area.scrollHeight);
  }

  dispose(): void {
    this._disposables.dispose();
    this.element.remove();
  }

  private _insert(text: string): void {
    const { area } = this;
    // The command keeps the browser's own undo; setRangeText is for where it is gone.
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- nothing else keeps it
    const isDone = document.execCommand('insertText', false, text);
    if (!isDone) {
      area.setRangeText(text, area.selectionStart, area.selectionEnd, 'end');
      this._draw();
    }
  }

  private _draw(): void {
    const text = this.area.value;
    this._color();
    const count = text.split('\n').length;
    const changed = changedLines(this._original, text);
    const bad = new Set(this._errors.map(error => error.line));
    const state = `${count} ${changed?.join() ?? ''} ${[...bad].join()}`;
    if (state === this._drawn) {
      return;
    }
    this._drawn = state;
    const rows: HTMLElement[] = [];
    for (let line = 1; line <= count; line += 1) {
      const isChanged = changed !== null && changed[0] <= line && line <= changed[1];
      const isBad = bad.has(line);
      const sign = isBad ? '✗ ' : '';
      const name = `jp-MaxLab-editorLine${isBad ? ' jp-mod-bad' : ''}${isChanged ? ' jp-mod-changed' : ''}`;
      rows.push(el('div', name, `${sign}${line}`));
    }
    this._gutter.replaceChildren(...rows);
    this._follow();
  }

  /** Colours the copy of the text below. */
  private _color(): void {
    const lines = this.area.value.split('\n');
    const isPlain = lines.length > MOST_COLOURED;
    this.element.classList.toggle('jp-mod-plain', isPlain);
    const state = { inComment: false };
    this._colors.replaceChildren(
      ...(isPlain ? [] : lines).map(line => {
        const row = el('div', 'jp-MaxLab-codeText');
        for (const [piece, kind] of tokenize(line, state)) {
          row.append(kind === '' ? piece : el('span', `jp-MaxLab-tok-${kind}`, piece));
        }
        // An empty line is as tall as the others.
        row.append(line === '' ? '\u200b' : '');
        return row;
      })
    );
  }

  private _follow(): void {
    const { scrollTop, scrollLeft } = this.area;
    this._gutter.scrollTop = scrollTop;
    this._colors.style.transform = `translate(${-scrollLeft}px, ${-scrollTop}px)`;
  }
}
