/** A few exclusive choices, as buttons of which one is pressed. */

import { button, el } from '../../view/dom';

export class Choice<Name extends string> {
  readonly element = el('div', 'jp-MaxLab-choice');
  private readonly _buttons = new Map<Name, HTMLElement>();

  constructor(
    label: string,
    names: readonly Name[],
    public value: Name,
    private readonly _changed: (name: Name) => void
  ) {
    this.element.setAttribute('role', 'group');
    this.element.setAttribute('aria-label', label);
    for (const name of names) {
      const node = button('', name, () => this.choose(name), name);
      this._buttons.set(name, node);
      this.element.append(node);
    }
    this._mark();
  }

  choose(name: Name): void {
    this.value = name;
    this._mark();
    this._changed(name);
  }

  private _mark(): void {
    for (const [name, node] of this._buttons) {
      node.setAttribute('aria-pressed', String(name === this.value));
    }
  }
}
