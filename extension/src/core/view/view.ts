/**
 * The graph view: one document in one element, with folding, search, selection, heat and inspection.
 *
 * Document → model → scene (what is unfolded) → layout (worker) → picture → stage. Fold state, selection
 * and search live here by structural key and survive new documents.
 */

import type { IKernel, LineSpan } from '../../proto/document';
import { parseDocument } from '../../proto/validate';
import { applyLayout, makeRequest } from '../layout/apply';
import { LayoutClient } from '../layout/client';
import type { IBox } from '../model/boxes';
import { initialFold, reveal } from '../model/fold';
import { plural } from '../model/format';
import { EMPTY_DOCUMENT, GraphModel, type IGraphNode } from '../model/graph';
import { boxKey, buildScene, type IEdge, type IItem, type IScene } from '../model/scene';
import { search } from '../model/search';
import { Timing } from '../model/timing';
import { headerWidth } from '../render/labels';
import { Bar } from './bar';
import { makeCommands, type ICommand } from './commands';
import { describeItem, edgeLines, tooltipLines } from './describe';
import { DockedView } from './docked';
import { Emitter } from './dom';
import { Breadcrumb, zoomButtons } from './hud';
import { DOUBLE_MS, Input } from './input';
import type { IInspectorHost } from './kernel';
import { Selection } from './selection';
import { SidePanel, type TabName } from './side';
import { AccessibleTree } from './tree';
import { register } from './registry';
import type { IGraphViewEvents, IGraphViewOptions } from './types';
import { firstView, insideView, viewOf } from './viewpoint';

/** Time that refinement of a layout may take. */
const LAYOUT_BUDGET_MS = 700;

export class GraphView extends DockedView implements IInspectorHost {
  readonly commands: ReadonlyMap<string, ICommand>;
  readonly events = new Emitter<IGraphViewEvents>();
  readonly tree: AccessibleTree;
  readonly bar: Bar;
  model: GraphModel = new GraphModel(EMPTY_DOCUMENT);
  timing: Timing = new Timing(this.model, null);
  scene: IScene | null = null;
  expanded: Set<string> = new Set();
  hasChips = true;
  layoutMs = 0;
  private readonly _layout = new LayoutClient();
  private readonly _selection = new Selection();
  private readonly _side: SidePanel;
  private readonly _crumbs = new Breadcrumb(box => this.showBox(box));
  private _hasDocument = false;
  private _needsFit = true;
  private _panelTimer: ReturnType<typeof setTimeout> | undefined;
  private _isProfiling = false;
  private _pendingLayout: Promise<void> = Promise.resolve();
  private _generation = 0;
  private _requested = new Set<string>();

  constructor(host: HTMLElement, options: IGraphViewOptions = {}) {
    super(host, options);
    this._side = new SidePanel(
      this,
      name => this.showTab(name),
      () => this.setPanel(false)
    );
    this.tree = new AccessibleTree(
      item => describeItem(this, item),
      item => this._treeFocused(item)
    );
    this.commands = makeCommands(this);
    const run = (id: string): boolean => this.execute(id);
    this.bar = new Bar(run, query => this.search(query));
    this._crumbs.element.hidden = true;
    this._assemble(this.bar.element, this._side.element, this.dock.element, [
      this.tree.element,
      this._crumbs.element,
      zoomButtons(run)
    ]);
    this._disposables.listen(this.tree.element, 'focusout', () => this._marks());
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
        this.stage.keepInView();
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
    this._refresh();
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
    const before = this.model;
    this.model = new GraphModel(document);
    this.timing = new Timing(this.model, document.profile);
    this._requested.clear();
    const isFirst = !this._hasDocument;
    if (isFirst) {
      this.expanded = initialFold(this.model);
      this._needsFit = true;
    } else {
      // Folding survives; boxes that are new open as a fresh graph would show them.
      const kept = [...this.expanded].filter(key => this.model.boxes.has(key));
      const fresh = [...initialFold(this.model)].filter(key => !before.boxes.has(key));
      this.expanded = new Set([...kept, ...fresh]);
    }
    this._hasDocument = true;
    if (document.profile !== null && !hadProfile) {
      this.stage.isHeat = true;
    }
    if (document.profile === null) {
      this.stage.isHeat = false;
    }
    this._selection.prune(this.model);
    this._selection.matches = search(this.model, this.bar.search.value);
    const failed = document.error?.node ?? null;
    if (failed !== null && this.model.node(failed) !== undefined) {
      this.expanded = reveal(this.expanded, (this.model.node(failed) as IGraphNode).box);
      this._selection.set(this.model, [failed]);
      this._side.isOpen = true;
    }
    this._dropOverlay();
    void this.rebuild(null);
    this.dock.update();
    if (isFirst && document.panel !== undefined) {
      this.dock.open(document.panel, true);
    }
    return true;
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
      hasNotes: this._hasOverlay,
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
    this._selection.edge = null;
    this._selection.hoverEdge = null;
    this._tooltip.hide();
    this.stage.setPicture(this._pictureOf(scene), anchor ?? this._middleKey());
    this.tree.setScene(scene, this.tree.active?.key ?? this._selection.keys[0] ?? null);
    if (this._needsFit) {
      this._firstView();
    }
    this._refresh();
    this._select(this._selection.keys, false);
    this.events.emit('layoutDone', {
      ms: answer.ms,
      items: scene.items.length,
      where: answer.where
    });
  }

  /** Key of an item near the middle of the window: it keeps its place when a document changes. */
  protected _middleKey(): string | null {
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
    stage.flyTo(firstView(stage, bounds, this.scene?.items[0]), false);
  }

  // --- folding ----------------------------------------------------------------------------------

