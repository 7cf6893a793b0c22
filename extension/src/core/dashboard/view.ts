/** The dashboard: what a recording shows, as charts on one time axis. Free of any notebook. */

import type { ITheme, ThemeName } from '../render/theme';
import { Disposables, el, Emitter } from '../view/dom';
import { addStyles } from '../view/styles';
import { Theming } from '../view/theming';
import { DashboardBar } from './bar';
import { Card, LaneCard, ProcessCard } from './cards';
import { DASHBOARD_STYLES } from './css';
import { DashboardData, nearest, placeAt } from './data';
import { download, drawPicture, toCsv } from './export';
import { formatClock, formatElapsed } from './format';
import { groupsOf, type IGroup } from './groups';
import { Head } from './head';
import type { IPlotHost } from './plot';
import { type ISpan, TimeRange } from './range';
import { registerDashboard } from './registry';
import type { IDetail, IFrame, IMark } from './wire';

export interface IDashboardOptions {
  theme?: ThemeName;
  /** Height in CSS pixels; `fill` takes that of the host, `auto` that of the charts. */
  height?: number | 'fill' | 'auto';
  /** Why recording cannot be started or stopped; null when it can. */
  noControl?: string | null;
}

export interface IDashboardEvents {
  /** Start to record, with this many seconds from sample to sample. */
  startRequested: number;
  stopRequested: undefined;
  /** The whole recording is wanted, to be saved as a file. */
  recordingRequested: undefined;
  /** Samples between these seconds were left out, and are wanted. */
  detailRequested: { start: number; end: number };
  /** What was sent last does not continue what is known: send all. */
  restartRequested: undefined;
  disposed: undefined;
}

let dashboards = 0;

export class Dashboard implements IPlotHost {
  readonly element = el('div', 'jp-MaxLab-dash');
  readonly events = new Emitter<IDashboardEvents>();
  readonly data = new DashboardData();
  readonly range = new TimeRange();
  isDisposed = false;
  private readonly _sync: string;
  private readonly _bar: DashboardBar;
  private readonly _theming: Theming;
  private readonly _disposables = new Disposables();
  private readonly _body = el('div', 'jp-MaxLab-dashBody');
  private readonly _head = new Head(gpu => this.toggleGpu(gpu));
  private readonly _grid = el('div', 'jp-MaxLab-dashGrid');
  private readonly _live = el('div', 'jp-MaxLab-dashLive');
  private readonly _hidden = new Set<string>();
  private _noControl: string | null;
  private _isBusy = false;
  private _error = '';
  private _cards: Card[] = [];
  private _lane: LaneCard | null = null;
  private _table: ProcessCard | null = null;
  private _made = '';
  private _hovered: number | null = null;
  private _marks: IMark[] = [];
  private _drawn: ISpan = { start: 0, end: 1 };
  private _isDark: boolean | null = null;

  constructor(host: HTMLElement, options: IDashboardOptions = {}) {
    dashboards += 1;
    this._sync = `jp-MaxLab-dash-${dashboards}`;
    this._noControl = options.noControl ?? null;
    this.element.tabIndex = 0;
    this.element.setAttribute('role', 'region');
    this.element.setAttribute('aria-label', 'Diagnostics dashboard');
    this.element.setAttribute('aria-keyshortcuts', 'Space 0 + - ArrowLeft ArrowRight');
    // JupyterLab's notebook shortcuts must not see the keys that are typed in here.
    this.element.setAttribute('data-lm-suppress-shortcuts', 'true');
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
    this._body.append(this._head.element, this._grid);
    this.element.append(this._bar.element, this._body, this._live);
    this._theming = new Theming(this.element, options.theme ?? 'auto', () => this._themed());
    this._disposables.add(() => this._theming.dispose());
    this._theming.apply();
    this.setHeight(options.height ?? 'auto');
    this._disposables.listen(this.element, 'keydown', (event: KeyboardEvent) => this._key(event));
    this._disposables.listen(this._grid, 'wheel', (event: WheelEvent) => this._wheel(event), {
      passive: false
    });
    this._disposables.listen(this._grid, 'pointerleave', () => this.hover(null));
    this._disposables.add(registerDashboard(this));
    this._show();
  }

  // ---------------------------------------------------------------- what it is told
  apply(frame: IFrame): void {
    if (!this.data.apply(frame)) {
      this.events.emit('restartRequested', undefined);
      return;
    }
    this._isBusy = false;
    this._error = '';
    if (frame.reset && frame.state.replay && this.range.isFollowing) {
      this.range.follow(null);
    }
    if (frame.reset || frame.marks.length > 0) {
      this._marks = [...this.data.marks.values()].sort((a, b) => a.start - b.start);
    }
    this._show();
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
    return this._marks;
  }

  get end(): number {
    return this.data.end;
  }

  get cards(): readonly Card[] {
    return this._cards;
  }

