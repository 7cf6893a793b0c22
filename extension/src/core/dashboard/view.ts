/** The dashboard: what a recording shows, as charts on one time axis. Free of any notebook. */

import type { ITheme, ThemeName } from '../render/theme';
import { asRegion, Disposables, el, Emitter } from '../view/dom';
import { keyOf } from '../view/keys';
import { addStyles } from '../view/styles';
import { Theming } from '../view/theming';
import { DashboardBar } from './bar';
import { Card, LaneCard } from './cards';
import { DASHBOARD_STYLES } from './css';
import { nearest, placeAt, type DashboardData } from './data';
import { formatClock, formatElapsed } from './format';
import { groupsOf, type IGroup } from './groups';
import { Head } from './head';
import { DASHBOARD_KEYS } from './keys';
import type { IPlotHost } from './plot';
import { ProcessCard } from './processes';
import type { ISpan } from './range';
import { registerDashboard } from './registry';
import { askToShow, cellOf, type IShown } from './revealing';
import { savePicture, saveRecording, saveTable } from './saving';
import { type ISharer, SharedRecording } from './shared';
import type { IDashboardEvents, IDashboardOptions } from './types';
import type { IDetail, IFrame, IMark } from './wire';

/** A chart that stands alone is no taller than this: slopes would say nothing any more. */
const MOST_PX = 480;

export class Dashboard implements IPlotHost, ISharer {
  readonly element = el('div', 'jp-MaxLab-dash');
  readonly events = new Emitter<IDashboardEvents>();
  isDisposed = false;
  private readonly _shared: SharedRecording;
  private readonly _only: string | null;
  private readonly _bar: DashboardBar;
  private readonly _theming: Theming;
  private readonly _disposables = new Disposables();
  private readonly _body = el('div', 'jp-MaxLab-dashBody');
  private readonly _head = new Head(gpu => this.toggleGpu(gpu));
  private readonly _grid = el('div', 'jp-MaxLab-dashGrid');
  private readonly _none = el('p', 'jp-MaxLab-dashNote', 'Nothing of this was recorded yet.');
  private readonly _live = el('div', 'jp-MaxLab-dashLive');
  private readonly _hidden = new Set<string>();
  private _noControl: string | null;
  private _isBusy = false;
  private _error = '';
  private _cards: Card[] = [];
  private _lane: LaneCard | null = null;
  private readonly _table = new ProcessCard(kernel => this._reveal({ kernel }));
  private _made = '';
  private _fill: number | null = null;
  private _drawn: ISpan = { start: 0, end: 1 };
  private _painted = '';

  constructor(host: HTMLElement, options: IDashboardOptions = {}) {
    this._shared = options.shared ?? new SharedRecording();
    this._only = options.only ?? null;
    this.element.classList.toggle('jp-mod-single', this._only !== null);
    this._noControl = options.noControl ?? null;
    asRegion(this.element, 'Diagnostics dashboard');
    this.element.setAttribute('aria-keyshortcuts', 'Space 0 + - ArrowLeft ArrowRight');
    if (options.areKeysCommands !== true) {
      // In a JupyterLab that does not know it, its shortcuts must not see the keys typed in here.
      this.element.setAttribute('data-lm-suppress-shortcuts', 'true');
      this._disposables.listen(this.element, 'keydown', (event: KeyboardEvent) => this._key(event));
    }
    host.append(this.element);
    this._disposables.add(
      addStyles(this.element, 'jp-MaxLab-dash-styles', DASHBOARD_STYLES)
    );
    this._bar = new DashboardBar({
      follow: span => this.follow(span),
      togglePause: () => this.togglePause(),
      resetZoom: () => this.follow(),
      start: period => this._request(() => this.events.emit('startRequested', period)),
      stop: () => this._request(() => this.events.emit('stopRequested', undefined)),
      savePicture: () => this.savePicture(),
      saveTable: () => this.saveTable(),
      saveRecording: () => this.events.emit('recordingRequested', undefined)
    });
    this._live.setAttribute('aria-live', 'polite');
    this._body.append(this._head.element, this._none, this._grid);
    this.element.append(this._bar.element, this._body, this._live);
    this._theming = new Theming(this.element, options.theme ?? 'auto', () => this._themed());
    this._disposables.add(() => this._theming.dispose());
    this._theming.apply();
    this.setHeight(options.height ?? 'auto');
    this._disposables.listen(this._grid, 'wheel', (event: WheelEvent) => this._wheel(event), {
      passive: false
    });
    this._disposables.listen(this._grid, 'pointerleave', () => this.hover(null));
    this._disposables.add(registerDashboard(this));
    this._disposables.add(this._shared.join(this));
    if (this._only !== null && typeof ResizeObserver !== 'undefined') {
      const observer = new ResizeObserver(() => this._fit());
      observer.observe(this._body);
      this._disposables.add(() => observer.disconnect());
    }
    this._show();
  }

