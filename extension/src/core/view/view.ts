/**
 * The graph view: one document in one element, with folding, search, selection, heat and inspection.
 *
 * Document → model → scene (what is unfolded) → layout (worker) → picture → stage. Fold state, selection
 * and search live here by structural key and survive new documents.
 */

import type { IGraphDocument, IKernel, LineSpan } from '../../proto/document';
import { parseDocument } from '../../proto/validate';
import { applyLayout, makeRequest } from '../layout/apply';
import { LayoutClient } from '../layout/client';
import type { IBox } from '../model/boxes';
import { initialFold, reveal } from '../model/fold';
import { plural } from '../model/format';
import { GraphModel, type IGraphNode } from '../model/graph';
import { type Measure } from '../model/metrics';
import { boxKey, buildScene, type IEdge, type IItem, type IScene } from '../model/scene';
import { search, type IMatch } from '../model/search';
import { Timing } from '../model/timing';
import { edgesOf } from '../model/trace';
import { Camera } from '../render/camera';
import { headerWidth } from '../render/labels';
import { makePicture } from '../render/picture';
import { readTheme, type ITheme, type ThemeName } from '../render/theme';
import { Bar } from './bar';
import { makeCommands, type ICommand } from './commands';
import { describeItem, edgeLines, errorView, tooltipLines } from './describe';
import { append, button, Disposables, el, Emitter, icon } from './dom';
import { HottestList } from './hottest';
import { Announcer, Breadcrumb, helpCard, Legend, Tooltip, zoomButtons } from './hud';
import { DOUBLE_MS, Input } from './input';
import { Inspector, type IInspectorHost } from './inspector';
import { Stage } from './stage';
import { addStyles } from './styles';
import { makeMeasure } from './text';
import { AccessibleTree } from './tree';
import { register } from './registry';

export interface IGraphViewOptions {
  theme?: ThemeName;
  /** Height in CSS pixels; `fill` takes the height of the host. */
  height?: number | 'fill';
  /** Why Profile is not possible; null when it is. */
  noProfile?: string | null;
  /** The view is the whole page: the wheel always zooms. */
  isPage?: boolean;
  /** Source lines can be opened by the host. */
  canReveal?: boolean;
}

export interface IGraphViewEvents {
  /** Ids of the selected nodes, also those of a selected box. */
  selectionChanged: string[];
  profileRequested: void;
  /** Generated text is wanted that the document leaves out. */
  sourceRequested: string;
  revealRequested: { file: string; line: number; col: number; node: string };
  /** Keys of the unfolded boxes. */
  foldChanged: string[];
  layoutDone: { ms: number; items: number; where: string };
  disposed: void;
}

/** Time that refinement of a layout may take. */
const LAYOUT_BUDGET_MS = 700;

/** Narrower views put the side panel over the drawing. */
const NARROW_PX = 640;

/** Below this zoom the first view shows the top of the graph instead of all of it. */
const READABLE_ZOOM = 0.3;
const TOP_ZOOM = 0.5;

export class GraphView implements IInspectorHost {
  readonly element: HTMLElement;
  readonly commands: ReadonlyMap<string, ICommand>;
  readonly events = new Emitter<IGraphViewEvents>();
  readonly stage: Stage;
  readonly tree: AccessibleTree;
  readonly bar: Bar;
  model: GraphModel = new GraphModel(EMPTY);
  timing: Timing = new Timing(this.model, null);
  scene: IScene | null = null;
  expanded: Set<string> = new Set();
  hasChips = true;
  isPanelOpen = false;
  isDisposed = false;
  layoutMs = 0;
  private readonly _options: Required<IGraphViewOptions>;
  private readonly _disposables = new Disposables();
  private readonly _layout = new LayoutClient();
  private readonly _inspector = new Inspector(this);
  private readonly _hottest = new HottestList(ids => this.select(ids));
  private readonly _legend = new Legend();
  private readonly _crumbs = new Breadcrumb(box => this.showBox(box));
  private readonly _tooltip = new Tooltip();
  readonly announcer = new Announcer();
  private readonly _panel = el('aside', 'jp-MaxLab-panel');
  private readonly _message = el('div', 'jp-MaxLab-message');
  private _tab: 'inspector' | 'hottest' = 'inspector';
  private _theme: ITheme;
  private _measure: Measure;
  private _selection: string[] = [];
  private _selectedKeys: string[] = [];
  private _edge: IEdge | null = null;
  private _hoverEdge: IEdge | null = null;
  private _matches: IMatch[] = [];
  private _match = -1;
  private _hasDocument = false;
  private _needsFit = true;
  private _panelTimer: ReturnType<typeof setTimeout> | undefined;
  private _isProfiling = false;
  private _isKeyboard = false;
  private _pendingLayout: Promise<void> = Promise.resolve();
  private _generation = 0;
  private _help: HTMLElement | null = null;
  private _requested = new Set<string>();

