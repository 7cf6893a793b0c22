/** What a run of the graph gave: a card with the numbers of its inputs and outputs. */

import type { IRanValue, IRunGraphAnswer } from '../../proto/changes';
import { formatTime } from '../model/format';
import { button, el, icon } from './dom';

export class RanCard {
  readonly element = el('div', 'jp-MaxLab-ran');
  private readonly _head = el('span', 'jp-MaxLab-ranHead');
  private readonly _body = el('div', 'jp-MaxLab-ranBody');

  constructor(left: () => void) {
    this.element.hidden = true;
    this.element.setAttribute('role', 'region');
    this.element.setAttribute('aria-label', 'What the run gave');
    const close = button('jp-MaxLab-iconButton', 'Close what the run gave', () => {
      this.close();
      left();
    });
    close.append(icon('close'));
    this.element.append(el('div', 'jp-MaxLab-ranTop', this._head, close), this._body);
  }

  show({ inputs, outputs, load_ns, run_ns, kernels }: IRunGraphAnswer): void {
    const count = `${kernels} kernel${kernels === 1 ? '' : 's'}`;
    this._head.textContent = `Compiled in ${formatTime(load_ns)}, ran ${count} in ${formatTime(run_ns)}`;
    this._body.replaceChildren(...outputs.map(one => this._value(one)), ...inputs.map(one => this._value(one)));
    this.element.hidden = false;
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
