/**
 * Writing to the cell: the edits of a graph as a difference of the text that built it, which is shown, and
 * written only when it is accepted. Who has the cells takes the event; elsewhere the text can be copied.
 */

import type { INotWritten, IWriteAnswer, Way } from '../../proto/code';
import { plural } from '../model/format';
import { messageOf } from '../narrow';
import { copyText } from './copying';
import { button, el } from './dom';
import type { Ask } from './editing';
import { commonEnds, lineDifference, type ILine } from './lines';

/** The event that asks to change a cell. Whoever can prevents its default, and tells by `done` what came of it. */
export const WRITE_CELL = 'maxlab:write-cell';

export interface IWriteCell {
  cell: string;
  /** What the cell must have. */
  before: string;
  after: string;
  done(result: IWroteCell): void;
}

/** What came of it: the cell has the text, and `undo` takes it back; or why it has not. */
export type IWroteCell = { undo: () => string | null } | { why: string };

export interface IWritingHost {
  say(text: string): void;
  /** The keyboard is to go back to the graph. */
  left(): void;
}

/** Lines around a change that are shown with it. */
const AROUND = 2;

const WAYS: Readonly<Record<Way, string>> = {
  rewrite: 'Rewrite the line',
  parameter: 'Make it a parameter',
  override: 'Override it behind the graph'
};

export class Writing {
  readonly element = el('section', 'jp-MaxLab-writing');
  private readonly _title = el('strong', 'jp-MaxLab-writingTitle');
  private readonly _says = el('div', 'jp-MaxLab-writingSays');
  private readonly _lines = el('div', 'jp-MaxLab-writingLines');
  private readonly _end = el('div', 'jp-MaxLab-writingEnd');
  private _undo: (() => string | null) | null = null;

  constructor(
    private readonly _host: IWritingHost,
    private readonly _ask: Ask
  ) {
    this.element.hidden = true;
    this._lines.tabIndex = 0;
    this.element.append(this._title, this._says, this._lines, this._end);
    this.element.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        this.close();
      } else if (event.key === 'Enter' && event.target === this._lines) {
        event.preventDefault();
        event.stopPropagation();
        this._end.querySelector('button')?.click();
      }
    });
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  /** Whether what was written last can be taken back. */
  get canUndo(): boolean {
    return this._undo !== null;
  }

  /** Shows what would be written. */
  async open(way: Way = 'rewrite'): Promise<void> {
    this._host.say('comparing the graph with its cell …');
    try {
      const { data } = await this._ask('write', { way });
      if (data.refused !== undefined) {
        this._refused(data.refused);
      } else {
        this._offered(data);
      }
    } catch (error) {
      this._refused({ code: '', says: messageOf(error), fix: '', ways: [] });
    }
  }

  close(): void {
    if (this.isOpen) {
      this.element.hidden = true;
      this._host.left();
    }
  }

  /** Takes back what was written last. */
  undo(): void {
    const why = this._undo?.() ?? null;
    if (this._undo !== null) {
      this._undo = why === null ? null : this._undo;
      this._host.say(why ?? 'the cell is as it was');
      this.close();
    }
  }

  private _show(title: string, says: readonly HTMLElement[], lines: readonly ILine[], buttons: readonly HTMLElement[]): void {
    this._title.textContent = title;
    this.element.setAttribute('aria-label', title);
    this._says.replaceChildren(...says);
    this._says.hidden = says.length === 0;
    this._lines.replaceChildren(...rows(lines));
    this._lines.hidden = lines.length === 0;
    this._end.replaceChildren(...buttons);
    this.element.hidden = false;
    buttons[0]?.focus({ preventScroll: true });
  }

  private _refused({ code, says, fix, ways }: INotWritten): void {
    const told = el('div', '', says, code === '' ? '' : ` [${code}]`);
    const mend = fix === '' ? [] : [el('div', 'jp-MaxLab-writingFix', fix)];
    const buttons = ways.map(way => button('jp-MaxLab-plainButton', WAYS[way], () => void this.open(way), WAYS[way]));
    const close = button('jp-MaxLab-plainButton', 'Close (Esc)', () => this.close(), 'Close');
    this._show('Not written to the cell', [told, ...mend], [], [...buttons, close]);
    this._host.say(`not written: ${says}${fix === '' ? '' : `; ${fix}`}`);
  }

  private _offered(data: IWriteAnswer): void {
    const lines = lineDifference(data.before, data.after);
    const number = (one: ILine['kind']): number => lines.filter(({ kind }) => kind === one).length;
    const count = plural(Math.max(number('removed'), number('added')), 'line');
    const says = data.says.map(text => el('div', '', text));
    const check = data.checked
      ? 'Tried in a copy: the cell then builds this graph.'
      : `Not tried, since ${data.unchecked}: it is compared when the cell runs.`;
    const accept = button('jp-MaxLab-button', 'Write it to the cell (Enter)', () => this._accept(data), 'Write');
    const cancel = button('jp-MaxLab-plainButton', 'Leave the cell as it is (Esc)', () => this.close(), 'Cancel');
    this._lines.setAttribute('aria-label', `Difference of ${data.title}: ${count}`);
    this._lines.setAttribute('role', 'group');
    this._show(`Write to ${data.title}`, [...says, el('div', 'jp-MaxLab-writingCheck', check)], lines, [accept, cancel]);
    this._host.say(`${count} of ${data.title}: Enter writes, Escape leaves the cell as it is`);
  }

  private _accept(data: IWriteAnswer): void {
    const { cell, before, after, title } = data;
    const detail: IWriteCell = { cell, before, after, done: result => this._done(data, result) };
    const options = { detail, bubbles: true, composed: true, cancelable: true };
    if (this.element.dispatchEvent(new CustomEvent(WRITE_CELL, options))) {
      const copy = button('jp-MaxLab-plainButton', 'Copy the new text', () => void this._copy(after), 'Copy the new text');
      const close = button('jp-MaxLab-plainButton', 'Close (Esc)', () => this.close(), 'Close');
      const told = el('div', '', `${title} can be changed in JupyterLab only. Its new text can be copied.`);
      this._show('Not written to the cell', [told], lineDifference(before, after), [copy, close]);
    }
  }

  private async _copy(text: string): Promise<void> {
    this._host.say((await copyText(text)) ? 'copied' : 'this browser does not let a page copy');
  }

  private _done(data: IWriteAnswer, result: IWroteCell): void {
    if ('why' in result) {
      this._refused({ code: 'ML874', says: result.why, fix: 'run the cell, and edit the graph that it builds', ways: [] });
      return;
    }
    this._undo = result.undo;
    const follows = data.checked ? 'The cell now builds this graph; run it to go on from there.' : 'Run the cell: what it builds is compared with this graph.';
    const undo = button('jp-MaxLab-plainButton', 'Take it back: the cell as it was (Shift+V)', () => this.undo(), 'Take it back');
    const close = button('jp-MaxLab-plainButton', 'Close (Esc)', () => this.close(), 'Close');
    this._show(`Written to ${data.title}`, [el('div', '', follows)], [], [close, undo]);
    this._host.say(`written to ${data.title}. ${follows} Shift+V takes it back`);
    this._ask('written', { cell: data.cell, text: data.after }).catch((error: unknown) => this._host.say(messageOf(error)));
  }
}