  constructor(host: HTMLElement, options: IGraphViewOptions = {}) {
    this._options = {
      theme: options.theme ?? 'auto',
      height: options.height ?? 560,
      noProfile: options.noProfile === undefined ? 'no live kernel' : options.noProfile,
      isPage: options.isPage ?? false,
      canReveal: options.canReveal ?? false
    };
    this.element = el('div', 'jp-MaxLab-view');
    // JupyterLab's notebook shortcuts must not see the keys that are typed in here.
    this.element.setAttribute('data-lm-suppress-shortcuts', 'true');
    host.append(this.element);
    this._disposables.add(addStyles(this.element));
    this._theme = readTheme(this.element, this._options.theme);
    this._measure = makeMeasure(this._theme.fontUi);
    this.stage = new Stage(this._theme);
    this.tree = new AccessibleTree(
      item => describeItem(this, item),
      item => this._treeFocused(item)
    );
    this.commands = makeCommands(this);
    const run = (id: string): boolean => this.execute(id);
    this.bar = new Bar(run, query => this.search(query));
    this._buildDom(run);
    const input = new Input(this.element, this.stage, {
      ownsWheel: () => this._options.isPage || this.element.contains(document.activeElement),
      run,
      hovered: (item, edge, x, y) => this._hovered(item, edge, x, y),
      clicked: (item, edge, extend) => this._clicked(item, edge, extend),
      toggled: item => {
        clearTimeout(this._panelTimer);
        this.toggle(item.key);
      },
      moved: () => {
        this.stage.redraw();
        this._tooltip.hide();
      },
      hint: text => this.announcer.hint(text)
    });
    this._disposables.add(() => input.dispose());
    this._disposables.add(register(this));
    this.stage.onResize = () => {
      if (this._needsFit && this.scene !== null) {
        this._firstView();
      }
    };
    this._watchTheme();
    this.setHeight(this._options.height);
    this._refresh();
  }

  private _buildDom(run: (id: string) => boolean): void {
    const { element } = this;
    append(
      this.stage.element,
      this.tree.element,
      this._crumbs.element,
      this._legend.element,
      zoomButtons(run),
      this._tooltip.element,
      this.announcer.element,
      this.announcer.live,
      this._message
    );
    this._message.hidden = true;
    this._crumbs.element.hidden = true;
    const tab = (name: 'inspector' | 'hottest', text: string): HTMLElement => {
      const node = button('jp-MaxLab-tab', text, () => this.showTab(name), text);
      node.dataset.tab = name;
      node.setAttribute('role', 'tab');
      return node;
    };
    const close = button('jp-MaxLab-iconButton', 'Close the side panel', () => this.setPanel(false));
    close.append(icon('close'));
    const tabs = el('div', 'jp-MaxLab-tabs', tab('inspector', 'Inspector'), tab('hottest', 'Hottest'), close);
    tabs.setAttribute('role', 'tablist');
    this._panel.append(tabs, this._inspector.element, this._hottest.element);
    this._panel.hidden = true;
    element.append(this.bar.element, el('div', 'jp-MaxLab-body', this.stage.element, this._panel));
    this._disposables.listen(
      element,
      'keydown',
      () => {
        this._setKeyboard(true);
        this._tooltip.hide();
      },
      { capture: true }
    );
    if (typeof ResizeObserver !== 'undefined') {
      const observer = new ResizeObserver(() =>
        element.classList.toggle('jp-mod-narrow', element.clientWidth < NARROW_PX)
      );
      observer.observe(element);
      this._disposables.add(() => observer.disconnect());
    }
    this._disposables.listen(element, 'pointerdown', () => this._setKeyboard(false), {
      capture: true
    });
    this._disposables.listen(this.tree.element, 'focusout', () => this._marks());
  }

  // --- documents -----------------------------------------------------------------------------

