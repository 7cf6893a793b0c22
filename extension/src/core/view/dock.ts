/**
 * The dock below the drawing: panels that read the same run, one at a time, behind tabs. It is closed
 * until somebody opens it; a panel is made when its tab is first chosen. The splitter above it is
 * moved with the pointer or with the arrow keys.
 */

import { isNumber } from '../../proto/shape';
import { plural } from '../model/format';
import { button, Disposables, el, icon } from './dom';
import { keep, readKept } from './kept';
import { PanelFrame } from './moved';
import { Overflow } from './overflow';
import type { IPanel, IPanelType, IPanelView } from './panel';
import { addStyles } from './styles';

const LEAST_PX = 90;
/** What stays for the drawing above. */
const LEAST_ABOVE_PX = 120;
const STEP_PX = 24;
const FIRST_SHARE = 0.46;
/** Under this name the height that somebody chose is kept. */
const HEIGHT = 'dock-height';

export interface IDockOptions {
  view: IPanelView;
  panels: readonly IPanelType[];
  /** The dock is about to open (true), or was closed: a view in a page may grow, and shrink again. */
  makeRoom?(isOpen: boolean): void;
  /** The dock was opened, closed, or moved. */
  changed(): void;
  /** The panel with this id is wanted outside of the view, or is there and is looked for; null if it cannot be. */
  moveOut?: ((id: string) => void) | null;
  /** The panel with this id is wanted below the graph again. */
  putBack?: (id: string) => void;
}

export class Dock {
  readonly element = el('section', 'jp-MaxLab-dock');
  private readonly _splitter = el('div', 'jp-MaxLab-splitter');
  private readonly _tabs = el('div', 'jp-MaxLab-tabs jp-MaxLab-dockTabs');
  private readonly _body = el('div', 'jp-MaxLab-dockBody');
  private readonly _notice = el('p', 'jp-MaxLab-dockNotice');
  private readonly _disposables = new Disposables();
  private readonly _buttons = new Map<string, HTMLButtonElement>();
  private readonly _overflow: Overflow;
  private readonly _made = new Map<string, IPanel>();
  /** Of the panels that stand outside, by their ids. */
  private readonly _frames = new Map<string, PanelFrame>();
  private _current: IPanelType | null = null;
  private _height = 0;
  private _isOpen = false;

  constructor(private readonly _options: IDockOptions) {
    const { element } = this;
    element.hidden = true;
    element.setAttribute('aria-label', 'Panels');
    this._splitter.setAttribute('role', 'separator');
    this._splitter.setAttribute('aria-orientation', 'horizontal');
    this._splitter.setAttribute('aria-label', 'Height of the panels');
    this._splitter.tabIndex = 0;
    this._tabs.setAttribute('role', 'tablist');
    this._tabs.setAttribute('aria-label', 'Panels');
    for (const panel of _options.panels) {
      const tab = button('jp-MaxLab-tab', panel.hint, () => this.open(panel.id), panel.title);
      tab.setAttribute('role', 'tab');
      tab.setAttribute('aria-label', panel.title);
      tab.dataset.panel = panel.id;
      this._buttons.set(panel.id, tab);
      this._tabs.append(tab);
    }
    const done = button('jp-MaxLab-iconButton', 'Close the panels (D)', () => this.close());
    done.append(icon('close'));
    const out = button('jp-MaxLab-iconButton jp-MaxLab-dockOut', 'Move the panel into a tab of its own', () =>
      this.askOut()
    );
    out.append(icon('moveOut'));
    out.hidden = !_options.moveOut;
    this._body.setAttribute('role', 'tabpanel');
    const head = el('div', 'jp-MaxLab-dockHead');
    this._overflow = new Overflow({
      row: head,
      room: () => element.parentElement ?? element,
      buttons: () => this._inOrder(),
      name: 'More panels'
    });
    head.append(this._tabs, this._overflow.more, out, done);
    element.append(
      this._splitter,
      head,
      this._notice,
      this._body
    );
    const d = this._disposables;
    d.listen(this._tabs, 'keydown', (event: KeyboardEvent) => this._tabKey(event));
    d.listen(this._splitter, 'keydown', (event: KeyboardEvent) => this._splitKey(event));
    d.listen(this._splitter, 'pointerdown', (event: PointerEvent) => this._drag(event));
    if (typeof ResizeObserver !== 'undefined') {
      const observer = new ResizeObserver(() => this._panel?.resized());
      observer.observe(this._body);
      d.add(() => observer.disconnect());
    }
  }

  get isOpen(): boolean {
    return this._isOpen;
  }

