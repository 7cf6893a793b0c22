/** The palette: a field to type the name of an operation into, with the list of those that fit. */

import type { IAboutAnswer, IOfferedOp } from '../../proto/changes';
import { isText, list as listOf } from '../../proto/shape';
import { el } from './dom';
import { Detail } from './detail';
import { keep, readKept } from './kept';
import { Listing } from './listing';

/** Operations that were chosen last, the newest first: they stand first in a list that nothing narrows. */
let recent: readonly string[] = [];
const MOST_RECENT = 6;
const RECENT = 'recent';
/** That a floating list keeps below its upper edge. */
const FLOATING_ROOM_PX = 300;
const FLOATING_PX = 720;
/** From this width on what is known of an entry stands beside the list. */
const WIDE_PX = 620;
/** Pointer travel that makes a press a drag. */
const DRAG_PX = 4;

/** What follows an entry that is dragged out of the list, in coordinates of the page. */
export interface ICarried {
  moved(x: number, y: number): void;
  dropped(x: number, y: number): void;
  cancelled(): void;
}

export interface IPaletteHost {
  /** The field has the keyboard: what fits now is wanted. */
  opened(): void;
  chosen(offer: IOfferedOp): void;
  /** An entry is dragged out of the list. */
  carried(offer: IOfferedOp): ICarried;
  /** What is known of an entry. */
  about(offer: IOfferedOp): Promise<IAboutAnswer>;
  /** Puts a program into a cell; null where no one can. */
  readonly insert: ((code: string) => boolean) | null;
  say(text: string): void;
  /** The keyboard is to go back to the graph. */
  left(): void;
  /** The list is closed. */
  closed(): void;
}

/** What was chosen last in any view of the browser. */
export function recentNames(): readonly string[] {
  recent = readKept(RECENT, listOf(isText)) ?? recent;
  return recent;
}

/** Lets `name` be the one that was chosen last. */
export function remember(name: string): void {
  recent = [name, ...recentNames().filter(other => other !== name)].slice(0, MOST_RECENT);
  keep(RECENT, recent);
}

