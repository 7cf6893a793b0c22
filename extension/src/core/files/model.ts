/**
 * The view of a kept model: its graph, and beside it what the file says of itself. The host draws the graph
 * into `room`.
 */

import type { IModelContents, PartRow } from '../../proto/files';
import { formatBytes, formatShare, plural } from '../model/format';
import type { ThemeName } from '../render/theme';
import { copyText } from '../view/copying';
import { button, Disposables, el, type Child } from '../view/dom';
import { facts, section } from '../view/kernel';
import { addStyles } from '../view/styles';
import { Theming } from '../view/theming';
import { WEIGHTS_STYLES } from './css';
import { problemOf } from './problem';

/** Longer tables are cut: a page of them is slow, and nobody reads it. */
const MOST_ROWS = 500;

export interface IModelViewOptions {
  theme?: ThemeName;
}

export class ModelView {
  readonly element = el('div', 'jp-MaxLab-view jp-MaxLab-weights jp-MaxLab-model');
  /** Where the graph is drawn. */
  readonly room = el('div', 'jp-MaxLab-model-graph');
  private readonly _theming: Theming;
  private readonly _disposables = new Disposables();
  private readonly _told = el('span', 'jp-MaxLab-note', 'Reading…');
  private readonly _problem = el('div', 'jp-MaxLab-weights-problem');
  private readonly _side = el('div', 'jp-MaxLab-weights-side');
  private readonly _body = el('div', 'jp-MaxLab-weights-body', this.room, this._side);
  private _isRead = false;

  constructor(
    host: HTMLElement,
    private readonly _name: string,
    private readonly _contents: () => Promise<IModelContents>,
    options: IModelViewOptions = {}
  ) {
    this.element.setAttribute('role', 'region');
    this.element.setAttribute('aria-label', `Model ${_name}`);
    host.append(this.element);
    this._disposables.add(addStyles(this.element));
    this._disposables.add(addStyles(this.element, 'jp-MaxLab-weights-styles', WEIGHTS_STYLES));
    this._problem.setAttribute('role', 'alert');
    this._problem.hidden = true;
    this._body.hidden = true;
    this._side.tabIndex = 0;
    this._side.setAttribute('role', 'group');
    this._side.setAttribute('aria-label', 'Contents of the file');
    this.element.append(
      el('div', 'jp-MaxLab-weights-head', el('h2', '', _name), this._told),
      this._problem,
      this._body
    );
    this._theming = new Theming(this.element, options.theme ?? 'auto', () => undefined);
    this._theming.apply();
    this._disposables.add(() => this._theming.dispose());
  }

  /** Reads what the file says of itself; false when it cannot be read, which is said. */
  async open(): Promise<boolean> {
    try {
      this._show(await this._contents());
      return true;
    } catch (error) {
      this.failed(error);
      return false;
    }
  }

  /** Says what went wrong; what was shown stays. */
  failed(error: unknown): void {
    const { what, fix } = problemOf(error);
    this._problem.replaceChildren(el('b', '', what), fix === '' ? '' : el('span', '', fix));
    this._problem.hidden = false;
    if (!this._isRead) {
      this._told.textContent = '';
    }
  }

  dispose(): void {
    this._disposables.dispose();
    this.element.remove();
  }

  private _show(found: IModelContents): void {
    this._isRead = true;
    this._body.hidden = false;
    this._told.textContent = [
      `model ${found.name}`,
      plural(found.operations, 'operation'),
      formatBytes(found.bytes),
      `written by maxlab ${found.written}`
    ].join(' · ');
    const { counts } = found;
    this._side.replaceChildren(
      section('Trust', ...this._trust(found)),
      section('Digest', ...digest(found.digest)),
      section('Size', sizes(found.parts, found.bytes)),
      section(
        'Inputs and outputs',
        table('Inputs and outputs', ['Name', 'Type', 'Shape', 'Device'], [
          ...found.inputs.map(row => [...row]),
          ...found.outputs.map(([name, ...rest]) => [`→ ${name}`, ...rest])
        ])
      ),
      ...listed('Weights', counts.weights, () =>
        table(
          'Weights',
          ['Name', 'Type', 'Shape', 'Bytes', 'File'],
          found.weights.map(([name, dtype, shape, bytes, file]) => [
            name,
            dtype,
            shape === '' ? 'scalar' : shape,
            formatBytes(bytes),
            file === '' ? 'this one' : file
          ])
        )
      ),
      ...listed('Files of weights', counts.files, () =>
        table('Files of weights', ['Path', 'Bytes'], found.files.map(([path, bytes]) => [path, formatBytes(bytes)]))
      ),
      ...listed('Kernels', counts.kernels, () =>
        table(
          'Kernels',
          ['Name', 'Language', 'Steps', 'Machine code'],
          found.kernels.map(([name, language, steps, library]) => [
            name,
            language === 'c' ? 'C' : language.toUpperCase(),
            String(steps),
            library === '' ? 'none' : library
          ])
        )
      ),
      ...listed('Members', counts.members, () =>
        table(
          'Members',
          ['Name', 'Part', 'Place', 'Bytes', 'SHA-256'],
          found.members.map(([name, part, begin, bytes, sum]) => [
            name,
            part,
            begin.toLocaleString('en'),
            formatBytes(bytes),
            sum === '' ? '–' : sum.slice(0, 12)
          ])
        )
      ),
      ...(found.machine.length > 0 ? [section('Compiled by and for', facts(found.machine))] : []),
      ...(found.options.length > 0 ? [section('Options', facts(found.options))] : [])
    );
  }