  /** Shows a document; anything that is not one is explained instead. */
  setDocument(input: unknown): boolean {
    const parsed = parseDocument(input);
    if (!parsed.ok) {
      this.showProblems('This graph cannot be drawn', parsed.problems);
      return false;
    }
    parsed.warnings.forEach(text => console.warn(`maxlab: ${text}`));
    this._message.hidden = true;
    const { document } = parsed;
    const hadProfile = this.timing.profile !== null;
    this.model = new GraphModel(document);
    this.timing = new Timing(this.model, document.profile);
    this._requested.clear();
    if (!this._hasDocument) {
      this.expanded = initialFold(this.model);
      this._needsFit = true;
    } else {
      // Folding survives; boxes that are new open as a fresh graph would show them.
      const known = new Set([...this.expanded].filter(key => this.model.boxes.has(key)));
      this.expanded = known.size > 0 ? known : initialFold(this.model);
    }
    this._hasDocument = true;
    if (document.profile !== null && !hadProfile) {
      this.stage.isHeat = true;
    }
    if (document.profile === null) {
      this.stage.isHeat = false;
    }
    this._selection = this._selection.filter(id => this.model.node(id) !== undefined);
    this._matches = search(this.model, this.bar.search.value);
    const failed = document.error?.node ?? null;
    if (failed !== null && this.model.node(failed) !== undefined) {
      this.expanded = reveal(this.expanded, (this.model.node(failed) as IGraphNode).box);
      this._selectedKeys = [failed];
      this._selection = [failed];
      this.isPanelOpen = true;
      this._panel.hidden = false;
    }
    void this.rebuild(null);
    return true;
  }

  /** Replaces the drawing by an explanation. */
  showProblems(title: string, problems: readonly string[]): void {
    this._message.replaceChildren(errorView(title, problems));
    this._message.hidden = false;
    this.announcer.say(`${title}: ${problems.join('; ')}`);
  }

  /** Adds the generated text of a kernel that was asked for by `sourceRequested`. */
  setKernelSource(id: string, source: string, lines: LineSpan[]): void {
    const kernel = this.model.kernels.get(id);
    if (kernel !== undefined) {
      kernel.source = source;
      kernel.lines = lines;
      this._showPanel();
    }
  }

  setProfileStatus(status: 'running' | 'done' | 'failed', message = ''): void {
    this._isProfiling = status === 'running';
    if (status === 'failed') {
      this.announcer.hint(message || 'Profiling failed');
    }
    this.announcer.say(status === 'running' ? 'Profiling' : message || `Profile ${status}`);
    this._refresh();
  }

  setNoProfile(reason: string | null): void {
    this._options.noProfile = reason;
    this._refresh();
  }

  setTheme(name: ThemeName): void {
    this._options.theme = name;
    this._applyTheme();
  }

  setHeight(height: number | 'fill'): void {
    this.element.style.height = height === 'fill' ? '100%' : `${Math.max(160, height)}px`;
  }

  get theme(): ITheme {
    return this._theme;
  }

  private _watchTheme(): void {
    const apply = (): void => this._applyTheme();
    if (typeof MutationObserver !== 'undefined') {
      const observer = new MutationObserver(apply);
      for (const target of [document.body, document.documentElement]) {
        observer.observe(target, {
          attributes: true,
          attributeFilter: ['data-jp-theme-light', 'data-jp-theme-name', 'data-theme', 'class', 'style']
        });
      }
      this._disposables.add(() => observer.disconnect());
    }
    if (typeof matchMedia === 'function') {
      this._disposables.listen(matchMedia('(prefers-color-scheme: dark)'), 'change', apply);
      const motion = matchMedia('(prefers-reduced-motion: reduce)');
      const set = (): void => {
        this.stage.reducedMotion = motion.matches;
      };
      set();
      this._disposables.listen(motion, 'change', set);
    }
    this._applyTheme();
  }

  private _applyTheme(): void {
    this._theme = readTheme(this.element, this._options.theme);
    const t = this._theme;
    this.element.classList.toggle('jp-mod-dark', t.isDark);
    const variables: Record<string, string> = {
      bg: t.background,
      surface: t.surface,
      text: t.text,
      muted: t.muted,
      line: t.line,
      accent: t.accent,
      'accent-soft': t.accentSoft,
      error: t.error,
      'error-fill': t.errorFill,
      hatch: t.hatch,
      mark: t.chip,
      hot: t.ramp[Math.floor(t.ramp.length * 0.7)] ?? t.accent,
      'font-ui': t.fontUi,
      'font-mono': t.fontMono
    };
    for (const [name, value] of Object.entries(variables)) {
      this.element.style.setProperty(`--mx-${name}`, value);
    }
    this.stage.setTheme(t);
    this._showLegend();
  }

