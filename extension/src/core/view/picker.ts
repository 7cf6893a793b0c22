/** A list to choose from by typing a part of a name, over the drawing: for what a pointer would drag. */

import { el } from './dom';
import { Listing } from './listing';

export interface IChoice {
  label: string;
  /** What comes of it, or is there now. */
  says: string;
  chosen(): void;
}

/** Those that `query` names, those that begin with it first. */
export function matching(choices: readonly IChoice[], query: string): IChoice[] {
  const words = query.trim().toLowerCase().split(/\s+/);
  const found = choices.filter(({ label, says }) => {
    const text = `${label} ${says}`.toLowerCase();
    return words.every(word => text.includes(word));
  });
  const begins = ({ label }: IChoice): number => (label.toLowerCase().startsWith(words[0] ?? '') ? 0 : 1);
  return found.sort((a, b) => begins(a) - begins(b));
}

/** More than these are not listed: a part of the name brings the others. */
const MOST = 200;

export class Picker {
  readonly element = el('div', 'jp-MaxLab-picker');
  private readonly _note = el('div', 'jp-MaxLab-paletteNote');
  private readonly _listing: Listing<IChoice>;
  private _choices: readonly IChoice[] = [];
  private _none = '';

  constructor(private readonly _left: () => void) {
    const { element } = this;
    this._listing = new Listing<IChoice>('A part of the name or type', {
      found: text => matching(this._choices, text).slice(0, MOST),
      none: () => this._none,
      row: ({ label, says }) => ({
        label: `${label}: ${says}`,
        element: el(
          'div',
          'jp-MaxLab-pickerRow',
          el('span', 'jp-MaxLab-paletteName', label),
          el('span', 'jp-MaxLab-pickerSays', says)
        )
      }),
      chosen: choice => choice.chosen(),
      left: () => this.close()
    });
    const { input, list } = this._listing;
    element.hidden = true;
    element.append(this._note, input, list);
    element.addEventListener('keydown', event => this._listing.key(event));
    element.addEventListener('focusout', event => {
      if (!(event.relatedTarget instanceof Node) || !element.contains(event.relatedTarget)) {
        this._hide();
      }
    });
    element.addEventListener('mousedown', event => {
      if (event.target !== input) {
        event.preventDefault();
      }
    });
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  /** Lists `choices` under a title; `none` is said where there are none. */
  open(title: string, choices: readonly IChoice[], none = 'Nothing has this name'): void {
    this._choices = choices;
    this._none = none;
    this._note.textContent = title;
    this._listing.input.value = '';
    this._listing.name(title);
    this.element.hidden = false;
    this._listing.isOpen = true;
    this._listing.find();
    this._listing.input.focus();
  }

  /** What can be chosen is not known yet; returns whether that is still waited for. */
  wait(title: string, text = 'Looking for what fits …'): () => boolean {
    this.open(title, [], text);
    const choices = this._choices;
    return () => this.isOpen && this._choices === choices;
  }

  /** Says above the list why a choice came to nothing. */
  explain(text: string): void {
    this._note.textContent = text;
  }

  close(): void {
    if (this.isOpen) {
      this._hide();
      this._left();
    }
  }

  private _hide(): void {
    this.element.hidden = true;
    this._listing.isOpen = false;
  }
}
