/** What a graph is coloured by, while it is: the time of the last profile, or numbers of the user's own. */

import type { IGraphDocument, IOverlay } from '../../proto/document';
import { el } from './dom';

const TIME = 'kernel time';

export class Colouring {
  private _overlays: readonly IOverlay[] = [];
  private _hasTime = false;
  /** The title of the overlay; null for time. */
  private _title: string | null = null;
  private readonly _select = el('select', 'jp-MaxLab-colouring');

  constructor(private readonly _changed: () => void) {
    this._select.setAttribute('aria-label', 'Colour by');
    this._select.addEventListener('change', () => {
      const { selectedIndex } = this._select;
      this._choose(this._choices[selectedIndex] ?? null);
    });
  }

  /** The numbers; null for time. */
  get own(): IOverlay | null {
    return this._overlays.find(one => one.title === this._title) ?? null;
  }

  /** Chooses between all there is; null where there is nothing to choose. */
  get chooser(): HTMLElement | null {
    return this._choices.length > 1 ? this._select : null;
  }

  get canHeat(): boolean {
    return this._choices.length > 0;
  }

  /** What is chosen, as people read it. */
  get title(): string {
    return this.own?.title ?? TIME;
  }

  /** Takes what `document` has; true when some of it is new, and was chosen. */
  follow(document: IGraphDocument): boolean {
    const before = new Map(this._overlays.map(one => [one.title, JSON.stringify(one)]));
    const hadTime = this._hasTime;
    this._overlays = document.overlays ?? [];
    this._hasTime = document.profile !== null;
    const fresh = this._overlays.filter(one => before.get(one.title) !== JSON.stringify(one));
    const newest = fresh[fresh.length - 1];
    const isNewTime = this._hasTime && !hadTime;
    if (newest !== undefined) {
      this._title = newest.title;
    } else if (isNewTime || this.own === null) {
      this._title = this._hasTime ? null : (this._overlays[this._overlays.length - 1]?.title ?? null);
    }
    this._list();
    return newest !== undefined || isNewTime;
  }

  /** Chooses the next one, round and round. */
  next(): void {
    const choices = this._choices;
    const at = choices.indexOf(this.own?.title ?? null);
    this._choose(choices[(at + 1) % choices.length] ?? null);
  }

  private get _choices(): (string | null)[] {
    return [...(this._hasTime ? [null] : []), ...this._overlays.map(one => one.title)];
  }

  private _choose(title: string | null): void {
    this._title = title;
    this._list();
    this._changed();
  }

  private _list(): void {
    const choices = this._choices;
    this._select.replaceChildren(...choices.map(title => el('option', '', title ?? TIME)));
    this._select.selectedIndex = choices.indexOf(this.own?.title ?? null);
  }
}
