/** What a run of the graph gave: a card with the numbers of its inputs and outputs. */

import type { IRanValue, IRunGraphAnswer } from '../../proto/changes';
import { formatTime } from '../model/format';
import { at } from '../narrow';
import type { IRect } from '../render/camera';
import { button, el, icon } from './dom';

const FOLD = 'Show only the times';
const UNFOLD = 'Show the numbers';
/** Of the buttons for the zoom, in the lower right corner. */
const ZOOM_PX = 50;

/** Between the card and the border of the drawing. */
const MARGIN_PX = 10;

export class RanCard {
  readonly element = el('div', 'jp-MaxLab-ran');
  private readonly _head = el('span', 'jp-MaxLab-ranHead');
  private readonly _body = el('div', 'jp-MaxLab-ranBody');

  private readonly _fold = button('jp-MaxLab-iconButton', FOLD, () => this._setFolded(!this._body.hidden));

  /**
   * @param left the keyboard is to go back to the graph.
   * @param place the number of the place, of some over the drawing, at which it covers least.
   */
  constructor(
    left: () => void,
    private readonly _place: (rects: readonly IRect[]) => number
  ) {
    this.element.hidden = true;
    this.element.setAttribute('role', 'region');
    this.element.setAttribute('aria-label', 'What the run gave');
    const close = button('jp-MaxLab-iconButton', 'Close what the run gave', () => {
      this.close();
      left();
    });
    close.append(icon('close'));
    this._setFolded(false);
    this.element.append(el('div', 'jp-MaxLab-ranTop', this._head, this._fold, close), this._body);
  }

  show({ inputs, outputs, load_ns, run_ns, kernels }: IRunGraphAnswer): void {
    const count = `${kernels} kernel${kernels === 1 ? '' : 's'}`;
    this._head.textContent = `Compiled in ${formatTime(load_ns)}, ran ${count} in ${formatTime(run_ns)}`;
    this._body.replaceChildren(...outputs.map(one => this._value(one)), ...inputs.map(one => this._value(one)));
    this.element.hidden = false;
    this._setFolded(false);
    this._stand();
  }

  /** Goes to the corner of the drawing in which it covers least: the right ones first. */
  private _stand(): void {
    const { element } = this;
    const { offsetWidth: w, offsetHeight: h, parentElement: room } = element;
    const right = (room?.clientWidth ?? 0) - w - MARGIN_PX;
    const low = (room?.clientHeight ?? 0) - h - MARGIN_PX;
    const corners = [
      { x: right, y: MARGIN_PX },
      { x: MARGIN_PX, y: MARGIN_PX },
      { x: right - ZOOM_PX, y: low },
      { x: MARGIN_PX, y: low }
    ];
    const { x, y } = at(corners, this._place(corners.map(corner => ({ ...corner, w, h }))));
    element.style.transform = `translate(${Math.max(0, x)}px, ${Math.max(0, y)}px)`;
  }

  private _setFolded(isFolded: boolean): void {
    this._body.hidden = isFolded;
    const name = isFolded ? UNFOLD : FOLD;
    this._fold.title = name;
    this._fold.setAttribute('aria-label', name);
    this._fold.setAttribute('aria-expanded', String(!isFolded));
    this._fold.replaceChildren(icon(isFolded ? 'down' : 'up'));
  }

  close(): void {
    this.element.hidden = true;
  }

  private _value({ name, type, text, source }: IRanValue): HTMLElement {
    const from = source === '' ? null : el('span', 'jp-MaxLab-sub', ` from ${source}`);
    const numbers = el('pre', 'jp-MaxLab-ranNumbers', text);
    numbers.tabIndex = 0;
    numbers.setAttribute('aria-label', `${name}, ${type}`);
    return el('div', 'jp-MaxLab-ranValue', el('div', '', el('strong', '', name), ' ', el('code', '', type), from), numbers);
  }
}
