/** The search of a view: reads the query, lists what it finds, completes it and says what is wrong. */

import type { IMarks } from '../../proto/difference';
import { plural } from '../model/format';
import type { GraphModel } from '../model/graph';
import { complete, type ICompletions } from '../query/complete';
import { Rows } from '../query/finding';
import { search, type IMatch } from '../query/search';
import { QueryError } from '../query/syntax';
import type { Bar } from './bar';
import { button, el } from './dom';
import { FoundList } from './found-list';

export interface IFinderHost {
  readonly model: GraphModel;
  readonly bar: Bar;
  /** There are other matches, or they stand in another order. */
  found(matches: IMatch[]): void;
  /** A row of the list was pressed. */
  goToMatch(index: number): void;
}

export class Finder {
  readonly list: FoundList;
  private readonly _completions = el('div', 'jp-MaxLab-foundHints');
  private _rows: Rows | null = null;
  private _marks: IMarks | null = null;
  private _offered: ICompletions = { from: 0, options: [] };

  constructor(private readonly _host: IFinderHost) {
    this.list = new FoundList({
      ordered: matches => _host.found(matches),
      chosen: index => _host.goToMatch(index)
    });
    this.list.element.prepend(this._completions);
  }

  /** Listens to the search of the bar, which is there when the view is put together. */
  attach(): void {
    const { search: input } = this._host.bar;
    input.setAttribute('role', 'combobox');
    input.setAttribute('aria-haspopup', 'grid');
    input.setAttribute('aria-controls', this.list.id);
    input.setAttribute('aria-expanded', 'false');
    input.addEventListener('keydown', event => {
      const [first] = this._offered.options;
      if (event.key === 'Tab' && !event.shiftKey && this.list.isOpen && first !== undefined) {
        event.preventDefault();
        event.stopPropagation();
        this._accept(first.text);
      }
    });
    // The search keeps the keyboard: with nothing marked in it, what was found is what is copied.
    input.addEventListener('copy', event => {
      if (this.list.isOpen && input.selectionStart === input.selectionEnd && event.clipboardData !== null) {
        event.clipboardData.setData('text/plain', this.list.csv());
        event.preventDefault();
      }
    });
    input.addEventListener('focus', () => this._open(input.value.trim() !== ''));
    input.addEventListener('blur', () => this._open(false));
  }

  /** There is another document: what was known of the old one is not asked again. */
  forget(): void {
    this._rows = null;
  }

  setMarks(marks: IMarks): void {
    this._marks = marks;
    this._rows = null;
  }

  /** The matches of `query`, and in words how many there are or what is wrong. */
  find(query: string): { matches: IMatch[]; count: string; said: string } {
    const { model, bar } = this._host;
    this._rows ??= new Rows(model.document, this._marks);
    bar.search.setAttribute('aria-invalid', 'false');
    this._hint(query, this._rows);
    const isEmpty = query.trim() === '';
    this._open(!isEmpty && document.activeElement === bar.search);
    try {
      const { matches, missing } = search(model, this._rows, query, this._marks !== null);
      if (missing !== '') {
        this.list.explain(missing);
        return { matches, count: 'none', said: missing };
      }
      this.list.show(matches);
      const count = matches.length;
      const said = isEmpty ? '' : plural(count, 'match').replace('matchs', 'matches');
      return { matches, count: isEmpty ? '' : count === 0 ? 'none' : String(count), said };
    } catch (error) {
      if (!(error instanceof QueryError)) {
        throw error;
      }
      bar.search.setAttribute('aria-invalid', 'true');
      this._explain(query, error);
      return { matches: [], count: '?', said: error.said };
    }
  }

  /** Marks the row of the current match. */
  setCurrent(index: number): void {
    this.list.setCurrent(index);
    this._point();
  }

  private _open(isOpen: boolean): void {
    this.list.element.hidden = !isOpen;
    this._host.bar.search.setAttribute('aria-expanded', String(isOpen));
    this._point();
  }

  private _point(): void {
    const { active } = this.list;
    const { search: input } = this._host.bar;
    if (active === null) {
      input.removeAttribute('aria-activedescendant');
    } else {
      input.setAttribute('aria-activedescendant', active);
    }
  }

  /** Shows the query with the place that is wrong, and what was expected there. */
  private _explain(query: string, { place, said }: QueryError): void {
    const end = Math.min(query.length, place + 1);
    const wrong = el('mark', 'jp-MaxLab-foundWrong', query.slice(place, end) || ' ');
    const line = el('code', 'jp-MaxLab-foundQuery', query.slice(0, place), wrong, query.slice(end));
    this.list.explain(line, el('span', '', said));
  }

  private _hint(query: string, rows: Rows): void {
    const { search: input } = this._host.bar;
    const cursor = input.value === query ? (input.selectionStart ?? query.length) : query.length;
    this._offered = complete(query, cursor, rows);
    const { options } = this._offered;
    this._completions.hidden = options.length === 0;
    this._completions.replaceChildren(
      ...options.map(({ text, says }, i) => {
        const made = button('jp-MaxLab-foundHint', `${text}: ${says}`, () => this._accept(text), text);
        made.tabIndex = -1;
        if (i === 0) {
          made.append(el('kbd', '', 'Tab'));
        }
        return made;
      })
    );
  }

  private _accept(text: string): void {
    const { search: input } = this._host.bar;
    const end = input.selectionStart ?? input.value.length;
    input.setRangeText(text, this._offered.from, end, 'end');
    input.dispatchEvent(new Event('input', { bubbles: true }));
    input.focus();
  }
}
