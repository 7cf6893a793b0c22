/**
 * A toolbar that is one stop of Tab: arrows, Home and End move within it, and Tab comes back to where it
 * was left. What cannot be done now stays reachable, since its name says why.
 */

export class Roving {
  private _current: HTMLElement | null = null;

  constructor(private readonly _row: HTMLElement) {
    _row.addEventListener('keydown', event => this._key(event));
    _row.addEventListener('focusin', event => {
      const stop = this._stops().find(one => one === event.target);
      if (stop !== undefined) {
        this._current = stop;
        this.update();
      }
    });
    this.update();
  }

  /** Controls were shown or hidden: exactly one of those that are seen is a stop. */
  update(): void {
    const stops = this._stops();
    if (this._current === null || !stops.includes(this._current)) {
      this._current = stops[0] ?? null;
    }
    for (const stop of stops) {
      stop.tabIndex = stop === this._current ? 0 : -1;
    }
  }

  /** What is known of an entry of a list comes behind the list, and has stops of its own. */
  private _stops(): HTMLElement[] {
    return [...this._row.querySelectorAll<HTMLElement>('button, input, select')].filter(
      one => one.closest('[hidden], .jp-mod-overflown, [role="listbox"], .jp-MaxLab-detail') === null
    );
  }

  private _key(event: KeyboardEvent): void {
    const { key, target, ctrlKey, metaKey, altKey, shiftKey } = event;
    const stops = this._stops();
    const at = stops.findIndex(one => one === target);
    if (at < 0 || ctrlKey || metaKey || altKey || shiftKey || event.defaultPrevented) {
      return;
    }
    const count = stops.length;
    const to: Record<string, number> = {
      ArrowRight: (at + 1) % count,
      ArrowLeft: (at + count - 1) % count,
      Home: 0,
      End: count - 1
    };
    const next = to[key];
    if (next === undefined || (target instanceof HTMLInputElement && !leaves(target, key))) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    stops[next]?.focus();
  }
}

/** Whether an arrow leads out of a field of text: from its end, where the caret can go no further. */
function leaves({ value, selectionStart, selectionEnd }: HTMLInputElement, key: string): boolean {
  const end = key === 'ArrowRight' ? value.length : key === 'ArrowLeft' ? 0 : -1;
  return selectionStart === selectionEnd && selectionStart === end;
}