  // --- scene and layout ------------------------------------------------------------------------

  /** Resolves when the newest layout is on the stage. */
  async layoutDone(): Promise<void> {
    for (let seen = -1; seen !== this._generation; ) {
      seen = this._generation;
      await this._pendingLayout;
    }
  }

  /** Builds the scene for the current fold state and lays it out; `anchor` keeps its place. */
  rebuild(anchor: string | null): Promise<void> {
    this._generation += 1;
    this._pendingLayout = this._rebuild(anchor);
    return this._pendingLayout;
  }

  private async _rebuild(anchor: string | null): Promise<void> {
    const scene = buildScene(this.model, {
      expanded: this.expanded,
      chips: this.hasChips,
      timing: this.timing,
      measure: this._measure
    });
    const request = makeRequest(scene, item => headerWidth(item, this._measure), LAYOUT_BUDGET_MS);
    const answer = await this._layout.layout(request);
    if (answer === null || this.isDisposed) {
      return;
    }
    this.layoutMs = answer.ms;
    applyLayout(scene, answer.results);
    this.scene = scene;
    this._edge = null;
    this._hoverEdge = null;
    this._tooltip.hide();
    const picture = makePicture(this.model, scene, this.timing, this._measure);
    this.stage.setPicture(picture, anchor ?? this._middleKey());
    this.tree.setScene(scene, this.tree.active?.key ?? this._selectedKeys[0] ?? null);
    if (this._needsFit) {
      this._firstView();
    }
    this._refresh();
    this._select(this._selectedKeys, false);
    this.events.emit('layoutDone', {
      ms: answer.ms,
      items: scene.items.length,
      where: answer.where
    });
  }

  /** Key of an item near the middle of the window: it keeps its place when a document changes. */
  private _middleKey(): string | null {
    if (this._needsFit || this.scene === null) {
      return null;
    }
    return this.stage.hit(this.stage.width / 2, this.stage.height / 2)?.item.key ?? null;
  }

  private _firstView(): void {
    const { stage } = this;
    const bounds = stage.picture?.bounds;
    if (stage.width === 0 || bounds === undefined) {
      return;
    }
    this._needsFit = false;
    const fit = Camera.fit(bounds, stage.width, stage.height, 22, 1);
    if (fit.k < READABLE_ZOOM && bounds.w * READABLE_ZOOM <= stage.width * 3) {
      const k = Math.max(READABLE_ZOOM, Math.min(TOP_ZOOM, (stage.width - 72) / bounds.w));
      const first = this.scene?.items[0];
      const isWide = bounds.w * k > stage.width;
      const centre =
        isWide && first !== undefined ? first.x + first.w / 2 : bounds.x + bounds.w / 2;
      fit.set(k, stage.width / 2 - centre * k, 28 - bounds.y * k);
    }
    stage.flyTo(fit, false);
  }

  // --- folding ----------------------------------------------------------------------------------

  /** Folds or unfolds the box with an item key; false when there is none. */
  toggle(key: string): boolean {
    const box = this.model.boxes.get(key.replace(/^box:/, ''));
    if (box === undefined || box.kind === 'root') {
      return false;
    }
    const isOpen = this.expanded.has(box.key);
    this.setExpanded(box, !isOpen);
    this.announcer.say(`${box.label} ${isOpen ? 'folded' : `unfolded, ${plural(box.total, 'operation')}`}`);
    return true;
  }

  setExpanded(box: IBox, isOpen: boolean): Promise<void> {
    const next = new Set(this.expanded);
    if (isOpen) {
      next.add(box.key);
    } else {
      next.delete(box.key);
    }
    return this.setFold(next, boxKey(box));
  }

  setFold(expanded: Set<string>, anchor: string | null): Promise<void> {
    this.expanded = expanded;
    this.events.emit('foldChanged', [...expanded]);
    return this.rebuild(anchor ?? this._middleKey());
  }