  /** Id of the panel in front; null while the dock is closed. */
  get current(): string | null {
    return this._isOpen ? (this._current?.id ?? null) : null;
  }

  /**
   * Opens a panel, or the one that was open last; false when there is no such panel. A page scrolls to
   * it, unless nobody asked for it (`isQuiet`).
   */
  open(id?: string, isQuiet = false): boolean {
    const { panels } = this._options;
    const wanted = id === undefined ? this._atHome() : panels.find(p => p.id === id);
    if (wanted === undefined) {
      return false;
    }
    if (this._frames.has(wanted.id)) {
      this._options.moveOut?.(wanted.id);
      return true;
    }
    const before = this._panel;
    const isSame = this._current === wanted && this._isOpen;
    this._current = wanted;
    if (!this._isOpen) {
      this._isOpen = true;
      this.element.hidden = false;
      this._options.makeRoom?.(true);
      const room = this.element.parentElement?.clientHeight ?? 0;
      this._setHeight(this._height || (readKept(HEIGHT, isNumber) ?? room * FIRST_SHARE));
      if (!isQuiet) {
        this.element.scrollIntoView({ block: 'nearest' });
      }
    }
    if (!isSame) {
      before?.shown?.(false);
    }
    this._show(!isSame);
    this._options.changed();
    return true;
  }

  /** The panel that was open last, or the first that does not stand outside. */
  private _atHome(): IPanelType | undefined {
    const isHere = (panel: IPanelType | null): boolean => panel !== null && !this._frames.has(panel.id);
    return isHere(this._current) ? (this._current ?? undefined) : this._options.panels.find(isHere);
  }

  /** Asks for the panel `id`, or the one in front, to be moved out; false when it cannot be. */
  askOut(id = this.current): boolean {
    const { moveOut, panels } = this._options;
    if (!moveOut || id === null || panels.every(panel => panel.id !== id)) {
      return false;
    }
    moveOut(id);
    return true;
  }

  /** Takes a panel out of the dock; the page places the element that is returned. */
  takeOut(id: string): HTMLElement | null {
    const { panels, putBack } = this._options;
    const type = panels.find(panel => panel.id === id);
    if (type === undefined) {
      return null;
    }
    let frame = this._frames.get(id);
    if (frame === undefined) {
      if (this.current === id) {
        this.close();
      }
      const view = this.element.closest('.jp-MaxLab-view');
      frame = new PanelFrame(type, view, () => putBack?.(id));
      this._frames.set(id, frame);
      this._buttons.get(id)?.classList.add('jp-mod-out');
      this._showOut(type, frame);
      this._made.get(id)?.shown?.(true);
    }
    return frame.element;
  }

  /** Takes a panel back that stands outside. */
  takeBack(id: string): void {
    const frame = this._frames.get(id);
    if (frame !== undefined) {
      this._made.get(id)?.shown?.(false);
      this._frames.delete(id);
      this._buttons.get(id)?.classList.remove('jp-mod-out');
      frame.dispose();
    }
  }

  /** The kernel came or went. */
  liveChanged(): void {
    const { notLive } = this._options.view;
    this._frames.forEach(frame => frame.setNotLive(notLive));
  }

  private _showOut(type: IPanelType, frame: PanelFrame): void {
    const { view } = this._options;
    const reason = type.isAvailable(view);
    frame.show(reason === null ? this._panelOf(type) : null, view.model.document.name, reason);
    frame.setSelected(this._wordsOf(view.selection));
    frame.setNotLive(view.notLive);
  }

  /** What a panel outside says of the selection, which it cannot see. */
  private _wordsOf(ids: readonly string[]): string {
    const [first] = ids;
    if (first === undefined) {
      return '';
    }
    const op = this._options.view.model.node(first)?.node.op;
    return ids.length === 1 && op !== undefined ? `${op} selected` : `${plural(ids.length, 'op')} selected`;
  }

  close(): void {
    if (this._isOpen) {
      this._panel?.shown?.(false);
      this._isOpen = false;
      this.element.hidden = true;
      this._options.makeRoom?.(false);
      this._options.changed();
    }
  }

  /** There is a new document: every panel that was made follows it. */
  update(): void {
    for (const panel of this._made.values()) {
      panel.update();
    }
    if (this._isOpen) {
      this._show(false);
    }
    for (const type of this._options.panels) {
      const frame = this._frames.get(type.id);
      if (frame !== undefined) {
        this._showOut(type, frame);
      }
    }
  }

  selected(ids: readonly string[]): void {
    this._frames.forEach(frame => frame.setSelected(this._wordsOf(ids)));
    for (const panel of this._made.values()) {
      panel.selected(ids);
    }
  }

