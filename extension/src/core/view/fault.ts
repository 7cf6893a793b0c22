/** The card that says why an action failed, and how to mend that; it stays until it is dismissed. */

import type { IFault } from '../../proto/messages';
import { button, el } from './dom';

/** The fault of an error that has only a sentence. */
export function plainFault(message: string): IFault {
  return { code: '', message, why: [], fix: '', where: '' };
}

export class FaultCard {
  readonly element = el('div', 'jp-MaxLab-fault');
  private _action = '';
  private _returnTo: HTMLElement | null = null;

  constructor() {
    this.element.setAttribute('role', 'alert');
    this.element.hidden = true;
    this.element.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        this.dismiss();
      }
    });
  }

  /** @param action what failed, as `Profile`; `clear` takes the card away when it succeeds. */
  show(action: string, { code, message, why, fix, where }: IFault): void {
    this._action = action;
    const { activeElement } = document;
    this._returnTo = activeElement instanceof HTMLElement ? activeElement : null;
    const close = button('jp-MaxLab-iconButton jp-MaxLab-faultClose', 'Dismiss', () => this.dismiss(), '×');
    this.element.replaceChildren(
      el(
        'div',
        'jp-MaxLab-faultHead',
        el('strong', '', `${action} failed`),
        code === '' ? '' : el('code', '', code),
        close
      ),
      el('p', '', message),
      ...why.map(line => el('p', 'jp-MaxLab-faultWhy', line)),
      where === '' ? '' : el('p', 'jp-MaxLab-faultWhy', `at ${where}`),
      fix === '' ? '' : el('p', 'jp-MaxLab-faultFix', `Fix: ${fix}`)
    );
    this.element.hidden = false;
  }

  /** The action is tried again, or has succeeded. */
  clear(action: string): void {
    if (this._action === action) {
      this.element.hidden = true;
    }
  }

  dismiss(): void {
    const hadFocus = this.element.contains(document.activeElement);
    this.element.hidden = true;
    if (hadFocus) {
      this._returnTo?.focus();
    }
  }
}