  /** Unfolds everything above an item and moves the camera to it. */
  async show(key: string): Promise<void> {
    const box = this._homeOf(key);
    if (box !== null) {
      const next = new Set(this.expanded);
      for (let up: IBox | null = box; up !== null && up.kind !== 'root'; up = up.parent) {
        next.add(up.key);
      }
      if (next.size !== this.expanded.size) {
        await this.setFold(next, null);
      }
    }
    const item = this.scene?.byKey.get(key);
    if (item !== undefined) {
      this.bringIntoView(item);
    }
  }

  showBox(box: IBox): void {
    if (box.kind === 'root') {
      this.execute('fit');
      return;
    }
    void this.show(boxKey(box)).then(() => this._select([boxKey(box)], true));
  }

  /** The box that has to be open for an item to be visible. */
  private _homeOf(key: string): IBox | null {
    const node = this.model.node(key);
    if (node !== undefined) {
      return node.box;
    }
    return this.model.boxes.get(key.replace(/^box:/, ''))?.parent ?? null;
  }

  bringIntoView(item: IItem): void {
    const { stage } = this;
    const { k, tx, ty } = stage.camera;
    const margin = 48;
    const target = new Camera();
    target.set(k, tx, ty);
    if (k < 0.45) {
      target.zoomAt(0.8 / k, stage.width / 2, stage.height / 2);
    }
    const x = item.x * target.k + target.tx;
    const y = item.y * target.k + target.ty;
    const w = item.w * target.k;
    const h = Math.min(item.h * target.k, stage.height - 2 * margin);
    const isInside =
      x >= margin && y >= margin && x + w <= stage.width - margin && y + h <= stage.height - margin;
    if (isInside && target.k === k) {
      return;
    }
    target.tx += stage.width / 2 - (x + w / 2);
    target.ty += stage.height / 2 - (y + h / 2);
    stage.flyTo(target);
  }

  // --- selection --------------------------------------------------------------------------------

  get selection(): string[] {
    return [...this._selection];
  }

  get selectedKeys(): readonly string[] {
    return this._selectedKeys;
  }

  /** Selects operations by id, unfolding what hides them, and shows the first. */
  select(ids: readonly string[]): void {
    const keys = ids.filter(id => this.model.node(id) !== undefined);
    const drawn = keys.filter(id => this.model.node(id)?.isChip === false);
    this._select(drawn.length > 0 ? drawn : keys, true);
    const [first] = drawn;
    if (first !== undefined) {
      void this.show(first);
    }
  }

  /** Selects items by key without moving anything. */
  private _select(keys: readonly string[], isChange: boolean): void {
    this._edge = null;
    this._selectedKeys = [...keys];
    const ids = keys.flatMap(key => {
      const box = key.startsWith('box:') ? this.model.boxes.get(key.slice(4)) : undefined;
      if (box !== undefined) {
        return this.model.nodesIn(box).map(i => this.model.nodes[i]?.node.id ?? '');
      }
      return this.model.node(key) === undefined ? [] : [key];
    });
    const changed = ids.length !== this._selection.length || ids.some((id, i) => id !== this._selection[i]);
    this._selection = ids;
    clearTimeout(this._panelTimer);
    if (isChange && keys.length > 0 && this.stage.width > 560 && !this.isPanelOpen) {
      // The panel takes room from the drawing: not between the two clicks that unfold a box.
      const wait = keys[0]?.startsWith('box:') === true ? DOUBLE_MS : 0;
      if (wait === 0) {
        this.setPanel(true);
      } else {
        this._panelTimer = setTimeout(() => this.setPanel(true), wait);
      }
    }
    this._marks();
    this._showPanel();
    if (isChange && changed) {
      this.events.emit('selectionChanged', ids);
    }
  }

  /** Takes a selection that was made elsewhere; does not announce it back. */
  syncSelection(ids: readonly string[]): void {
    if (ids.length === this._selection.length && ids.every((id, i) => id === this._selection[i])) {
      return;
    }
    const known = ids.filter(id => this.model.node(id) !== undefined);
    this._select(known, false);
    if (known[0] !== undefined) {
      void this.show(known[0]);
    }
  }

  clearSelection(): void {
    this._select([], true);
  }

  /** Moves keyboard focus, and the selection with it, to an item. */
  goTo(item: IItem): void {
    this.tree.setActive(item, true);
    this._select([item.key], true);
    this.bringIntoView(item);
  }

  private _treeFocused(item: IItem): void {
    if (this.tree.active !== item) {
      this.tree.setActive(item, false);
    }
    this._marks();
  }

