/** A card with the keys and gestures of a panel, over its drawing. */

import { button, el, icon } from '../view/dom';

/** Keys, separated by spaces, and what they do; a gesture stands in the same place. */
export type KeyRow = readonly [keys: string, what: string];

export class KeysCard {
  readonly button: HTMLButtonElement;
  private _card: HTMLElement | null = null;

  /** @param _room what the card is laid over; it takes the keyboard back when the card closes. */
  constructor(
    private readonly _room: HTMLElement,
    private readonly _rows: readonly KeyRow[]
  ) {
    this.button = button('jp-MaxLab-iconButton', 'Keys and gestures (?)', () => this.toggle());
    this.button.append(icon('help'));
    this.button.setAttribute('aria-expanded', 'false');
  }

  get isOpen(): boolean {
    return this._card !== null;
  }

  toggle(): void {
    if (this._card !== null) {
      const hadFocus = this._card.contains(document.activeElement);
      this._card.remove();
      this._card = null;
      if (hadFocus) {
        this._room.focus();
      }
    } else {
      this._card = this._make();
      this._room.append(this._card);
      this._card.querySelector('button')?.focus();
    }
    this.button.setAttribute('aria-expanded', String(this.isOpen));
  }

  private _make(): HTMLElement {
    const list = el('dl', 'jp-MaxLab-facts');
    for (const [keys, what] of this._rows) {
      const term = el('dt');
      keys.split(' ').forEach(key => term.append(el('kbd', '', key), ' '));
      list.append(term, el('dd', '', what));
    }
    const done = button('jp-MaxLab-iconButton', 'Close', () => this.toggle());
    done.append(icon('close'));
    const card = el('div', 'jp-MaxLab-help', el('h2', '', 'Keys and gestures'), done, list);
    card.setAttribute('role', 'dialog');
    card.setAttribute('aria-label', 'Keys and gestures');
    // The drawing below must not take what is done in the card for its own.
    for (const type of ['pointerdown', 'pointermove', 'pointerup', 'dblclick', 'wheel'] as const) {
      card.addEventListener(type, event => event.stopPropagation());
    }
    card.addEventListener('keydown', event => {
      if (event.key === 'Escape' || event.key === '?') {
        this.toggle();
        event.preventDefault();
      }
      event.stopPropagation();
    });
    return card;
  }
}