  hover(time: number | null): void {
    if (time !== this._hovered) {
      this._hovered = time;
      this._read();
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
    const ratio = window.devicePixelRatio || 1;
    const picture = drawPicture(this._pictureParts(), this._name(), this.theme, ratio);
    picture.toBlob(blob => blob !== null && download(`${this._fileName()}.png`, blob), 'image/png');
  }

  saveTable(): void {
    const csv = toCsv(this.data, this.shown);
    download(`${this._fileName()}.csv`, new Blob([csv], { type: 'text/csv' }));
  }

  saveRecording(bytes: Uint8Array): void {
    const blob = new Blob([bytes.slice().buffer], { type: 'application/octet-stream' });
    download(`${this._fileName()}.mlrec`, blob);
  }

  private _pictureParts(): { title: string; values: string; canvas: HTMLCanvasElement }[] {
    const cards = this._lane === null ? this._cards : [this._lane, ...this._cards];
    return cards.flatMap(card => {
      const canvas = card.plot?.canvas ?? null;
      return canvas === null ? [] : [{ title: card.title, values: card.words, canvas }];
    });
  }

  private _name(): string {
    const { state } = this.data;
    const label = state.label === '' ? '' : ` (${state.label})`;
    return `${state.replay ? state.title || 'Recording' : 'Diagnostics'}${label}`;
  }

  private _fileName(): string {
    const { epoch, replay, title } = this.data.state;
    if (replay && title !== '') {
      return title.replace(/\.mlrec$/, '').replace(/[^\w.-]+/g, '_');
    }
    const when = epoch > 0 ? new Date(epoch).toISOString().slice(0, 19).replace(/[:T]/g, '-') : 'now';
    return `maxlab-${when}`;
  }

  private _request(send: () => void): void {
    this._isBusy = true;
    this._show();
    send();
  }

  private _key(event: KeyboardEvent): void {
    const isOwn = event.target === this.element;
    if (event.ctrlKey || event.metaKey || event.altKey || !isOwn) {
      return;
    }
    const { start, end } = this.data;
    const middle = this._hovered ?? (this.shown.start + this.shown.end) / 2;
    switch (event.key) {
      case ' ':
        this.togglePause();
        break;
      case '0':
      case 'Home':
        this.follow();
        break;
      case '+':
      case '=':
        this.range.zoom(0.5, middle, start, end);
        break;
      case '-':
        this.range.zoom(2, middle, start, end);
        break;
      case 'ArrowLeft':
      case 'ArrowRight': {
        const by = event.key === 'ArrowLeft' ? -1 : 1;
        if (event.shiftKey) {
          this.range.pan(0.25 * by, start, end);
        } else {
          this._step(by);
        }
        break;
      }
      case 'Escape':
        this.hover(null);
        this._pointAll();
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
    this._show();
  }

  /** Moves the reading line by one sample, and says what is there. */
  private _step(by: number): void {
    const { times } = this.data;
    const at = this._hovered === null ? times.length : placeAt(times, this._hovered);
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
      card?.plot?.setCursor(this._hovered);
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
      'on-accent': t.isDark ? 'rgb(10, 16, 32)' : 'rgb(255, 255, 255)'
    };
    for (const [name, value] of Object.entries(variables)) {
      this.element.style.setProperty(`--mx-${name}`, value);
    }
    // Called while the constructor still runs, too.
    if (this._isDark !== null && this._isDark !== t.isDark) {
      this._made = '';
      this._show();
    }
    this._isDark = t.isDark;
  }

  private _show(): void {
    if (this.isDisposed) {
      return;
    }
    const { state } = this.data;
    this._bar.update({
      state,
      span: this.range.span,
      isFollowing: this.range.isFollowing,
      isZoomed: this.range.isZoomed,
      noControl: this._noControl,
      isBusy: this._isBusy
    });
    this._head.show(this.data, this._error, this._hidden, this.theme.isDark);
    this._grid.hidden = this.data.times.length === 0;
    const groups = groupsOf(this.data, this._hidden);
    this._make(groups);
    this._draw(true);
  }

  /** Makes the cards when other ones are needed than there are. */
  private _make(groups: readonly IGroup[]): void {
    const lanes = LaneCard.kindsOf(this._marks);
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
      this._lane = new LaneCard(this, this._sync, lanes);
      this._grid.append(this._lane.element);
    }
    this._cards = groups.map(group => new Card(this, this._sync, group, this.data.columns));
    this._table = new ProcessCard();
    for (const card of this._cards) {
      this._grid.append(card.element);
      if (card.group?.quantity === 'memory') {
        this._grid.append(this._table.element);
      }
    }
  }

  private _clear(): void {
    this._lane?.dispose();
    this._lane = null;
    this._cards.forEach(card => card.dispose());
    this._cards = [];
    this._table?.element.remove();
    this._table = null;
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
    this._read();
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
  private _read(): void {
    const { start, end } = this._drawn;
    const { times, values } = this.data.view(start, end);
    const at = this._hovered ?? end;
    const place = placeAt(times, at);
    for (const card of this._cards) {
      card.read(values, times, this._hovered === null ? place : nearest(times, at, place));
    }
    this._table?.show(this.data.processesAt(at), this._hidden);
    this._lane?.readMarks(this._marks, this._hovered, this._when(at), this.end);
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