  /** The theme has changed. */
  themed(): void {
    this._frames.forEach(frame => frame.themed());
    for (const panel of this._made.values()) {
      panel.resized();
    }
  }

  /** The made panel with an id, for tests. */
  panel(id: string): IPanel | undefined {
    return this._made.get(id);
  }

  dispose(): void {
    this._overflow.dispose();
    this._disposables.dispose();
    for (const panel of this._made.values()) {
      panel.dispose();
    }
    this._made.clear();
    this._frames.forEach(frame => frame.dispose());
    this._frames.clear();
  }

  /** The tabs, the one in front first: it stays when there is no room for all. */
  private _inOrder(): HTMLButtonElement[] {
    const front = this._buttons.get(this._current?.id ?? '');
    const others = [...this._buttons.values()].filter(one => one !== front);
    return front === undefined ? others : [front, ...others];
  }

  private get _panel(): IPanel | undefined {
    return this._current === null || !this._isOpen ? undefined : this._made.get(this._current.id);
  }

  private _show(isNew: boolean): void {
    const current = this._current;
    if (current === null) {
      return;
    }
    for (const [id, tab] of this._buttons) {
      const isThis = id === current.id;
      tab.setAttribute('aria-selected', String(isThis));
      tab.tabIndex = isThis ? 0 : -1;
    }
    this._overflow.fit();
    this._body.setAttribute('aria-label', current.title);
    const { view } = this._options;
    const reason = current.isAvailable(view);
    this._notice.hidden = reason === null;
    this._notice.textContent = reason ?? '';
    this._body.hidden = reason !== null;
    if (reason !== null) {
      return;
    }
    const panel = this._panelOf(current);
    if (this._body.firstChild !== panel.element) {
      this._body.replaceChildren(panel.element);
      panel.resized();
    }
    if (isNew) {
      panel.shown?.(true);
    }
  }

  /** The panel of a type, made when it is first wanted. */
  private _panelOf(type: IPanelType): IPanel {
    let panel = this._made.get(type.id);
    if (panel === undefined) {
      const { view } = this._options;
      this._disposables.add(addStyles(this.element, `jp-MaxLab-styles-${type.id}`, type.css));
      panel = type.make({ view });
      this._made.set(type.id, panel);
      // It is in the page before it draws, so that it knows its size.
      if (type === this._current) {
        this._body.replaceChildren(panel.element);
      }
      panel.update();
      panel.selected(view.selection);
    }
    return panel;
  }

  private _setHeight(px: number): void {
    const room = this.element.parentElement?.clientHeight ?? 0;
    const most = Math.max(LEAST_PX, room - LEAST_ABOVE_PX);
    this._height = Math.round(Math.min(most, Math.max(LEAST_PX, px)));
    this.element.style.flexBasis = `${this._height}px`;
    this._splitter.setAttribute('aria-valuenow', String(this._height));
    this._splitter.setAttribute('aria-valuemin', String(LEAST_PX));
    this._splitter.setAttribute('aria-valuemax', String(Math.round(most)));
  }

  private _tabKey(event: KeyboardEvent): void {
    const ids = this._options.panels.map(panel => panel.id);
    const at = ids.indexOf(this._current?.id ?? '');
    const next: Record<string, number> = {
      ArrowRight: (at + 1) % ids.length,
      ArrowLeft: (at + ids.length - 1) % ids.length,
      Home: 0,
      End: ids.length - 1
    };
    const index = next[event.key];
    if (index === undefined) {
      return;
    }
    const id = ids[index] ?? '';
    this.open(id);
    this._buttons.get(id)?.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  private _splitKey(event: KeyboardEvent): void {
    const step = event.key === 'ArrowUp' ? STEP_PX : event.key === 'ArrowDown' ? -STEP_PX : 0;
    if (step !== 0) {
      this._setHeight(this._height + step);
      keep(HEIGHT, this._height);
      event.preventDefault();
      event.stopPropagation();
    }
  }

  private _drag(event: PointerEvent): void {
    const splitter = this._splitter;
    const from = event.clientY;
    const height = this._height;
    const move = (moved: PointerEvent): void => this._setHeight(height + from - moved.clientY);
    const end = (): void => {
      keep(HEIGHT, this._height);
      splitter.removeEventListener('pointermove', move);
      splitter.removeEventListener('pointerup', end);
      splitter.removeEventListener('pointercancel', end);
    };
    splitter.setPointerCapture(event.pointerId);
    splitter.addEventListener('pointermove', move);
    splitter.addEventListener('pointerup', end);
    splitter.addEventListener('pointercancel', end);
    event.preventDefault();
  }
}