  private _setKeyboard(isKeyboard: boolean): void {
    if (this._isKeyboard !== isKeyboard) {
      this._isKeyboard = isKeyboard;
      this._marks();
    }
  }

  private _clicked(item: IItem | null, edge: IEdge | null, extend: boolean): void {
    if (item === null) {
      this._select([], true);
      this.selectEdge(edge);
      return;
    }
    this.tree.setActive(item, true);
    if (extend && this._selectedKeys.length > 0) {
      const has = this._selectedKeys.includes(item.key);
      const keys = this._selectedKeys.filter(key => key !== item.key);
      this._select(has ? keys : [...keys, item.key], true);
    } else {
      this._select([item.key], true);
    }
  }

  /** Shows an edge in the inspector; null leaves it. */
  selectEdge(edge: IEdge | null): void {
    this._edge = edge;
    if (edge !== null && this.stage.width > 560) {
      this.setPanel(true);
    }
    this._marks();
    this._showPanel();
  }

  private _hovered(item: IItem | null, edge: IEdge | null, x: number, y: number): void {
    if (this.stage.marks.hover !== item || this._hoverEdge !== edge) {
      this.stage.marks.hover = item;
      this._hoverEdge = edge;
      this._marks();
    }
    const lines = item !== null ? tooltipLines(this, item) : edge !== null ? edgeLines(this, edge) : null;
    if (lines === null) {
      this._tooltip.hide();
    } else {
      this._tooltip.show(lines, x, y, this.stage.width, this.stage.height);
    }
  }

  /** Recomputes what the overlay shows. */
  private _marks(): void {
    const { marks } = this.stage;
    const { scene } = this;
    if (scene === null) {
      return;
    }
    const itemOf = (key: string): IItem | null => {
      const node = this.model.node(key);
      return scene.byKey.get(key) ?? (node === undefined ? null : (scene.ofNode[node.index] ?? null));
    };
    const selected = this._selectedKeys.map(itemOf).filter(item => item !== null);
    marks.selected = [...new Set(selected)];
    const mates = new Set<IItem>();
    for (const item of marks.selected) {
      for (const kernel of item.node?.kernels ?? []) {
        for (const id of kernel.nodes) {
          const mate = itemOf(id);
          if (mate !== null && !marks.selected.includes(mate)) {
            mates.add(mate);
          }
        }
      }
    }
    marks.mates = [...mates];
    const lit = marks.selected.length === 1 ? marks.selected[0] : marks.hover;
    const edges = lit === undefined || lit === null ? [] : [...edgesOf(lit, 'up'), ...edgesOf(lit, 'down')];
    const one = this._hoverEdge ?? this._edge;
    marks.edges = one === null ? edges : [...edges, one];
    const hits = new Set<IItem>();
    for (const match of this._matches) {
      const item = scene.byKey.get(match.key) ?? (match.node >= 0 ? scene.ofNode[match.node] : null);
      if (item !== null && item !== undefined) {
        hits.add(item);
      }
    }
    marks.hits = [...hits];
    const current = this._matches[this._match];
    marks.currentHit = current === undefined ? null : itemOf(current.key);
    marks.focus = this._isKeyboard && this.tree.hasFocus ? this.tree.active : null;
    const focus = marks.selected[0] ?? null;
    this._crumbs.show(focus === null ? null : (focus.box ?? focus.parent?.box ?? null));
    this.stage.redrawMarks();
  }

  // --- search -----------------------------------------------------------------------------------

  search(query: string): void {
    this._matches = search(this.model, query);
    this._match = -1;
    const isEmpty = query.trim() === '';
    const count = this._matches.length;
    this.bar.showCount(isEmpty ? '' : count === 0 ? 'none' : String(count));
    this.announcer.say(isEmpty ? '' : plural(count, 'match').replace('matchs', 'matches'));
    this._marks();
  }

  /** Goes to the next (`1`) or previous (`-1`) match, round and round. */
  async stepMatch(step: 1 | -1): Promise<void> {
    const count = this._matches.length;
    if (count === 0) {
      return;
    }
    this._match = (this._match + step + (this._match < 0 && step < 0 ? 1 : 0) + count) % count;
    const match = this._matches[this._match] as IMatch;
    this.bar.showCount(`${this._match + 1} of ${count}`);
    await this.show(match.key);
    this._select([match.key], true);
    const item = this.scene?.byKey.get(match.key);
    if (item !== undefined) {
      this.tree.setActive(item, false);
      this.announcer.say(`match ${this._match + 1} of ${count}: ${describeItem(this, item)}`);
    }
  }

