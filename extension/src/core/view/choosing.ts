/** What is selected, hovered and found in a view, and how its drawing, tree and side panel show it. */

import type { IBox } from '../model/boxes';
import type { IEdge, IItem, IScene } from '../model/scene';
import type { IMatch } from '../query/search';
import type { Bar } from './bar';
import { describeItem, edgeLines, tooltipLines, type IDescribed } from './describe';
import type { Dock } from './dock';
import type { Emitter } from './dom';
import { Finder } from './finder';
import { Breadcrumb } from './hud';
import { DOUBLE_MS } from './input';
import type { IInspectorHost } from './kernel';
import { Selection } from './selection';
import type { Shell } from './shell';
import { SidePanel, type TabName } from './side';
import type { AccessibleTree } from './tree';
import type { IGraphViewEvents } from './types';

/** Narrower drawings keep their room: the side panel opens by itself beside wider ones only. */
const ROOM_FOR_PANEL_PX = 560;

export interface IChoosingHost extends IInspectorHost, IDescribed {
  readonly scene: IScene | null;
  readonly tree: AccessibleTree;
  readonly bar: Bar;
  readonly dock: Dock;
  readonly events: Emitter<IGraphViewEvents>;
  /** Unfolds everything above an item and moves the camera to it. */
  show(key: string, isNear?: boolean): Promise<void>;
  bringIntoView(item: IItem): void;
  showBox(box: IBox): void;
  /** The side panel was opened or closed. */
  refresh(): void;
  /** Another item or edge is selected. */
  chosenChanged(): void;
}

