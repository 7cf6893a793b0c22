/** The two sides of the source panel: lines of the user's code, and the generated text. */

import type { IKernel } from '../../../proto/document';
import type { GraphModel } from '../../model/graph';
import { tokenize } from '../../view/code';
import { button, el } from '../../view/dom';
import { linesOf, nodesAt, sourceLines, type ISourceLine } from './link';

/** A longer text is cut: nobody reads it here, and the page stays quick. */
const MAX_LINES = 4000;

export interface ISidesHost {
  /** Something points at these operations; none when it stops. */
  point(nodes: readonly string[]): void;
  choose(nodes: readonly string[]): void;
  reveal(node: string): void;
}

/** The lines of the user's code that wrote a kernel. */
export class CellSide {
  readonly element = el('div', 'jp-MaxLab-cellSide');
  private _rows: { line: ISourceLine; element: HTMLElement; button: HTMLElement }[] = [];

  constructor(private readonly _host: ISidesHost) {
    this.element.setAttribute('role', 'region');
    this.element.setAttribute('aria-label', 'Your code');
  }

  show(model: GraphModel, kernel: IKernel): void {
    this._rows = [];
    this.element.replaceChildren();
    const files = sourceLines(model, kernel);
    if (files.length === 0) {
      this.element.append(el('p', 'jp-MaxLab-panelNote jp-MaxLab-note', 'No line of your code wrote this kernel.'));
    }
    for (const { file, lines } of files) {
      const place = lines[0];
      const first = place?.nodes[0];
      const head = el('div', 'jp-MaxLab-sourceHead', el('span', '', file));
      if (place !== undefined && first !== undefined) {
        const where = `Go to line ${place.line} of ${file}`;
        head.append(button('jp-MaxLab-link', where, () => this._host.reveal(first), 'Go to'));
      }
      const body = el('div', 'jp-MaxLab-codeLines');
      lines.forEach((line, i) => {
        const before = lines[i - 1];
        if (before !== undefined && before.line + 1 < line.line) {
          body.append(el('div', 'jp-MaxLab-codeGap', '⋮'));
        }
        body.append(this._row(line));
      });
      this.element.append(head, body);
    }
  }

  /** Marks the lines of the pointed-at operations, and those of the selected ones. */
  mark(pointed: ReadonlySet<string>, selected: ReadonlySet<string>): void {
    for (const { line, element, button: name } of this._rows) {
      const isSelected = line.nodes.some(id => selected.has(id));
      element.classList.toggle('jp-mod-pointed', line.nodes.some(id => pointed.has(id)));
      element.classList.toggle('jp-mod-marked', isSelected);
      name.setAttribute('aria-pressed', String(isSelected));
    }
  }

  private _row(line: ISourceLine): HTMLElement {
    const number = el('span', 'jp-MaxLab-codeNumber', String(line.line));
    number.setAttribute('aria-hidden', 'true');
    const count = line.nodes.length;
    const title = `Line ${line.line}: ${line.text.trim()}, ${count} ${count === 1 ? 'operation' : 'operations'}`;
    const name = button('jp-MaxLab-cellLine', title, () => this._host.choose(line.nodes), number, el('span', 'jp-MaxLab-codeText', line.text));
    const element = el('div', 'jp-MaxLab-codeLine', name);
    element.addEventListener('pointerenter', () => this._host.point(line.nodes));
    element.addEventListener('pointerleave', () => this._host.point([]));
    name.addEventListener('focus', () => this._host.point(line.nodes));
    name.addEventListener('blur', () => this._host.point([]));
    this._rows.push({ line, element, button: name });
    return element;
  }
}

/** The generated text of a kernel. */
export class TextSide {
  readonly element = el('div', 'jp-MaxLab-textSide');
  private _kernel: IKernel | null = null;
  private _rows: HTMLElement[] = [];
  private _at = -1;

  constructor(private readonly _host: ISidesHost) {
    const { element } = this;
    element.tabIndex = 0;
    element.setAttribute('role', 'region');
    element.addEventListener('keydown', event => this._key(event));
    element.addEventListener('pointerleave', () => this._host.point([]));
    element.addEventListener('blur', () => {
      this._at = -1;
      this._host.point([]);
    });
  }

  show(kernel: IKernel, language: string): void {
    this._kernel = kernel;
    this._at = -1;
    this.element.setAttribute(
      'aria-label',
      `Generated ${language}; arrow up and down go through its lines, Enter selects what a line computes`
    );
    const lines = (kernel.source ?? '').replace(/\n$/, '').split('\n');
    const state = { inComment: false };
    this._rows = lines.slice(0, MAX_LINES).map((line, i) => this._row(line, i + 1, state));
    const body = el('div', 'jp-MaxLab-codeLines', ...this._rows);
    if (lines.length > MAX_LINES) {
      body.append(el('div', 'jp-MaxLab-note', `… ${lines.length - MAX_LINES} more lines`));
    }
    this.element.replaceChildren(body);
  }

  mark(pointed: ReadonlySet<string>, selected: ReadonlySet<string>): void {
    const kernel = this._kernel;
    if (kernel === null) {
      return;
    }
    const isPointed = linesOf(kernel, pointed, this._rows.length);
    const isMarked = linesOf(kernel, selected, this._rows.length);
    this._rows.forEach((row, i) => {
      row.classList.toggle('jp-mod-pointed', isPointed[i] === true);
      row.classList.toggle('jp-mod-marked', isMarked[i] === true);
      row.classList.toggle('jp-mod-caret', i === this._at);
    });
  }

  /** Scrolls to the first line of some operations. */
  reveal(nodes: ReadonlySet<string>): void {
    if (this._kernel !== null) {
      const row = this._rows[linesOf(this._kernel, nodes, this._rows.length).indexOf(true)];
      this._scrollTo(row, 40);
    }
  }

  private _row(line: string, number: number, state: { inComment: boolean }): HTMLElement {
    const label = el('span', 'jp-MaxLab-codeNumber', String(number));
    label.setAttribute('aria-hidden', 'true');
    const content = el('span', 'jp-MaxLab-codeText');
    for (const [piece, kind] of tokenize(line, state)) {
      content.append(kind === '' ? piece : el('span', `jp-MaxLab-tok-${kind}`, piece));
    }
    const row = el('div', 'jp-MaxLab-codeLine', label, content);
    row.addEventListener('pointerenter', () => this._host.point(this._nodes(number)));
    row.addEventListener('click', () => {
      // Marking text with the mouse is not choosing a line.
      if ((document.getSelection()?.toString() ?? '') === '') {
        this._choose(number);
      }
    });
    return row;
  }

  private _nodes(number: number): string[] {
    return this._kernel === null ? [] : nodesAt(this._kernel, number);
  }

  private _choose(number: number): void {
    const nodes = this._nodes(number);
    if (nodes.length > 0) {
      this._host.choose(nodes);
    }
  }

  private _scrollTo(row: HTMLElement | undefined, above: number): void {
    const { element } = this;
    if (row === undefined) {
      return;
    }
    const top = row.offsetTop;
    if (top < element.scrollTop || top + row.offsetHeight > element.scrollTop + element.clientHeight) {
      element.scrollTop = Math.max(0, top - above);
    }
  }

  private _key(event: KeyboardEvent): void {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step !== 0) {
      this._at = Math.max(0, Math.min(this._rows.length - 1, this._at + step));
      this._host.point(this._nodes(this._at + 1));
      this._scrollTo(this._rows[this._at], this.element.clientHeight / 2);
    } else if (event.key === 'Enter' && this._at >= 0) {
      this._choose(this._at + 1);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