  private _trust({ custom, counts, machine }: IModelContents): Child[] {
    const load = `session.load(${JSON.stringify(this._name)}`;
    const kernels = counts.custom ?? custom.length;
    const made =
      machine.length > 0 ? 'It has machine code, and a plan that says how to run it' : 'It has no plan and no machine code';
    const own =
      kernels === 0
        ? ', and no custom kernels.'
        : `, and ${plural(kernels, 'custom kernel')}: ${custom.join(', ')}.`;
    return [
      el('p', 'jp-MaxLab-model-trust', el('b', '', 'Not trusted.'), ' Nothing of this file was run to show it.'),
      el('p', '', `${made}${own}`),
      el(
        'p',
        '',
        el('code', '', `${load})`),
        kernels === 0 ? ' compiles its graph here; ' : ' compiles its graph here, and refuses the custom kernels; ',
        el('code', '', `${load}, trusted=True)`),
        ' runs what is in it, which is to be done only where you would run a program of its author.'
      )
    ];
  }
}

function digest(text: string): Child[] {
  const said = el('span', 'jp-MaxLab-note');
  said.setAttribute('role', 'status');
  const copy = button('jp-MaxLab-plainButton', 'Copy the digest', () => {
    void copyText(text).then(isDone => {
      said.textContent = isDone ? 'Copied' : 'The browser does not let a page copy';
    });
  });
  copy.textContent = 'Copy';
  return [el('code', 'jp-MaxLab-model-digest', text), el('div', 'jp-MaxLab-model-copy', copy, said)];
}

/** The parts, the largest first, each with a bar as long as its share. */
function sizes(parts: readonly PartRow[], all: number): HTMLElement {
  const list = el('ul', 'jp-MaxLab-model-sizes');
  for (const [part, bytes] of [...parts].filter(([, size]) => size > 0).sort((a, b) => b[1] - a[1])) {
    const share = bytes / Math.max(1, all);
    const bar = el('span', 'jp-MaxLab-model-bar');
    bar.style.width = `${100 * share}%`;
    list.append(
      el('li', '', el('span', '', part), el('span', '', `${formatBytes(bytes)} · ${formatShare(share)}`), bar)
    );
  }
  return list;
}

/** A list that opens when somebody asks for it; nothing where it is empty. */
function listed(title: string, count: number | undefined, rows: () => HTMLElement): HTMLElement[] {
  if (count === undefined || count === 0) {
    return [];
  }
  const details = el('details', 'jp-MaxLab-model-list', el('summary', '', `${title}: ${count.toLocaleString('en')}`));
  details.addEventListener('toggle', () => {
    if (details.childElementCount === 1) {
      details.append(rows());
    }
  });
  return [details];
}

function table(label: string, heads: readonly string[], rows: readonly (readonly string[])[]): HTMLElement {
  const made = el('table', 'jp-MaxLab-table');
  made.setAttribute('aria-label', label);
  const head = el('tr');
  for (const text of heads) {
    const cell = el('th', '', text);
    cell.scope = 'col';
    head.append(cell);
  }
  const body = el('tbody');
  for (const [name = '', ...cells] of rows.slice(0, MOST_ROWS)) {
    const first = el('th', '', name);
    first.scope = 'row';
    body.append(el('tr', '', first, ...cells.map(text => el('td', '', text))));
  }
  made.append(el('thead', '', head), body);
  if (rows.length > MOST_ROWS) {
    made.append(el('caption', 'jp-MaxLab-note', `${MOST_ROWS} of ${rows.length} rows`));
  }
  const room = el('div', 'jp-MaxLab-model-table', made);
  room.tabIndex = 0;
  room.setAttribute('role', 'group');
  room.setAttribute('aria-label', label);
  return room;
}