  // ---------------------------------------------------------------- what it is told
  apply(frame: IFrame): void {
    if (!this._shared.apply(frame)) {
      this.events.emit('restartRequested', undefined);
    }
  }

  received(): void {
    this._isBusy = false;
    this._error = '';
    this.refresh();
  }

  applyDetail(detail: IDetail): void {
    this.data.setDetail(detail);
    this._draw(true);
  }

  /** Says that something that was asked for went wrong. */
  fail(message: string): void {
    this._isBusy = false;
    this._error = message;
    this._show();
  }

  setNoControl(reason: string | null): void {
    this._noControl = reason;
    this._show();
  }

  setTheme(name: ThemeName): void {
    this._theming.setName(name);
  }

  setHeight(height: number | 'fill' | 'auto'): void {
    this.element.classList.toggle('jp-mod-fill', height === 'fill');
    this.element.style.height = typeof height === 'number' && height > 0 ? `${height}px` : '';
  }

  // ---------------------------------------------------------------- what charts ask
  get data(): DashboardData {
    return this._shared.data;
  }

  get range(): SharedRecording['range'] {
    return this._shared.range;
  }

  get fill(): number | null {
    return this._fill;
  }

  get theme(): ITheme {
    return this._theming.theme;
  }

  get epoch(): number {
    // A replay is about how long things took, not about when it was recorded.
    return this.data.state.replay ? 0 : this.data.state.epoch;
  }

  get shown(): ISpan {
    return this.range.shown(this.data.start, this.data.end);
  }

  get marks(): readonly IMark[] {
    return this._shared.marks;
  }

  get end(): number {
    return this.data.end;
  }

  get cards(): readonly Card[] {
    return this._cards;
  }

  hover(time: number | null): void {
    this._shared.hover(time);
  }

  /** Shows the cell that ran then. */
  chosen(mark: IMark): void {
    const cell = cellOf(this.marks, mark);
    if (cell === null) {
      this._say('No cell of a notebook is known for this mark.');
    } else {
      this._reveal({ cell: cell.cell });
    }
  }

  select(start: number, end: number): void {
    this.range.hold({ start, end }, this.data.start, this.data.end);
    this._draw(true);
    this._show();
  }

  reset(): void {
    this.follow();
  }

  // ---------------------------------------------------------------- what a user does
  follow(span: number | null = this.range.span): void {
    this.range.follow(span);
    this._show();
  }

  togglePause(): void {
    if (this.range.isFollowing) {
      this.range.pause(this.shown);
    } else {
      this.range.follow();
    }
    this._show();
  }

  toggleGpu(gpu: string): void {
    if (!this._hidden.delete(gpu)) {
      this._hidden.add(gpu);
    }
    this._show();
  }

  savePicture(): void {
    const cards = this._lane === null ? this._cards : [this._lane, ...this._cards];
    savePicture(this.data, cards, this.theme);
  }

  saveTable(): void {
    saveTable(this.data, this.shown);
  }

  saveRecording(bytes: Uint8Array): void {
    saveRecording(this.data, bytes);
  }

  /** Asks the page around to show a cell, or the notebook of a kernel. */
  private _reveal(detail: IShown): void {
    if (!askToShow(this.element, detail)) {
      this._say('Its notebook is not open in this page.');
    }
  }

  private _say(words: string): void {
    this._live.textContent = words;
    this.fail(words);
  }