  /** Folds or unfolds the box with an item key; false when there is none. */
  toggle(key: string): boolean {
    const box = this.model.boxes.get(key.replace(/^box:/, ''));
    if (box === undefined || box.kind === 'root') {
      return false;
    }
    const isOpen = this.expanded.has(box.key);
    void this.setExpanded(box, !isOpen).then(() => {
      const item = this.scene?.byKey.get(boxKey(box));
      const target = isOpen || item === undefined ? null : insideView(this.stage, item);
      if (target !== null) {
        this.stage.flyTo(target);
      }
    });
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
    const target = viewOf(this.stage, item);
    if (target !== null) {
      this.stage.flyTo(target);
    }
  }

  // --- selection --------------------------------------------------------------------------------

  get selection(): string[] {
    return [...this._selection.ids];
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
    const changed = this._selection.set(this.model, keys);
    clearTimeout(this._panelTimer);
    if (isChange && keys.length > 0 && this.stage.width > 560 && !this._side.isOpen) {
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
    if (changed) {
      this.dock.selected(this.selection);
    }
    if (isChange && changed) {
      this.events.emit('selectionChanged', this.selection);
    }
  }

  /** Takes a selection that was made elsewhere; does not announce it back. */
  syncSelection(ids: readonly string[]): void {
    const { ids: own } = this._selection;
    if (ids.length === own.length && ids.every((id, i) => id === own[i])) {
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

  protected _keyboardChanged(): void {
    this._marks();
  }

  private _clicked(item: IItem | null, edge: IEdge | null, extend: boolean): void {
    if (item === null) {
      this._select([], true);
      this.selectEdge(edge);
      return;
    }
    this.tree.setActive(item, true);
    const { keys: before } = this._selection;
    if (extend && before.length > 0) {
      const has = before.includes(item.key);
      const keys = before.filter(key => key !== item.key);
      this._select(has ? keys : [...keys, item.key], true);
    } else {
      this._select([item.key], true);
    }
  }

  /** Shows an edge in the inspector; null leaves it. */
  selectEdge(edge: IEdge | null): void {
    this._selection.edge = edge;
    if (edge !== null && this.stage.width > 560) {
      this.setPanel(true);
    }
    this._marks();
    this._showPanel();
  }

  private _hovered(item: IItem | null, edge: IEdge | null, x: number, y: number): void {
    if (this.stage.marks.hover !== item || this._selection.hoverEdge !== edge) {
      this.stage.marks.hover = item;
      this._selection.hoverEdge = edge;
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
    this._selection.mark(this.model, scene, marks);
    marks.focus = this._isKeyboard && this.tree.hasFocus ? this.tree.active : null;
    const focus = marks.selected[0] ?? null;
    this._crumbs.show(focus === null ? null : (focus.box ?? focus.parent?.box ?? null));
    this.stage.redrawMarks();
  }

  // --- search -----------------------------------------------------------------------------------

  search(query: string): void {
    this._selection.matches = search(this.model, query);
    this._selection.match = -1;
    const isEmpty = query.trim() === '';
    const count = this._selection.matches.length;
    this.bar.showCount(isEmpty ? '' : count === 0 ? 'none' : String(count));
    this.announcer.say(isEmpty ? '' : plural(count, 'match').replace('matchs', 'matches'));
    this._marks();
  }

  /** Goes to the next (`1`) or previous (`-1`) match, round and round. */
  async stepMatch(step: 1 | -1): Promise<void> {
    const match = this._selection.step(step);
    if (match === null) {
      return;
    }
    const place = `${this._selection.match + 1} of ${this._selection.matches.length}`;
    this.bar.showCount(place);
    await this.show(match.key);
    this._select([match.key], true);
    const item = this.scene?.byKey.get(match.key);
    if (item !== undefined) {
      this.tree.setActive(item, false);
      this.announcer.say(`match ${place}: ${describeItem(this, item)}`);
    }
  }

  // --- panels -----------------------------------------------------------------------------------

  setPanel(isOpen: boolean): void {
    clearTimeout(this._panelTimer);
    this._tooltip.hide();
    this._side.isOpen = isOpen;
    this._showPanel();
    this._refresh();
  }

  showTab(name: TabName): void {
    this._side.tab = name;
    this.setPanel(true);
  }

  get isPanelOpen(): boolean {
    return this._side.isOpen;
  }

  private _showPanel(): void {
    const { keys, ids, edge } = this._selection;
    const item = this.scene?.byKey.get(keys[0] ?? '') ?? null;
    this._side.show({ item, keys, ids, edge });
  }

  inspectorText(): string {
    return this._side.text;
  }

  setHeat(isHeat: boolean): void {
    this.stage.isHeat = isHeat && this.timing.totalNs > 0;
    this.stage.redraw();
    this._refresh();
  }

  protected _refresh(): void {
    const { document } = this.model;
    const ops = this.model.nodes.filter(n => !n.isChip).length;
    this.bar.update({
      title: document.name,
      subtitle: this._hasDocument ? plural(ops, 'op') : '',
      isHeat: this.stage.isHeat,
      hasProfile: this.timing.totalNs > 0,
      hasChips: this.hasChips,
      isPanelOpen: this.isPanelOpen,
      isDockOpen: this.dock.isOpen,
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

  reveal(given: IGraphNode | string): boolean {
    const node = typeof given === 'string' ? this.model.node(given) : given;
    const source = node?.node.source ?? null;
    if (node === undefined || source === null || !this.canReveal()) {
      return false;
    }
    const { file, line, col } = source;
    this.events.emit('revealRequested', { file, line, col, node: node.node.id });
    return true;
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
    return this.theme.family[node.family].stripe;
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    clearTimeout(this._panelTimer);
    this.events.emit('disposed', undefined);
    this.events.clear();
    this._layout.dispose();
    super.dispose();
    this.scene = null;
  }
}
