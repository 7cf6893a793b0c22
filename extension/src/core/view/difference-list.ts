/** The list of where two graphs differ, to step through with keys or by clicks, with its legend. */

import type { IGraphDifference } from '../../proto/document';
import { SIGNS } from '../model/changes';
import { plural } from '../model/format';
import { button, el, icon } from './dom';

type Kind = IGraphDifference['kind'];

const KINDS: readonly Kind[] = ['added', 'removed', 'changed', 'moved', 'renamed'];
/** These are said also where there is none. */
const ALWAYS = 3;

export class DifferenceList {
  readonly element = el('section', 'jp-MaxLab-differences');
  private readonly _rows: HTMLElement[] = [];
  private readonly _list = el('div', 'jp-MaxLab-differenceRows');
  private readonly _place = el('span', 'jp-MaxLab-differencePlace');
  private _current = -1;

  constructor(
    private readonly _differences: readonly IGraphDifference[],
    more: number,
    labels: readonly string[],
    private readonly _go: (difference: IGraphDifference) => void,
    /** Stands at the end of the head. */
    extra: HTMLElement | null = null
  ) {
    this.element.setAttribute('aria-label', `Differences: ${labels.join(' → ')}`);
    this._list.setAttribute('role', 'listbox');
    this._list.setAttribute('aria-label', 'Differences');
    this._list.tabIndex = 0;
    this._list.addEventListener('keydown', event => this._key(event));
    _differences.forEach((one, n) => this._rows.push(this._row(one, n)));
    this._list.append(...this._rows);
    const total = _differences.length + more;
    if (more > 0) {
      this._list.append(el('div', 'jp-MaxLab-differenceNote', `${more} more are not listed`));
    } else if (total === 0) {
      this._list.append(el('div', 'jp-MaxLab-differenceNote', 'The two graphs are the same.'));
    }
    const counts = KINDS.map((kind, n) => {
      const count = _differences.filter(one => one.kind === kind).length;
      return n >= ALWAYS && count === 0 ? null : el('span', 'jp-MaxLab-differenceKey', badge(kind), `${count} ${kind}`);
    });
    this._place.textContent = plural(total, 'difference');
    this.element.append(
      el(
        'div',
        'jp-MaxLab-differenceHead',
        ...counts,
        el('span', 'jp-MaxLab-differenceSpring'),
        this._place,
        button('jp-MaxLab-iconButton', 'Previous difference', () => this.step(-1), icon('up')),
        button('jp-MaxLab-iconButton', 'Next difference', () => this.step(1), icon('down')),
        extra
      ),
      this._list
    );
  }

  /** Goes to the next (`1`) or previous (`-1`) difference, round and round. */
  step(step: 1 | -1): void {
    const count = this._rows.length;
    if (count > 0) {
      const from = this._current < 0 && step < 0 ? 0 : this._current;
      this._choose((from + step + count) % count);
    }
  }

  /** Marks the row of an operation that was selected in one of the graphs. */
  select(ids: readonly string[], side: 'before' | 'after'): void {
    const [id] = ids;
    const isCurrent = id !== undefined && this._differences[this._current]?.[side] === id;
    // What is drawn on another operation has selected that: the row stays.
    if (!isCurrent && id !== undefined) {
      const found = this._differences.findIndex(one => one[side] === id);
      if (found >= 0) {
        this._mark(found);
      }
    }
  }

  private _choose(index: number): void {
    const difference = this._differences[index];
    if (difference !== undefined) {
      this._mark(index);
      this._go(difference);
    }
  }

  private _mark(index: number): void {
    this._rows[this._current]?.setAttribute('aria-selected', 'false');
    this._current = index;
    const row = this._rows[index];
    row?.setAttribute('aria-selected', 'true');
    this._list.setAttribute('aria-activedescendant', row?.id ?? '');
    this._place.textContent = `${index + 1} of ${this._rows.length}`;
    if (row !== undefined) {
      // No more than it takes: the page must not move.
      const { offsetTop, offsetHeight } = row;
      const { scrollTop, clientHeight } = this._list;
      if (offsetTop < scrollTop) {
        this._list.scrollTop = offsetTop;
      } else if (offsetTop + offsetHeight > scrollTop + clientHeight) {
        this._list.scrollTop = offsetTop + offsetHeight - clientHeight;
      }
    }
  }

  private _key(event: KeyboardEvent): void {
    const last = this._rows.length - 1;
    const steps: Record<string, number> = {
      ArrowDown: Math.min(last, this._current + 1),
      ArrowUp: Math.max(0, this._current - 1),
      Home: 0,
      End: last,
      Enter: Math.max(0, this._current)
    };
    const next = steps[event.key];
    if (next !== undefined && !event.ctrlKey && !event.metaKey) {
      this._choose(next);
      event.preventDefault();
      event.stopPropagation();
    }
  }

  private _row(one: IGraphDifference, n: number): HTMLElement {
    const row = el(
      'div',
      'jp-MaxLab-difference',
      badge(one.kind),
      el('span', 'jp-MaxLab-differenceName', one.name),
      el('span', 'jp-MaxLab-differenceWhat', one.what.join('   ')),
      el('span', 'jp-MaxLab-differenceScope', one.scope)
    );
    row.id = `jp-MaxLab-difference-${nextId()}`;
    row.setAttribute('role', 'option');
    row.setAttribute('aria-selected', 'false');
    row.setAttribute('aria-label', [one.kind, one.name, one.scope, ...one.what].filter(Boolean).join(', '));
    row.title = one.what.join('\n');
    row.addEventListener('click', () => this._choose(n));
    return row;
  }
}

let ids = 0;
function nextId(): number {
  ids += 1;
  return ids;
}

/** The sign of a kind, as it stands on the operations. */
function badge(kind: Kind): HTMLElement {
  const found = el('span', `jp-MaxLab-differenceSign jp-mod-${kind}`, SIGNS[kind]);
  found.setAttribute('aria-hidden', 'true');
  return found;
}