  private _request(send: () => void): void {
    this._isBusy = true;
    this._show();
    send();
  }

  private _key(event: KeyboardEvent): void {
    const key = event.target === this.element ? keyOf(event, DASHBOARD_KEYS) : undefined;
    if (key !== undefined && this.execute(key.command)) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  /** Runs a command of `DASHBOARD_KEYS`; false when there is none of that name. */
  execute(command: string): boolean {
    const { start, end } = this.data;
    const middle = this._shared.hovered ?? (this.shown.start + this.shown.end) / 2;
    switch (command) {
      case 'pause':
        this.togglePause();
        break;
      case 'follow':
        this.follow();
        break;
      case 'zoom-in':
        this.range.zoom(0.5, middle, start, end);
        break;
      case 'zoom-out':
        this.range.zoom(2, middle, start, end);
        break;
      case 'step-back':
      case 'step-forward':
        this._step(command === 'step-back' ? -1 : 1);
        break;
      case 'pan-back':
      case 'pan-forward':
        this.range.pan(command === 'pan-back' ? -0.25 : 0.25, start, end);
        break;
      case 'leave':
        this.hover(null);
        this._pointAll();
        break;
      default:
        return false;
    }
    this._show();
    return true;
  }

  /** Moves the reading line by one sample, and says what is there. */
  private _step(by: number): void {
    const { times } = this.data;
    const at = this._shared.hovered === null ? times.length : placeAt(times, this._shared.hovered);
    const next = times[Math.min(Math.max(at + by, 0), times.length - 1)];
    if (next === undefined) {
      return;
    }
    if (this.range.isFollowing) {
      this.range.pause(this.shown);
    }
    const { start, end } = this.shown;
    if (next < start || next > end) {
      this.range.pan(0.5 * by, this.data.start, this.data.end);
    }
    this.hover(next);
    this._pointAll();
    const words = this._cards.map(card => `${card.title}: ${card.words}`).join('; ');
    this._live.textContent = `${this._when(next)}. ${words}`;
  }

  private _pointAll(): void {
    for (const card of [this._lane, ...this._cards]) {
      card?.plot?.setCursor(this._shared.hovered);
    }
  }

  private _wheel(event: WheelEvent): void {
    const plot = event.target instanceof Element ? event.target.closest('.u-over') : null;
    const isZoom = event.ctrlKey || event.metaKey;
    const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    // The plain wheel scrolls the notebook.
    if (plot === null || (!isZoom && Math.abs(sideways) <= Math.abs(event.shiftKey ? 0 : event.deltaY))) {
      return;
    }
    event.preventDefault();
    const { start, end } = this.data;
    const box = plot.getBoundingClientRect();
    if (isZoom) {
      const { shown } = this;
      const about = shown.start + ((event.clientX - box.left) / box.width) * (shown.end - shown.start);
      this.range.zoom(Math.exp(Math.min(Math.max(event.deltaY, -120), 120) / 300), about, start, end);
    } else {
      this.range.pan(sideways / box.width, start, end);
    }
    this._show();
  }

  // ---------------------------------------------------------------- what is shown
  private _themed(): void {
    const t = this.theme;
    const variables: Record<string, string> = {
      live: t.isDark ? 'rgb(74, 222, 128)' : 'rgb(22, 163, 74)',
      'live-soft': t.isDark ? 'rgba(74, 222, 128, 0.2)' : 'rgba(22, 163, 74, 0.18)',
      warn: t.isDark ? 'rgb(251, 191, 36)' : 'rgb(150, 86, 0)',
      'on-accent': t.isStrong ? t.chosenText : t.isDark ? 'rgb(10, 16, 32)' : 'rgb(255, 255, 255)'
    };
    for (const [name, value] of Object.entries(variables)) {
      this.element.style.setProperty(`--mx-${name}`, value);
    }
    // Called while the constructor still runs, too.
    const colors = `${t.background} ${t.text} ${t.accent}`;
    if (this._painted !== '' && this._painted !== colors) {
      this._made = '';
      this._show();
    }
    this._painted = colors;
  }

  private _show(): void {
    this._shared.changed();
  }

  refresh(): void {
    if (this.isDisposed) {
      return;
    }
    const { state, times } = this.data;
    this._bar.update({
      state,
      span: this.range.span,
      isFollowing: this.range.isFollowing,
      isZoomed: this.range.isZoomed,
      noControl: this._noControl,
      isBusy: this._isBusy
    });
    this._head.show(this.data, this._error, this._hidden, this.theme.isDark, this._only);
    this._bar.element.hidden = this._only !== null && times.length > 0;
    this._grid.hidden = times.length === 0;
    const groups = groupsOf(this.data, this._hidden).filter(group => this._shows(group.quantity));
    this._make(groups);
    this._draw(true);
    const isBare = this._cards.length === 0 && this._lane === null && this._table.element.hidden;
    this._none.hidden = this._only === null || !isBare || times.length === 0;
  }

  /** Makes the cards when other ones are needed than there are. */
  private _make(groups: readonly IGroup[]): void {
    const lanes = this._shows('activity') ? LaneCard.kindsOf(this.marks) : [];
    const made = JSON.stringify([
      groups.map(group => [group.quantity, group.series.map(one => [one.column, one.label])]),
      lanes,
      this.data.shape,
      this.theme.isDark
    ]);
    if (made === this._made) {
      return;
    }
    this._made = made;
    this._clear();
    if (lanes.length > 0) {
      this._lane = new LaneCard(this, this._shared.sync, lanes);
      this._grid.append(this._lane.element);
    }
    const { sync } = this._shared;
    this._cards = groups.map(group => new Card(this, sync, group, this.data.columns));
    this._grid.append(...this._cards.map(card => card.element));
    if (this._shows('processes')) {
      this._grid.append(this._table.element);
    }
    this._fit();
  }

  private _shows(quantity: string): boolean {
    return this._only === null || this._only === quantity;
  }

  /** Gives the only chart all the room that there is. */
  private _fit(): void {
    const card = this._cards[0] ?? this._lane;
    if (this._only === null || card === null) {
      return;
    }
    const above = card.element.firstElementChild?.clientHeight ?? 0;
    const room = this._body.clientHeight - this._head.element.clientHeight - above - 30;
    this._fill = Math.min(Math.max(room, 60), MOST_PX);
    card.plot?.resized();
  }

  private _clear(): void {
    this._lane?.dispose();
    this._lane = null;
    this._cards.forEach(card => card.dispose());
    this._cards = [];
    this._table.element.remove();
  }

  private _draw(hasNew: boolean): void {
    const { shown } = this;
    this._drawn = shown;
    const { times, values } = this.data.view(shown.start, shown.end);
    for (const card of [this._lane, ...this._cards]) {
      if (hasNew) {
        card?.plot?.setData(times, values);
      } else {
        card?.plot?.redraw();
      }
    }
    if (this.data.needsDetail(shown.start, shown.end)) {
      this._wantDetail(shown);
    }
    this.read();
  }

  private _wanted = '';

  private _wantDetail({ start, end }: ISpan): void {
    // Some more on both sides, so that a little panning asks for nothing.
    const more = (end - start) * 0.5;
    const wanted = `${Math.round(start)}-${Math.round(end)}`;
    if (wanted !== this._wanted && !this.range.isFollowing) {
      this._wanted = wanted;
      this.events.emit('detailRequested', { start: start - more, end: end + more });
    }
  }

  /** Writes the values under the pointer, else the newest ones, beside the titles. */
  read(): void {
    if (this.isDisposed) {
      return;
    }
    const { start, end } = this._drawn;
    const { times, values } = this.data.view(start, end);
    const at = this._shared.hovered ?? end;
    const place = placeAt(times, at);
    for (const card of this._cards) {
      card.read(values, times, this._shared.hovered === null ? place : nearest(times, at, place));
    }
    this._table.show(this.data, at, this._hidden);
    this._lane?.readMarks(at, this._when(at));
  }

  private _when(time: number): string {
    return this.epoch === 0 ? formatElapsed(time, 0.1) : formatClock(time, this.epoch, 1);
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this._clear();
    this._disposables.dispose();
    this.element.remove();
    this.events.emit('disposed', undefined);
    this.events.clear();
  }
}
