/** What the kernel does for this view, how far it is, and buttons that end it: a row for each. */

import type { IProfileMessage, IProgressMessage } from '../../proto/messages';
import { button, el } from './dom';

/** The profile has no question of its own. */
const PROFILE = 0;

/** Until the kernel has said nothing for so long, nothing is said of it either. */
const QUIET_MS = 300;
/** A wish that was not heard after so long waits behind something else. */
const UNHEARD_MS = 700;

export type Told = Pick<
  IProgressMessage,
  'id' | 'title' | 'phase' | 'done' | 'total' | 'what' | 'elapsed_s' | 'status'
>;

/** Phase, how far it is, and what now, as one line. */
export function workText({ title, phase, done, total, what }: Omit<Told, 'id' | 'elapsed_s' | 'status'>): string {
  const now = phase === '' ? title : phase;
  const many = total > 0 ? ` ${done} of ${total}` : '';
  return `${now}${many}${what === '' ? '' : ` · ${what}`}`;
}

/** One thing that is done: what now, how far, and a button that ends it. */
export class WorkRow {
  readonly element = el('div', 'jp-MaxLab-workingRow');
  private readonly _text = el('span', 'jp-MaxLab-workingText');
  private readonly _time = el('span', 'jp-MaxLab-workingTime');
  private readonly _bar = el('div', 'jp-MaxLab-workingBar jp-mod-unknown');
  private readonly _cancel: HTMLButtonElement;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isWanted = false;

  constructor(title: string, cancel: () => void) {
    this._cancel = button('jp-MaxLab-workingCancel', `Cancel: ${title}`, () => this._end(cancel), 'Cancel');
    this.element.append(
      this._text,
      this._time,
      this._cancel,
      el('div', 'jp-MaxLab-workingTrack', this._bar)
    );
  }

  told(told: Omit<Told, 'id'>): void {
    const part = told.total > 0 ? Math.min(1, told.done / told.total) : null;
    this.show(workText(told), part, `${told.elapsed_s.toFixed(1)} s`);
    if (told.status === 'cancelling') {
      this.heard();
    }
  }

  show(text: string, part: number | null, elapsed: string): void {
    if (!this._isWanted) {
      this._text.textContent = text;
      this._text.title = text;
    }
    this._time.textContent = elapsed;
    this._bar.classList.toggle('jp-mod-unknown', part === null);
    this._bar.style.width = part === null ? '' : `${100 * part}%`;
  }

  /** The kernel has heard that an end is wanted. */
  heard(): void {
    clearTimeout(this._timer);
    this._isWanted = true;
    this._cancel.disabled = true;
    this._text.textContent = 'Cancelling…';
  }

  /** Nothing can be cancelled any more. */
  finish(text: string): void {
    this.show(text, null, '');
    this._cancel.hidden = true;
  }

  dispose(): void {
    clearTimeout(this._timer);
    this.element.remove();
  }

  private _end(cancel: () => void): void {
    this._isWanted = true;
    this._cancel.disabled = true;
    this._text.textContent = 'Cancelling…';
    this._timer = setTimeout(() => {
      this._text.textContent = 'Cancel is queued: the kernel does something else first';
    }, UNHEARD_MS);
    cancel();
  }
}

export class Working {
  readonly element = el('div', 'jp-MaxLab-working');
  private readonly _rows = new Map<number, WorkRow>();
  private _timer: ReturnType<typeof setTimeout> | undefined;

  /** @param _cancel asks the kernel for an end of what the question `id` asked for. */
  constructor(private readonly _cancel: (id: number) => void) {}

  /** Takes what the kernel says of one of its works. */
  told(told: Told): void {
    if (told.status === 'over') {
      if (told.id === PROFILE) {
        this.drawing();
      } else {
        this._drop(told.id);
      }
      return;
    }
    const row = this._row(told.id, told.title);
    row.told(told);
  }

  /** Follows the button *Profile*, which the kernel may hear late. */
  profile(status: IProfileMessage['status']): void {
    clearTimeout(this._timer);
    if (status !== 'running') {
      this._drop(PROFILE);
    } else if (!this._rows.has(PROFILE)) {
      this._timer = setTimeout(() => {
        if (!this._rows.has(PROFILE)) {
          this._row(PROFILE, 'Profile').show('Profile · waiting for the kernel', null, '');
        }
      }, QUIET_MS);
    }
  }

  /** The profile is there, and not drawn yet. */
  drawing(): void {
    clearTimeout(this._timer);
    this._rows.get(PROFILE)?.finish('drawing');
  }

  dispose(): void {
    clearTimeout(this._timer);
    for (const id of [...this._rows.keys()]) {
      this._drop(id);
    }
  }

  private _row(id: number, title: string): WorkRow {
    let row = this._rows.get(id);
    if (row === undefined) {
      row = new WorkRow(title, () => this._cancel(id));
      this._rows.set(id, row);
      this.element.append(row.element);
    }
    return row;
  }

  private _drop(id: number): void {
    this._rows.get(id)?.dispose();
    this._rows.delete(id);
  }
}