  // --- panels -----------------------------------------------------------------------------------

  setPanel(isOpen: boolean): void {
    clearTimeout(this._panelTimer);
    this._tooltip.hide();
    this.isPanelOpen = isOpen;
    this._panel.hidden = !isOpen;
    this._showPanel();
    this._refresh();
  }

  showTab(name: 'inspector' | 'hottest'): void {
    this._tab = name;
    this.setPanel(true);
  }

  private _showPanel(): void {
    if (!this.isPanelOpen) {
      return;
    }
    for (const tab of this._panel.querySelectorAll<HTMLElement>('[data-tab]')) {
      tab.setAttribute('aria-selected', String(tab.dataset.tab === this._tab));
    }
    this._inspector.element.hidden = this._tab !== 'inspector';
    this._hottest.element.hidden = this._tab !== 'hottest';
    if (this._tab === 'hottest') {
      this._hottest.show(this.model, this.timing, new Set(this._selection));
    } else {
      const [key] = this._selectedKeys;
      const item = key === undefined ? undefined : this._selectedItem(key);
      if (this._edge !== null) {
        this._inspector.showEdge(this._edge);
      } else {
        this._inspector.show(item === undefined ? [] : [item], this._selectedKeys);
      }
    }
  }

  private _selectedItem(key: string): IItem | undefined {
    return this.scene?.byKey.get(key);
  }

  inspectorText(): string {
    return this._inspector.element.textContent ?? '';
  }

  setHeat(isHeat: boolean): void {
    this.stage.isHeat = isHeat && this.timing.totalNs > 0;
    this.stage.redraw();
    this._refresh();
  }

  showHelp(): void {
    if (this._help !== null) {
      this._help.remove();
      this._help = null;
      return;
    }
    this._help = helpCard(() => this.showHelp());
    this.stage.element.append(this._help);
  }

  private _showLegend(): void {
    const ns = this.stage.picture?.hottestNs ?? 0;
    this._legend.show(this._theme, this.timing, ns, this.stage.isHeat);
  }

  private _refresh(): void {
    const { document } = this.model;
    const ops = this.model.nodes.filter(n => !n.isChip).length;
    this.bar.update({
      title: document.name,
      subtitle: this._hasDocument ? plural(ops, 'op') : '',
      isHeat: this.stage.isHeat,
      hasProfile: this.timing.totalNs > 0,
      hasChips: this.hasChips,
      isPanelOpen: this.isPanelOpen,
      noProfile: this._options.noProfile,
      isProfiling: this._isProfiling,
      hasBoxes: this.model.root.children.length > 0
    });
    this._showLegend();
  }

  // --- host of the inspector and the commands -----------------------------------------------------

  get canProfile(): boolean {
    return this._options.noProfile === null && !this._isProfiling;
  }

  execute(id: string): boolean {
    const command = this.commands.get(id);
    if (command === undefined || (command.isEnabled !== undefined && !command.isEnabled())) {
      return false;
    }
    command.execute();
    return true;
  }

  reveal(node: IGraphNode): void {
    const { source } = node.node;
    if (source !== null) {
      const { file, line, col } = source;
      this.events.emit('revealRequested', { file, line, col, node: node.node.id });
    }
  }

  canReveal(): boolean {
    return this._options.canReveal;
  }

  requestSource(kernel: IKernel): boolean {
    if (this._options.noProfile !== null) {
      return false;
    }
    if (!this._requested.has(kernel.id)) {
      this._requested.add(kernel.id);
      this.events.emit('sourceRequested', kernel.id);
    }
    return true;
  }

  familyColor(node: IGraphNode): string {
    return this._theme.family[node.family].stripe;
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    clearTimeout(this._panelTimer);
    this.events.emit('disposed', undefined);
    this.events.clear();
    this._disposables.dispose();
    this._layout.dispose();
    this.announcer.dispose();
    this.stage.dispose();
    this.scene = null;
    this.element.remove();
  }
}

const EMPTY: IGraphDocument = {
  format: 'maxlab.graph',
  version: 1,
  name: '',
  revision: 0,
  nodes: [],
  values: [],
  inputs: [],
  outputs: [],
  scopes: [],
  kernels: [],
  passes: [],
  profile: null,
  error: null
};