/** What is offered that `query` names, the best match first; without one those that are in `last`. */
export function found(
  offers: readonly IOfferedOp[],
  query: string,
  last: readonly string[] = []
): IOfferedOp[] {
  const text = query.trim().toLowerCase();
  const rank = ({ name: written, family, says }: IOfferedOp): number => {
    const name = written.toLowerCase();
    if (text === '') {
      const at = last.indexOf(written);
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

/** Its list is no lower than this, however low the view is. */
const LEAST_DROP_PX = 130;

/** With less room than this below its field it has the list alone. */
const LOW_PX = 280;

export class Palette {
  readonly element = el('div', 'jp-MaxLab-palette');
  private readonly _listing: Listing<IOfferedOp>;
  private readonly _detail: Detail;
  private readonly _drop: HTMLElement;
  private readonly _note = el('div', 'jp-MaxLab-paletteNote');
  private _offers: readonly IOfferedOp[] = [];
  private _isWaiting = false;
  private _carried: ICarried | null = null;
  /** Ends a drag where nothing happens. */
  private _letGo: () => void = () => undefined;
  /** Where it stands while it does not float. */
  private _home: HTMLElement | null = null;

  constructor(private readonly _host: IPaletteHost) {
    this._listing = new Listing<IOfferedOp>('Add an operation  ( A )', {
      found: text => found(this._offers, text, recentNames()),
      none: () => (this._isWaiting ? 'Looking for what fits …' : 'Nothing that fits has this name'),
      row: offer => this._row(offer),
      chosen: offer => this._choose(offer),
      left: () => this._leave(),
      marked: offer => this._detail.show(offer)
    });
    const { input, list } = this._listing;
    this._detail = new Detail(_host, () => input.focus());
    this._listing.name('Add an operation', 'Operations that fit');
    const body = el('div', 'jp-MaxLab-paletteBody', list, this._detail.element);
    this._drop = el('div', 'jp-MaxLab-paletteDrop', this._note, body);
    this._drop.hidden = true;
    this.element.append(input, this._drop);
    input.addEventListener('focus', () => {
      if (this._drop.hidden) {
        this._open(true);
        _host.opened();
      }
    });
    this.element.addEventListener('focusout', event => {
      if (!(event.relatedTarget instanceof Node) || !this.element.contains(event.relatedTarget)) {
        this._letGo();
        this._open(false);
        this._land();
        _host.closed();
      }
    });
    input.addEventListener('keydown', event => {
      if (event.key === 'Enter' && event.altKey) {
        this._detail.insert();
        event.preventDefault();
        event.stopPropagation();
      } else {
        this._listing.key(event);
      }
    });
    this.element.addEventListener('copy', event => this._detail.copied(event, input));
    // The field keeps the keyboard while the mouse is in the list.
    this._drop.addEventListener('mousedown', event => {
      if (!(event.target instanceof Element) || event.target.closest('button, pre') === null) {
        event.preventDefault();
      }
    });
    list.addEventListener('pointerdown', event => this._press(event));
    list.addEventListener('pointermove', event => {
      const offer = event.buttons === 0 ? this._listing.choiceAt(event.target) : null;
      if (offer !== null && offer !== this._detail.offer) {
        this._detail.show(offer);
      }
    });
  }

  get input(): HTMLInputElement {
    return this._listing.input;
  }

  /** What an operation would do that is chosen now: it is said above the list. */
  explain(text: string): void {
    this._note.textContent = text;
  }

  /** Opens over `room` at a point of it, until the list is closed. */
  openAt(room: HTMLElement, x: number, y: number): void {
    const { element } = this;
    this._home ??= element.parentElement;
    room.append(element);
    element.classList.add('jp-mod-floating');
    // Nothing of it may lie outside: the browser would scroll the drawing to show what is chosen.
    const width = Math.min(FLOATING_PX, room.clientWidth - 8);
    element.style.width = `${width}px`;
    const left = Math.max(4, Math.min(x, room.clientWidth - width - 4));
    const top = Math.max(4, Math.min(y, room.clientHeight - FLOATING_ROOM_PX));
    element.style.transform = `translate(${left}px, ${top}px)`;
    this.input.focus({ preventScroll: true });
  }

  /** Goes back to where it stands otherwise. */
  private _land(): void {
    const { element, _home: home } = this;
    if (home === null) {
      return;
    }
    this._home = null;
    element.classList.remove('jp-mod-floating');
    element.style.transform = '';
    element.style.width = '';
    home.prepend(element);
  }

  /** Nothing is known yet of what fits. */
  wait(): void {
    this._isWaiting = true;
    this._offers = [];
    this._listing.find();
  }

  show(offers: readonly IOfferedOp[]): void {
    this._isWaiting = false;
    this._offers = offers;
    this._detail.forget();
    this._listing.find();
  }

  clear(): void {
    this.input.value = '';
    this._listing.find();
  }

  private _leave(): void {
    if (this._carried === null) {
      this.clear();
      this._host.left();
    } else {
      this._letGo();
    }
  }

  private _open(isOpen: boolean): void {
    this._drop.hidden = !isOpen;
    if (isOpen) {
      // Nothing of it may lie outside of the view, which would be scrolled to it.
      const view = this.element.closest('.jp-MaxLab-view')?.getBoundingClientRect();
      const room = view === undefined ? 0 : view.right - this.element.getBoundingClientRect().left - 8;
      this._drop.style.maxWidth = room > 0 ? `${Math.floor(room)}px` : '';
      const below = view === undefined ? 0 : view.bottom - this.input.getBoundingClientRect().bottom - 12;
      this._drop.style.maxHeight = below > 0 ? `${Math.max(LEAST_DROP_PX, Math.floor(below))}px` : '';
      this._drop.classList.toggle('jp-mod-wide', room >= WIDE_PX);
      // In a low view there is room for the list alone.
      this._drop.classList.toggle('jp-mod-low', below > 0 && below < LOW_PX);
    }
    this._listing.isOpen = isOpen;
  }

  private _row(offer: IOfferedOp): { element: HTMLElement; label: string } {
    const { name, family, says, result, needs } = offer;
    const gives = result !== '' ? result : `with ${needs.join(', ')} …`;
    const element = el(
      'div',
      'jp-MaxLab-paletteRow',
      el('span', 'jp-MaxLab-paletteName', name),
      el('span', 'jp-MaxLab-paletteFamily', family),
      el('span', 'jp-MaxLab-paletteResult', gives),
      el('span', 'jp-MaxLab-paletteSays', says)
    );
    const label = `${name}: ${says} ${needs.length > 0 ? `needs ${needs.join(', ')}` : `gives ${result}`}`;
    return { element, label };
  }

  private _choose(offer: IOfferedOp): void {
    remember(offer.name);
    this.clear();
    this._host.chosen(offer);
  }

  // --- out of the list --------------------------------------------------------------------------

  private _press(event: PointerEvent): void {
    const offer = this._listing.choiceAt(event.target);
    if (offer === null || event.button !== 0 || event.pointerType === 'touch') {
      return;
    }
    const moved = (at: PointerEvent): void => {
      if (this._carried === null) {
        if (Math.hypot(at.clientX - event.clientX, at.clientY - event.clientY) < DRAG_PX) {
          return;
        }
        this._carried = this._host.carried(offer);
        this._drop.classList.add('jp-mod-dragged');
      }
      this._carried.moved(at.clientX, at.clientY);
    };
    const end = (): ICarried | null => {
      document.removeEventListener('pointermove', moved);
      document.removeEventListener('pointerup', up);
      document.removeEventListener('pointercancel', gone);
      this._drop.classList.remove('jp-mod-dragged');
      const { _carried: carried } = this;
      this._carried = null;
      this._letGo = () => undefined;
      return carried;
    };
    const up = (at: PointerEvent): void => {
      const carried = end();
      if (carried !== null) {
        this._swallowClick();
        carried.dropped(at.clientX, at.clientY);
      }
    };
    const gone = (): void => end()?.cancelled();
    this._letGo = gone;
    document.addEventListener('pointermove', moved);
    document.addEventListener('pointerup', up);
    document.addEventListener('pointercancel', gone);
  }

  /** A drag that ends over the list is no click there. */
  private _swallowClick(): void {
    const swallow = (event: Event): void => event.stopPropagation();
    this._drop.addEventListener('click', swallow, { capture: true });
    setTimeout(() => this._drop.removeEventListener('click', swallow, { capture: true }));
  }
}