export class Choosing {
  readonly side: SidePanel;
  readonly crumbs: Breadcrumb;
  readonly finder: Finder;
  private readonly _selection = new Selection();
  private _panelTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly _shell: Shell,
    private readonly _host: IChoosingHost
  ) {
    this.side = new SidePanel(
      _host,
      name => this.showTab(name),
      () => this.setPanel(false)
    );
    this.finder = new Finder({
      get model() {
        return _host.model;
      },
      get bar() {
        return _host.bar;
      },
      found: matches => this._found(matches),
      goToMatch: index => void this._goToMatch(index)
    });
    this.crumbs = new Breadcrumb(box => _host.showBox(box));
    this.crumbs.element.hidden = true;
  }

  /** Ids of the selected operations, with those inside selected boxes. */
  get ids(): string[] {
    return [...this._selection.ids];
  }

  /** Key of the first selected item; null when there is none. */
  get firstKey(): string | null {
    return this._selection.keys[0] ?? null;
  }

  /** Forgets what a new document no longer has, and finds again what is searched for. */
  follow(query: string): void {
    this._selection.prune(this._host.model);
    this.finder.forget();
    this._find(query);
  }

  /** Selects an operation and opens the side panel with it, before it is drawn. */
  point(id: string): void {
    this._selection.set(this._host.model, [id]);
    this.side.isOpen = true;
  }

  /** The scene is another one: its edges are not those that were pointed at. */
  sceneChanged(): void {
    this._selection.edge = null;
    this._selection.hoverEdge = null;
    this._shell.tooltip.hide();
  }

  /** Selects again what is selected, in the scene that is on the stage now. */
  again(): void {
    this.choose(this._selection.keys, false);
  }

  /** A box is about to be unfolded: the side panel waits for another click. */
  holdPanel(): void {
    clearTimeout(this._panelTimer);
  }

  dispose(): void {
    clearTimeout(this._panelTimer);
  }

  /** Selects operations by id, unfolding what hides them, and shows the first. */
  select(ids: readonly string[]): void {
    const keys = ids.filter(id => this._host.model.node(id) !== undefined);
    const drawn = keys.filter(id => this._host.model.node(id)?.isChip === false);
    this.choose(drawn.length > 0 ? drawn : keys, true);
    const [first] = drawn;
    if (first !== undefined) {
      this._goAlong(first);
    }
  }

  /**
   * Selects what a change made, operations and inputs; the camera moves no further than it takes to see
   * the first of them.
   */
  selectMade(ids: readonly string[]): void {
    const { model } = this._host;
    const keys = ids.map(id => (model.document.inputs.includes(id) ? `in:${id}` : id));
    const known = keys.filter(key => key.startsWith('in:') || model.node(key) !== undefined);
    const drawn = known.filter(key => model.node(key)?.isChip !== true);
    this.choose(drawn.length > 0 ? drawn : known, true);
    const [first] = drawn;
    if (first !== undefined) {
      this._goAlong(first, true);
    }
  }

  /** Shows a selected item, and moves the place of the keyboard there; the focus stays where it is. */
  private _goAlong(key: string, isNear = false): void {
    void this._host.show(key, isNear).then(() => {
      const item = this._host.scene?.byKey.get(key);
      if (item !== undefined && this.firstKey === key) {
        this._host.tree.setActive(item, false);
        this.mark();
      }
    });
  }

  /** Selects items by key without moving anything. */
  choose(keys: readonly string[], isChange: boolean, opensPanel = true): void {
    const changed = this._selection.set(this._host.model, keys);
    clearTimeout(this._panelTimer);
    const hasRoom = this._shell.stage.width > ROOM_FOR_PANEL_PX;
    if (opensPanel && isChange && keys.length > 0 && hasRoom && !this.side.isOpen) {
      // The panel takes room from the drawing: not between the two clicks that unfold a box.
      const wait = keys[0]?.startsWith('box:') === true ? DOUBLE_MS : 0;
      if (wait === 0) {
        this.setPanel(true);
      } else {
        this._panelTimer = setTimeout(() => this.setPanel(true), wait);
      }
    }
    this.mark();
    this.showPanel();
    if (changed) {
      this._host.dock.selected(this.ids);
    }
    if (isChange && changed) {
      this._host.events.emit('selectionChanged', this.ids);
    }
  }

  /** Takes a selection that was made elsewhere; does not announce it back. */
  syncSelection(ids: readonly string[]): void {
    const { ids: own } = this._selection;
    if (ids.length === own.length && ids.every((id, i) => id === own[i])) {
      return;
    }
    const known = ids.filter(id => this._host.model.node(id) !== undefined);
    this.choose(known, false);
    if (known[0] !== undefined) {
      this._goAlong(known[0]);
    }
  }

  clearSelection(): void {
    this.choose([], true);
  }

  /** Moves keyboard focus, and the selection with it, to an item. */
  goTo(item: IItem): void {
    this._host.tree.setActive(item, true);
    this.choose([item.key], true);
    this._host.bringIntoView(item);
  }

  treeFocused(item: IItem): void {
    if (this._host.tree.active !== item) {
      this._host.tree.setActive(item, false);
    }
    this.mark();
  }

  clicked(item: IItem | null, edge: IEdge | null, extend: boolean): void {
    if (item === null) {
      this.choose([], true);
      this.selectEdge(edge);
      return;
    }
    this._host.tree.setActive(item, true);
    const { keys: before } = this._selection;
    if (extend && before.length > 0) {
      const has = before.includes(item.key);
      const keys = before.filter(key => key !== item.key);
      this.choose(has ? keys : [...keys, item.key], true);
    } else {
      this.choose([item.key], true);
    }
  }

  /** Keys of the selected items. */
  get keys(): readonly string[] {
    return this._selection.keys;
  }

  /** The selected edge. */
  get edge(): IEdge | null {
    return this._selection.edge;
  }

  /** Selects what a menu opens on. The side panel does not open: what the menu is about would move. */
  pointed(item: IItem | null, edge: IEdge | null): void {
    if (item !== null) {
      this._host.tree.setActive(item, true);
    }
    this.choose(item === null ? [] : [item.key], true, false);
    this._selection.edge = edge;
    this.mark();
    this.showPanel();
  }

  /** Shows an edge in the inspector; null leaves it. */
  selectEdge(edge: IEdge | null): void {
    this._selection.edge = edge;
    if (edge !== null && this._shell.stage.width > ROOM_FOR_PANEL_PX) {
      this.setPanel(true);
    }
    this.mark();
    this.showPanel();
  }

  hovered(item: IItem | null, edge: IEdge | null, x: number, y: number): void {
    if (this._shell.stage.marks.hover !== item || this._selection.hoverEdge !== edge) {
      this._shell.stage.marks.hover = item;
      this._selection.hoverEdge = edge;
      this.mark();
    }
    const lines = item !== null ? tooltipLines(this._host, item) : edge !== null ? edgeLines(this._host, edge) : null;
    if (lines === null) {
      this._shell.tooltip.hide();
    } else {
      this._shell.tooltip.show(lines, x, y, this._shell.stage.width, this._shell.stage.height);
    }
  }

  /** Recomputes what the overlay shows. */
  mark(): void {
    const { marks } = this._shell.stage;
    const { scene } = this._host;
    if (scene === null) {
      return;
    }
    this._selection.mark(this._host.model, scene, marks);
    this._host.tree.setSelected(this._selection.keys);
    marks.focus = this._shell.isKeyboard && this._host.tree.hasFocus ? this._host.tree.active : null;
    const focus = marks.selected[0] ?? null;
    this.crumbs.show(focus === null ? null : (focus.box ?? focus.parent?.box ?? null));
    this._shell.stage.redrawMarks();
  }

  /** Marks what is found; the first of the matches is the next. */
  search(query: string): void {
    this._shell.announcer.say(this._find(query));
  }

  /** Finds anew; returns in words how much. */
  private _find(query: string): string {
    const { matches, count, said } = this.finder.find(query);
    if (matches.length === 0) {
      this._found([]);
    }
    this._host.bar.showCount(count);
    return said;
  }

  private _found(matches: IMatch[]): void {
    this._selection.matches = matches;
    this._selection.match = -1;
    this.mark();
  }

  /** Goes to the next (`1`) or previous (`-1`) match, round and round. */
  async stepMatch(step: 1 | -1): Promise<void> {
    if (this._selection.step(step) !== null) {
      await this._goToMatch(this._selection.match);
    }
  }

  private async _goToMatch(index: number): Promise<void> {
    const match = this._selection.matches[index];
    if (match === undefined) {
      return;
    }
    this._selection.match = index;
    this.finder.setCurrent(index);
    const place = `${this._selection.match + 1} of ${this._selection.matches.length}`;
    this._host.bar.showCount(place);
    await this._host.show(match.key);
    this.choose([match.key], true);
    const item = this._host.scene?.byKey.get(match.key);
    if (item !== undefined) {
      this._host.tree.setActive(item, false);
      this._shell.announcer.say(`match ${place}: ${describeItem(this._host, item)}`);
    }
  }

  setPanel(isOpen: boolean): void {
    clearTimeout(this._panelTimer);
    this._shell.tooltip.hide();
    this.side.isOpen = isOpen;
    this.showPanel();
    this._host.refresh();
  }

  showTab(name: TabName): void {
    this.side.tab = name;
    this.setPanel(true);
  }

  get isPanelOpen(): boolean {
    return this.side.isOpen;
  }

  showPanel(): void {
    this._host.chosenChanged();
    const { keys, ids, edge } = this._selection;
    const item = this._host.scene?.byKey.get(keys[0] ?? '') ?? null;
    this.side.show({ item, keys, ids, edge });
  }

  get text(): string {
    return this.side.text;
  }
}