/** The lines that changed, with some around them; `…` stands for the others. */
function rows(lines: readonly ILine[]): HTMLElement[] {
  const near = lines.map((_, n) =>
    lines.slice(Math.max(0, n - AROUND), n + AROUND + 1).some(({ kind }) => kind !== 'same')
  );
  const found: HTMLElement[] = [];
  lines.forEach((line, n) => {
    if (near[n] === true) {
      found.push(row(line, twin(lines, n)));
    } else if (near[n - 1] !== false) {
      found.push(el('div', 'jp-MaxLab-writingRow', el('span', 'jp-MaxLab-writingNumber', '…'), el('span', '', ' ')));
    }
  });
  return found;
}

/** The line that a changed one was, or became: the one of the other kind at the same place of a change. */
function twin(lines: readonly ILine[], at: number): string | null {
  const line = lines[at];
  if (line === undefined || line.kind === 'same') {
    return null;
  }
  let first = at;
  while (lines[first - 1] !== undefined && lines[first - 1]?.kind !== 'same') {
    first -= 1;
  }
  let end = at;
  while (lines[end + 1] !== undefined && lines[end + 1]?.kind !== 'same') {
    end += 1;
  }
  const change = lines.slice(first, end + 1);
  const own = change.filter(({ kind }) => kind === line.kind);
  const others = change.filter(({ kind }) => kind !== line.kind);
  return own.length === others.length ? (others[own.indexOf(line)]?.text ?? null) : null;
}

const SIGNS = { same: ' ', removed: '−', added: '+' } as const;
const SPOKEN = { same: '', removed: 'removed: ', added: 'added: ' } as const;

function row({ kind, text, number }: ILine, other: string | null): HTMLElement {
  const shown = text.replace(/\r$/, '');
  const [head, tail] = other === null ? [shown.length, 0] : commonEnds(shown, other.replace(/\r$/, ''));
  const middle = shown.slice(head, shown.length - tail);
  const parts = el(
    'span',
    'jp-MaxLab-writingText',
    shown.slice(0, head),
    middle === '' ? null : el('mark', 'jp-MaxLab-writingMark', middle),
    tail === 0 ? '' : shown.slice(shown.length - tail)
  );
  const spoken = kind === 'same' ? null : el('span', 'jp-MaxLab-live', SPOKEN[kind]);
  const sign = el('span', 'jp-MaxLab-writingSign', SIGNS[kind]);
  sign.setAttribute('aria-hidden', 'true');
  const node = el('div', `jp-MaxLab-writingRow jp-MaxLab-writing-${kind}`, el('span', 'jp-MaxLab-writingNumber', String(number)), sign, spoken, parts);
  return node;
}
