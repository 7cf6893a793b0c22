/** The palette: a field to type the name of an operation into, with the list of those that fit. */

import type { IOfferedOp } from '../../proto/changes';
import { el } from './dom';

/** Operations that were chosen last, the newest first: they stand first in a list that nothing narrows. */
const recent: string[] = [];
const MOST_RECENT = 6;

export interface IPaletteHost {
  /** The field has the keyboard: what fits now is wanted. */
  opened(): void;
  chosen(offer: IOfferedOp): void;
  /** The keyboard is to go back to the graph. */
  left(): void;
}

let palettes = 0;

/** What is offered that `query` names, the best match first; without one those that are in `last`. */
export function found(
  offers: readonly IOfferedOp[],
  query: string,
  last: readonly string[] = []
): IOfferedOp[] {
  const text = query.trim().toLowerCase();
  const rank = ({ name, family, says }: IOfferedOp): number => {
    if (text === '') {
      const at = last.indexOf(name);
      return at < 0 ? 1 : at / last.length;
    }
    if (name === text) {
      return 0;
    }
    if (name.startsWith(text)) {
      return 1;
    }
    if (name.includes(text)) {
      return 2;
    }
    if (family.startsWith(text)) {
      return 3;
    }
    return says.toLowerCase().includes(text) ? 4 : 5;
  };
  const ranked = offers.map(offer => ({ offer, at: rank(offer) })).filter(({ at }) => at < 5);
  return ranked.sort((a, b) => a.at - b.at).map(({ offer }) => offer);
}

export class Palette {
  readonly element = el('div', 'jp-MaxLab-palette');
  readonly input = el('input', 'jp-MaxLab-paletteInput');
  private readonly _list = el('div', 'jp-MaxLab-paletteList');
  private readonly _note = el('div', 'jp-MaxLab-paletteNote');
  private readonly _id = `jp-MaxLab-palette-${(palettes += 1)}`;
  private _offers: readonly IOfferedOp[] = [];
  private _shown: IOfferedOp[] = [];
  private _at = 0;
  private _isWaiting = false;

  constructor(private readonly _host: IPaletteHost) {
    const { input } = this;
    input.type = 'text';
    input.spellcheck = false;
    input.autocomplete = 'off';
    input.placeholder = 'Add an operation  ( A )';
    input.setAttribute('aria-label', 'Add an operation');
    input.setAttribute('role', 'combobox');
    input.setAttribute('aria-autocomplete', 'list');
    input.setAttribute('aria-controls', this._id);
    input.setAttribute('aria-expanded', 'false');
    this._list.id = this._id;
    this._list.setAttribute('role', 'listbox');
    this._list.setAttribute('aria-label', 'Operations that fit');
    const drop = el('div', 'jp-MaxLab-paletteDrop', this._note, this._list);
    drop.hidden = true;
    this.element.append(input, drop);
    input.addEventListener('focus', () => {
      this._open(true);
      _host.opened();
    });
    input.addEventListener('blur', () => this._open(false));
    input.addEventListener('input', () => this._find());
    input.addEventListener('keydown', event => this._key(event));
    // The field keeps the keyboard while the mouse is in the list.
    drop.addEventListener('mousedown', event => event.preventDefault());
    this._list.addEventListener('click', event => {
      const { target } = event;
      const row = target instanceof Element ? target.closest('[data-index]') : null;
      this._choose(Number(row?.getAttribute('data-index') ?? '-1'));
    });
  }

  /** What an operation would do that is chosen now: it is said above the list. */
  explain(text: string): void {
    this._note.textContent = text;
  }

  /** Nothing is known yet of what fits. */
  wait(): void {
    this._isWaiting = true;
    this._offers = [];
    this._find();
  }

  show(offers: readonly IOfferedOp[]): void {
    this._isWaiting = false;
    this._offers = offers;
    this._find();
  }

  clear(): void {
    this.input.value = '';
    this._find();
  }

  private get _drop(): HTMLElement | null {
    return this._list.parentElement;
  }

  private _open(isOpen: boolean): void {
    if (this._drop !== null) {
      this._drop.hidden = !isOpen;
    }
    this.input.setAttribute('aria-expanded', String(isOpen));
    this._mark();
  }

  private _find(): void {
    this._shown = found(this._offers, this.input.value, recent);
    this._at = 0;
    const rows = this._shown.map((offer, index) => this._row(offer, index));
    if (rows.length === 0) {
      const text = this._isWaiting ? 'Looking for what fits …' : 'Nothing that fits has this name';
      rows.push(el('div', 'jp-MaxLab-paletteNone', text));
    }
    this._list.replaceChildren(...rows);
    this._list.scrollTop = 0;
    this._mark();
  }

  private _row(offer: IOfferedOp, index: number): HTMLElement {
    const { name, family, says, result, needs } = offer;
    const gives = needs.length > 0 ? `with ${needs.join(', ')} …` : result;
    const row = el(
      'div',
      'jp-MaxLab-paletteRow',
      el('span', 'jp-MaxLab-paletteName', name),
      el('span', 'jp-MaxLab-paletteFamily', family),
      el('span', 'jp-MaxLab-paletteResult', gives),
      el('span', 'jp-MaxLab-paletteSays', says)
    );
    row.id = `${this._id}-${index}`;
    row.dataset.index = String(index);
    row.setAttribute('role', 'option');
    row.setAttribute('aria-label', `${name}: ${says} ${needs.length > 0 ? `needs ${needs.join(', ')}` : `gives ${result}`}`);
    return row;
  }

  private _mark(): void {
    const isOpen = this._drop?.hidden === false;
    this._list.querySelectorAll('[role="option"]').forEach((row, index) => {
      row.setAttribute('aria-selected', String(index === this._at));
      if (index === this._at && isOpen && typeof row.scrollIntoView === 'function') {
        row.scrollIntoView({ block: 'nearest' });
      }
    });
    if (isOpen && this._shown.length > 0) {
      this.input.setAttribute('aria-activedescendant', `${this._id}-${this._at}`);
    } else {
      this.input.removeAttribute('aria-activedescendant');
    }
  }

  private _key(event: KeyboardEvent): void {
    const count = this._shown.length;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const step = event.key === 'ArrowDown' ? 1 : -1;
      this._at = count === 0 ? 0 : (this._at + step + count) % count;
      this._mark();
    } else if (event.key === 'Enter') {
      this._choose(this._at);
    } else if (event.key === 'Escape') {
      this.clear();
      this._host.left();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  private _choose(index: number): void {
    const offer = this._shown[index];
    if (offer !== undefined) {
      const known = recent.indexOf(offer.name);
      if (known >= 0) {
        recent.splice(known, 1);
      }
      recent.unshift(offer.name);
      recent.length = Math.min(recent.length, MOST_RECENT);
      this.clear();
      this._host.chosen(offer);
    }
  }
}
