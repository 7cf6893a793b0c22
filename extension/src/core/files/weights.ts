/** The view of a weight file: its metadata, its tensors as a table, and one tensor looked into. */

import type { IWeightHeader } from '../../proto/files';
import { formatBytes, plural } from '../model/format';
import { DataTable } from '../panels/parts/table';
import type { ITheme, ThemeName } from '../render/theme';
import { Disposables, el } from '../view/dom';
import { addStyles } from '../view/styles';
import { Theming } from '../view/theming';
import { TensorCard } from './card';
import { WEIGHTS_STYLES } from './css';
import { problemOf } from './problem';
import type { IWeightSource } from './source';
import { countOf, filtered, shapeText, tensorsOf, type ITensor } from './tensors';

export interface IWeightViewOptions {
  theme?: ThemeName;
}

export class WeightView {
  readonly element = el('div', 'jp-MaxLab-view jp-MaxLab-weights');
  private readonly _theming: Theming;
  private readonly _disposables = new Disposables();
  private readonly _told = el('span', 'jp-MaxLab-note', 'Reading…');
  private readonly _filter = el('input', 'jp-MaxLab-weights-filter');
  private readonly _problem = el('div', 'jp-MaxLab-weights-problem');
  private readonly _body = el('div', 'jp-MaxLab-weights-body jp-mod-alone');
  private readonly _side = el('div', 'jp-MaxLab-weights-side');
  private readonly _table: DataTable<ITensor>;
  private _tensors: readonly ITensor[] = [];
  private _card: TensorCard | null = null;

  constructor(
    host: HTMLElement,
    name: string,
    readonly source: IWeightSource,
    options: IWeightViewOptions = {}
  ) {
    this.element.setAttribute('role', 'region');
    this.element.setAttribute('aria-label', `Weights of ${name}`);
    host.append(this.element);
    this._disposables.add(addStyles(this.element));
    this._disposables.add(addStyles(this.element, 'jp-MaxLab-weights-styles', WEIGHTS_STYLES));
    this._table = new DataTable(
      'Tensors',
      [
        { title: 'Name', cell: t => t.name, key: t => t.name },
        { title: 'Type', cell: t => t.dtype, key: t => t.dtype },
        { title: 'Shape', cell: t => shapeText(t.shape), key: countOf, field: t => shapeText(t.shape) },
        { title: 'Bytes', cell: t => formatBytes(t.bytes), key: t => t.bytes, isNumber: true, unit: 'B' },
        { title: 'Place', cell: t => t.begin.toLocaleString('en'), key: t => t.begin, isNumber: true, unit: 'B' }
      ],
      tensor => this.choose(tensor)
    );
    this._filter.type = 'search';
    this._filter.placeholder = 'Filter: name, type, shape';
    this._filter.setAttribute('aria-label', 'Filter tensors');
    this._filter.addEventListener('input', () => this._list());
    this._problem.setAttribute('role', 'alert');
    this._problem.hidden = true;
    this._side.hidden = true;
    const list = el('div', 'jp-MaxLab-weights-list', this._table.element);
    for (const [room, label] of [
      [list, 'Tensors of the file'],
      [this._side, 'The chosen tensor']
    ] as const) {
      room.tabIndex = 0;
      room.setAttribute('role', 'group');
      room.setAttribute('aria-label', label);
    }
    this._body.append(list, this._side);
    this.element.append(
      el('div', 'jp-MaxLab-weights-head', el('h2', '', name), this._told, this._filter),
      this._problem,
      this._body
    );
    this._theming = new Theming(this.element, options.theme ?? 'auto', () => this._card?.themed());
    this._theming.apply();
    this._disposables.add(() => this._theming.dispose());
    void this.open();
  }

  get theme(): ITheme {
    return this._theming.theme;
  }

  /** Reads the file, or reads it again. */
  async open(): Promise<void> {
    try {
      this._show(await this.source.header());
      this._problem.hidden = true;
    } catch (error) {
      this.failed(error);
    }
  }

  /** Says what went wrong; what was shown stays. */
  failed(error: unknown): void {
    const { what, fix } = problemOf(error);
    this._problem.replaceChildren(el('b', '', what), fix === '' ? '' : el('span', '', fix));
    this._problem.hidden = false;
    if (this._tensors.length === 0) {
      this._told.textContent = '';
      this._filter.hidden = true;
      this._body.hidden = true;
    }
  }

  /** Looks into a tensor. */
  choose(tensor: ITensor): void {
    this._card?.dispose();
    this._side.hidden = false;
    this._body.classList.remove('jp-mod-alone');
    const card = new TensorCard(tensor, this);
    this._card = card;
    this._side.replaceChildren(card.element);
    this._side.scrollTop = 0;
    card.themed();
    this._table.mark(one => one.index === tensor.index);
  }

  dispose(): void {
    this._card?.dispose();
    this._disposables.dispose();
    this.element.remove();
  }

  private _show(header: IWeightHeader): void {
    this._tensors = tensorsOf(header);
    const numbers = this._tensors.reduce((sum, tensor) => sum + countOf(tensor), 0);
    this._told.textContent =
      `${header.format} · ${plural(this._tensors.length, 'tensor')} · ` +
      `${numbers.toLocaleString('en')} numbers · ${formatBytes(header.bytes)}`;
    this._filter.hidden = false;
    this._body.hidden = false;
    this.element.querySelector('.jp-MaxLab-weights-metadata')?.remove();
    if (header.metadata.length > 0) {
      const list = el('dl');
      for (const [key, value] of header.metadata) {
        list.append(el('dt', '', key), el('dd', '', value));
      }
      list.tabIndex = 0;
      const words = `Metadata: ${plural(header.metadata.length, 'value')}`;
      this._body.before(
        el('details', 'jp-MaxLab-weights-metadata', el('summary', '', words), list)
      );
    }
    this._list();
  }

  private _list(): void {
    this._table.setRows(filtered(this._tensors, this._filter.value));
  }
}
