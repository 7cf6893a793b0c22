/**
 * The dock below the drawing: panels that read the same run, one at a time, behind tabs. It is closed
 * until somebody opens it; a panel is made when its tab is first chosen. The splitter above it is
 * moved with the pointer or with the arrow keys.
 */

import { button, Disposables, el, icon } from './dom';
import { Overflow } from './overflow';
import type { IPanel, IPanelType, IPanelView } from './panel';
import { addStyles } from './styles';

const LEAST_PX = 90;
/** What stays for the drawing above. */
const LEAST_ABOVE_PX = 120;
const STEP_PX = 24;
const FIRST_SHARE = 0.46;

export interface IDockOptions {
  view: IPanelView;
  panels: readonly IPanelType[];
  /** The dock is about to open (true), or was closed: a view in a page may grow, and shrink again. */
  makeRoom?(isOpen: boolean): void;
  /** The dock was opened, closed, or moved. */
  changed(): void;
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
    this._body.setAttribute('role', 'tabpanel');
    const head = el('div', 'jp-MaxLab-dockHead');
    this._overflow = new Overflow({
      row: head,
      room: () => element.parentElement ?? element,
      buttons: () => this._inOrder(),
      name: 'More panels'
    });
    head.append(this._tabs, this._overflow.more, done);
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
    const wanted = id === undefined ? (this._current ?? panels[0]) : panels.find(p => p.id === id);
    if (wanted === undefined) {
      return false;
    }
    const before = this._panel;
    const isSame = this._current === wanted && this._isOpen;
    this._current = wanted;
    if (!this._isOpen) {
      this._isOpen = true;
      this.element.hidden = false;
      this._options.makeRoom?.(true);
      const room = this.element.parentElement?.clientHeight ?? 0;
      this._setHeight(this._height || room * FIRST_SHARE);
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
  }

  selected(ids: readonly string[]): void {
    for (const panel of this._made.values()) {
      panel.selected(ids);
    }
  }

  /** The theme has changed. */
  themed(): void {
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
    let panel = this._made.get(current.id);
    if (panel === undefined) {
      this._disposables.add(
        addStyles(this.element, `jp-MaxLab-styles-${current.id}`, current.css)
      );
      panel = current.make({ view });
      this._made.set(current.id, panel);
      this._body.replaceChildren(panel.element);
      panel.update();
      panel.selected(view.selection);
    } else if (this._body.firstChild !== panel.element) {
      this._body.replaceChildren(panel.element);
      panel.resized();
    }
    if (isNew) {
      panel.shown?.(true);
    }
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
