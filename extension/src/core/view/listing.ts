/** A field with the list of what it finds below it: by typing, arrows, Enter and Escape, or the mouse. */

import { el } from './dom';

export interface IListed {
  element: HTMLElement;
  /** What a screen reader says of it. */
  label: string;
}

export interface IListingHost<T> {
  /** What the text finds, the best first. */
  found(text: string): readonly T[];
  row(choice: T): IListed;
  /** What is said where nothing is found. */
  none(): string;
  chosen(choice: T): void;
  /** Escape. */
  left(): void;
  /** Another one is marked; null where there is none. */
  marked?(choice: T | null): void;
}

let listings = 0;

export class Listing<T> {
  readonly input = el('input', 'jp-MaxLab-paletteInput');
  readonly list = el('div', 'jp-MaxLab-paletteList');
  private readonly _id = `jp-MaxLab-listing-${(listings += 1)}`;
  private _shown: readonly T[] = [];
  private _at = 0;
  private _isOpen = false;

  constructor(
    placeholder: string,
    private readonly _host: IListingHost<T>
  ) {
    const { input, list } = this;
    input.type = 'text';
    input.spellcheck = false;
    input.autocomplete = 'off';
    input.placeholder = placeholder;
    input.setAttribute('role', 'combobox');
    input.setAttribute('aria-autocomplete', 'list');
    input.setAttribute('aria-controls', this._id);
    list.id = this._id;
    list.setAttribute('role', 'listbox');
    // A list that scrolls would be a stop of Tab, which is gone as soon as the keyboard comes to it.
    list.tabIndex = -1;
    input.addEventListener('input', () => this.find());
    list.addEventListener('click', event => {
      const choice = this.choiceAt(event.target);
      if (choice !== null) {
        _host.chosen(choice);
      }
    });
    this._say();
  }

  /** Calls the field and its list. */
  name(field: string, list = field): void {
    this.input.setAttribute('aria-label', field);
    this.list.setAttribute('aria-label', list);
  }

  get marked(): T | null {
    return this._shown[this._at] ?? null;
  }

  set isOpen(isOpen: boolean) {
    this._isOpen = isOpen;
    this._mark();
  }

  /** What the row below an element stands for. */
  choiceAt(target: EventTarget | null): T | null {
    const row = target instanceof Element ? target.closest('[data-index]') : null;
    return this._shown[Number(row?.getAttribute('data-index') ?? '-1')] ?? null;
  }

  /** Marks one that is shown. */
  mark(choice: T): void {
    this._at = Math.max(0, this._shown.indexOf(choice));
    this._mark();
  }

  /** Lists again what is found. */
  find(): void {
    this._shown = this._host.found(this.input.value);
    this._at = 0;
    const rows = this._shown.map((choice, index) => {
      const { element, label } = this._host.row(choice);
      element.id = `${this._id}-${index}`;
      element.dataset.index = String(index);
      element.setAttribute('role', 'option');
      element.setAttribute('aria-label', label);
      return element;
    });
    this.list.replaceChildren(...(rows.length > 0 ? rows : [el('div', 'jp-MaxLab-paletteNone', this._host.none())]));
    this.list.scrollTop = 0;
    this._mark();
  }

  private _mark(): void {
    this.list.querySelectorAll('[role="option"]').forEach((row, index) => {
      row.setAttribute('aria-selected', String(index === this._at));
      if (index === this._at && this._isOpen && typeof row.scrollIntoView === 'function') {
        row.scrollIntoView({ block: 'nearest' });
      }
    });
    this._say();
    this._host.marked?.(this._isOpen ? this.marked : null);
  }

  private _say(): void {
    const { input, _isOpen: isOpen } = this;
    input.setAttribute('aria-expanded', String(isOpen));
    if (isOpen && this._shown.length > 0) {
      input.setAttribute('aria-activedescendant', `${this._id}-${this._at}`);
    } else {
      input.removeAttribute('aria-activedescendant');
    }
  }

  /** Does what a key in the field does; everything else stays the browser's. */
  key(event: KeyboardEvent): void {
    const count = this._shown.length;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const step = event.key === 'ArrowDown' ? 1 : -1;
      this._at = count === 0 ? 0 : (this._at + step + count) % count;
      this._mark();
    } else if (event.key === 'Enter') {
      if (this.marked !== null) {
        this._host.chosen(this.marked);
      }
    } else if (event.key === 'Escape') {
      this._host.left();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
