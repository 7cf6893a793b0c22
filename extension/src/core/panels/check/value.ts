/** What flows along the edge of the selected operation: facts, histogram, picture, first elements. */

import { csvOf } from '../../csv';
import { csvButton } from '../../view/copying';
import { plural } from '../../model/format';
import { asRegion, button, el } from '../../view/dom';
import { facts, section } from '../../view/kernel';
import type { IPanelView } from '../../view/panel';
import { Surface } from '../surface';
import type { IValueAnswer } from '../../../proto/checks';
import { histogramOf, histogramText, imageOf, shapeText, short, type IImage } from './answers';
import { paintHistogram, paintImage } from './draw';
import { at } from '../../narrow';

/** How long one must stay at an operation before its value is read. */
const PAUSE_MS = 150;

export class ValueSection {
  readonly element = el('div', 'jp-MaxLab-value');
  private _surfaces: Surface[] = [];
  private _node: string | null = null;
  private _value: IValueAnswer | null = null;
  private _number = 0;
  private _timer = 0;
  private _isOn = false;

  constructor(private readonly _view: IPanelView) {
    this.element.setAttribute('aria-live', 'polite');
    this._show(el('p', 'jp-MaxLab-note', 'Select an operation to see what it computes.'));
  }

  /** Values are asked for while the panel is in front. */
  on(isOn: boolean): void {
    this._isOn = isOn;
    if (isOn && this._value === null) {
      this._want();
    }
  }

  /** There is another run: what was read is out of date. */
  update(): void {
    this._value = null;
    this._want();
  }

  selected(ids: readonly string[]): void {
    const node = ids.length === 1 ? (ids[0] ?? null) : null;
    if (node !== this._node) {
      this._node = node;
      this._value = null;
      this._want();
    }
  }

  resized(): void {
    for (const surface of this._surfaces) {
      surface.measure();
      surface.redraw();
    }
  }

  dispose(): void {
    this._number += 1;
    clearTimeout(this._timer);
    this._clear();
  }

  private _want(): void {
    clearTimeout(this._timer);
    this._number += 1;
    if (!this._isOn) {
      return;
    }
    const node = this._node === null ? undefined : this._view.model.node(this._node);
    if (node === undefined) {
      this._show(el('p', 'jp-MaxLab-note', 'Select an operation to see what it computes.'));
      return;
    }
    if (this._view.notLive !== null) {
      this._show(
        el('p', 'jp-MaxLab-note', `Values need a running kernel: ${this._view.notLive}.`)
      );
      return;
    }
    // Walking through a graph with the arrow keys asks for the operation where one stops.
    this._timer = window.setTimeout(() => void this._ask(node.node.id), PAUSE_MS);
  }

  private async _ask(node: string): Promise<void> {
    this._number += 1;
    const number = this._number;
    this._show(el('p', 'jp-MaxLab-note', `Reading what ${node} computes…`));
    try {
      const { data, buffers } = await this._view.ask('value', { node });
      if (number === this._number) {
        this._value = data;
        this._showValue(data, imageOf(data, buffers));
      }
    } catch (error) {
      if (number === this._number) {
        const words = error instanceof Error ? error.message : String(error);
        this._show(
          el('p', '', words),
          button('jp-MaxLab-link', 'Ask again', () => void this._ask(node), 'Ask again')
        );
      }
    }
  }

  private _showValue(value: IValueAnswer, image: IImage | null): void {
    const strange = value.nan + value.inf;
    const rows: [string, string | HTMLElement][] = [
      ['type', shapeText(value)],
      ['from', value.text],
      ['range', `${short(value.min)} to ${short(value.max)}`],
      ['mean', `${short(value.mean)} ± ${short(value.std)}`],
      ['zeros', `${value.zero} of ${value.size}`]
    ];
    if (strange > 0) {
      const words = `${value.nan} NaN, ${value.inf} infinite`;
      rows.push(['not finite', el('strong', 'jp-MaxLab-bad', words)]);
    }
    const parts: HTMLElement[] = [section(`${value.op} ${value.node}`, facts(rows))];
    this._clear();
    const histogram = histogramOf(value);
    if (histogram !== null) {
      parts.push(
        this._figure('Histogram', histogramText(histogram), 'jp-MaxLab-histogram', (ctx, w, h) =>
          paintHistogram(ctx, histogram, w, h, this._view.theme)
        )
      );
    }
    if (image !== null) {
      const words =
        `${plural(image.rows, 'row')} of ${plural(image.columns, 'point')}, ` +
        `${short(image.low)} cold to ${short(image.high)} hot` +
        (value.nan > 0 ? '; NaN in the colour of errors' : '');
      const figure = this._figure('Picture', words, 'jp-MaxLab-heatMap', (ctx, w, h) =>
        paintImage(ctx, image, w, h, this._view.theme)
      );
      // As high as the picture will be, where it is wider than high.
      const { style } = at(this._surfaces, this._surfaces.length - 1).element;
      style.aspectRatio = `${image.columns} / ${image.rows}`;
      parts.push(figure);
    }
    if (value.corner.length > 0) {
      parts.push(section('First elements', cornerTable(value.corner)));
    }
    this.element.replaceChildren(...parts);
    this.resized();
  }

  private _figure(
    title: string,
    words: string,
    name: string,
    paint: (ctx: CanvasRenderingContext2D, width: number, height: number) => void
  ): HTMLElement {
    const surface = new Surface(name, [paint]);
    surface.element.setAttribute('role', 'img');
    surface.element.setAttribute('aria-label', words);
    this._surfaces.push(surface);
    return section(title, surface.element, el('p', 'jp-MaxLab-note', words));
  }

  private _show(...children: HTMLElement[]): void {
    this._clear();
    this.element.replaceChildren(...children);
  }

  private _clear(): void {
    this._surfaces.forEach(surface => surface.dispose());
    this._surfaces = [];
  }
}

function cornerTable(corner: readonly (readonly string[])[]): HTMLElement {
  const body = el('tbody');
  corner.forEach(row => {
    const line = el('tr');
    row.forEach(text =>
      line.append(el('td', /nan|inf/i.test(text) ? 'jp-MaxLab-bad' : '', text))
    );
    body.append(line);
  });
  const table = el('table', 'jp-MaxLab-corner', body);
  table.setAttribute('aria-label', 'First elements');
  const csv = (): string => csvOf(corner[0]?.map((_, n) => String(n)) ?? [], corner);
  const room = el('div', 'jp-MaxLab-cornerRoom', csvButton(csv, table), table);
  asRegion(room, 'First elements');
  return room;
}
