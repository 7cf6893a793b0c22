/** A row of buttons of which those that find no room stand in a menu behind one more button. */

import { button, Disposables, icon } from './dom';
import { openMenu, type IMenuItem } from './menu';

export interface IOverflowOptions {
  /** What must not be wider than its room. */
  row: HTMLElement;
  /** Where the menu lies: it may cover anything in here. */
  room: () => HTMLElement;
  /** The buttons that may go into the menu, the first to go last. */
  buttons: () => readonly HTMLButtonElement[];
  /** Groups that are hidden when all their buttons are. */
  groups?: readonly HTMLElement[];
  name: string;
  /** Whether the row is too full; by default, whether something sticks out of it. */
  isFull?: () => boolean;
  /** What gets narrower when the row does; the row itself by default. */
  watched?: HTMLElement;
  /** Buttons were put into the menu, or back. */
  fitted?: () => void;
}

export class Overflow {
  /** The button that opens the menu; it belongs at the end of the row. */
  readonly more: HTMLButtonElement;
  private readonly _disposables = new Disposables();
  private _close: (() => void) | null = null;

  constructor(private readonly _options: IOverflowOptions) {
    this.more = button('jp-MaxLab-iconButton jp-MaxLab-more', _options.name, () => this._toggle());
    this.more.append(icon('more'));
    this.more.setAttribute('aria-haspopup', 'menu');
    this.more.setAttribute('aria-expanded', 'false');
    this.more.hidden = true;
    if (typeof ResizeObserver !== 'undefined') {
      const observer = new ResizeObserver(() => this.fit());
      observer.observe(_options.watched ?? _options.row);
      this._disposables.add(() => observer.disconnect());
    }
  }

  /** Puts as many buttons into the menu as the row is too narrow for. */
  fit(): void {
    const { row, buttons, groups, isFull, fitted } = this._options;
    if (row.clientWidth === 0) {
      return;
    }
    const all = [...buttons()];
    const hide = (one: HTMLElement, isHidden: boolean): void => {
      one.classList.toggle('jp-mod-overflown', isHidden);
    };
    const tidy = (): void =>
      groups?.forEach(group =>
        hide(group, [...group.children].every(one => one.classList.contains('jp-mod-overflown')))
      );
    all.forEach(one => hide(one, false));
    this.more.hidden = true;
    tidy();
    while ((isFull?.() ?? isCut(row)) && all.length > 0) {
      this.more.hidden = false;
      const last = all.pop();
      if (last !== undefined) {
        hide(last, true);
      }
      tidy();
    }
    if (this.more.hidden) {
      this._close?.();
    }
    fitted?.();
  }

  dispose(): void {
    this._close?.();
    this._disposables.dispose();
  }

  private _toggle(): void {
    if (this._close !== null) {
      this._close();
      return;
    }
    const gone = this._options.buttons().filter(one => one.classList.contains('jp-mod-overflown'));
    const close = openMenu(this._options.room(), this.more, gone.map(itemOf), () => {
      this._close = null;
      this.more.setAttribute('aria-expanded', 'false');
    });
    this._close = close;
    this.more.setAttribute('aria-expanded', 'true');
  }
}

/** Whether something in `row` sticks out of it. */
function isCut(row: HTMLElement): boolean {
  return row.scrollWidth > row.clientWidth;
}

function itemOf(one: HTMLButtonElement): IMenuItem {
  const name = one.getAttribute('aria-label') ?? one.textContent ?? '';
  const pressed = one.getAttribute('aria-pressed');
  return {
    label: name,
    name,
    isEnabled: one.getAttribute('aria-disabled') !== 'true',
    isOn: pressed === null ? null : pressed === 'true',
    run: () => one.click()
  };
}
