/**
 * The graph view: one document in one element, with folding, search, selection, heat and inspection.
 *
 * Document → model → scene (what is unfolded) → layout (worker) → picture → stage. Fold state, selection
 * and search live here by structural key and survive new documents.
 */

import type { IOfferedOp } from '../../proto/changes';
import type { IDifference, IMarks } from '../../proto/difference';
import type { IKernel, LineSpan } from '../../proto/document';
import type { IFault, IProfileMessage } from '../../proto/messages';
import type { ILayoutAnswer } from '../layout/client';
import { originOf, placeAt as pointPlace } from '../layout/places';
import type { IBox } from '../model/boxes';
import type { Changes } from '../model/changes';
import { plural } from '../model/format';
import type { Direction } from '../model/flow';
import type { GraphModel, IGraphNode } from '../model/graph';
import { boxKey, type IEdge, type IItem, type IScene } from '../model/scene';
import type { IScale } from '../model/scale';
import type { Timing } from '../model/timing';
import type { IRect } from '../render/camera';
import type { ITheme, ThemeName } from '../render/theme';
import { Apart } from './apart';
import { Arranging } from './arranging';
import type { IAsked } from './ask';
import { Bar } from './bar';
import { Beside } from './beside';
import { Choosing, type IChoosingHost } from './choosing';
import { Colouring } from './colouring';
import { Comments } from './comments';
import { ConflictList } from './conflicts';
import { makeCommands, type ICommand } from './commands';
import { describeItem } from './describe';
import { keepDirection } from './direction';
import type { Dock } from './dock';
import { Docking, type IDockingHost } from './docking';
import { Emitter } from './dom';
import { Editing } from './editing';
import { Drawing, type IDrawingHost } from './drawing';
import { Failing } from './failing';
import { plainFault } from './fault';
import { freest } from './free-room';
import { Folding, type IFoldingHost } from './folding';
import { zoomButtons, type Announcer } from './hud';
import { Input } from './input';
import type { IInspectorHost } from './kernel';
import { insertCode } from './inserting';
import type { ICarried } from './palette';
import { PREFERENCES, type IPreferences } from './preferences';
import { Minimap } from './minimap';
import { pinnedIn } from './pins';
import { register } from './registry';
import { Selecting } from './selecting';
import { Shell, type IShellHost } from './shell';
import { Shown, type IShownHost } from './shown';
import type { TabName } from './side';
import type { Stage } from './stage';
import { AccessibleTree } from './tree';
import type { IGraphViewEvents, IGraphViewOptions } from './types';
import { Wiring } from './wiring';
import { Working } from './working';

/** Its parts, and what each of them may ask of the view, are in the files that it imports. */
export class GraphView
  implements IInspectorHost, IShellHost, IDrawingHost, IDockingHost, IFoldingHost, IChoosingHost, IShownHost
{
  readonly commands: ReadonlyMap<string, ICommand>;
  readonly events = new Emitter<IGraphViewEvents>();
  readonly tree: AccessibleTree;
  readonly bar: Bar;
  readonly docking: Docking;
  readonly apart: Apart;
  readonly minimap: Minimap;
  readonly beside: Beside;
  readonly editing: Editing;
  readonly arranging = new Arranging(this);
  readonly comments = new Comments(this);
  readonly conflicts = new ConflictList(this);
  readonly failing = new Failing(this);
  readonly selecting = new Selecting(this);
  readonly wiring: Wiring;
  readonly working = new Working(id => this.events.emit('cancelRequested', id));
  readonly colouring = new Colouring(() => this.recolour());
  hasChips = true;
  /** Ends a drag where nothing happens; false when nothing is dragged. */
  readonly cancelDrag: () => boolean;
  private readonly _shell: Shell;
  private readonly _drawing: Drawing;
  private readonly _folding: Folding;
  private readonly _choosing: Choosing;
  private readonly _shown: Shown;
  private _isProfiling = false;
  private _preferences: IPreferences = PREFERENCES;

  constructor(host: HTMLElement, options: IGraphViewOptions = {}) {
    this._shell = new Shell(host, options, this);
    this._drawing = new Drawing(this._shell, this);
    this.docking = new Docking(this._shell, this._drawing, this);
    this._folding = new Folding(this._shell, this._drawing, this);
    this._choosing = new Choosing(this._shell, this);
    this._shown = new Shown(this, this._shell, this._drawing, this._folding, this._choosing, () =>
      this.execute('toggle-changes')
    );
    this.editing = new Editing(this, (what, args) => this.docking.ask(what, args));
    this.apart = new Apart(this._shell, this._drawing, this);
    this.minimap = new Minimap(this.stage);
    this.stage.onPaint = () => {
      this.minimap.update(this.theme);
      this.comments.place();
      this.wiring.connecting.update();
      this.tree.follow();
      this.events.emit('lookChanged', undefined);
    };
    this._shell.disposables.add(() => this.minimap.dispose());
    this._shell.disposables.add(() => this.editing.dispose());
    this.tree = new AccessibleTree(
      item => describeItem(this, item),
      item => this._choosing.treeFocused(item),
      item => this.stage.clientRect(item)
    );
    this.wiring = new Wiring(this, (what, args) => this.docking.ask(what, args));
    this._shell.disposables.add(() => this.tree.dispose());
    this.commands = makeCommands(this);
    const run = (id: string): boolean => this.execute(id);
    this.bar = new Bar(run, query => this.search(query));
    this._choosing.finder.attach();
    this._shell.assemble({
      bar: this.bar.element,
      strip: this.editing.element,
      panel: this._choosing.side.element,
      dock: this.dock.element,
      overlays: [
        this._choosing.finder.list.element,
        this.tree.element,
        this._shown.note.element,
        this._choosing.crumbs.element,
        this.apart.element,
        this.minimap.element,
        this.working.element,
        this.comments.element,
        this.editing.ran.element,
        this.editing.beginning.element,
        this.wiring.connecting.label,
        this.wiring.picker.element,
        zoomButtons(run, this.selecting.button)
      ]
    });
    const { disposables, options: shown } = this._shell;
    disposables.listen(this.tree.element, 'focusout', () => this._choosing.mark());
    const input = new Input(this.element, this.stage, {
      hasKeys: shown.keysOf === null,
      isInGraph: target => this.tree.element.contains(target),
      wheel: () => this._preferences.wheel,
      ownsWheel: () => shown.isPage || this.element.contains(document.activeElement),
      run,
      hovered: (item, edge, x, y) => {
        if (this.wiring.connecting.carried !== null) {
          this._choosing.hovered(null, null, 0, 0);
          return;
        }
        const isOnPort = this.wiring.hovered(item, edge, x, y);
        this._choosing.hovered(isOnPort ? null : item, isOnPort ? null : edge, x, y);
      },
      grip: (x, y, press) =>
        this.selecting.grip(x, y, press.isExtending) ?? this.wiring.grip(x, y, press) ?? this.arranging.grip(x, y),
      doubled: (x, y) => {
        if (this.editing.isOn) {
          this.editing.openAt(null, x, y);
        }
      },
      clicked: (item, edge, extend) => this._choosing.clicked(item, edge, extend),
      toggled: item => {
        this._choosing.holdPanel();
        this.toggle(item.key);
      },
      moved: () => {
        this.stage.keepInView();
        this.stage.redraw();
        this._shell.tooltip.hide();
      },
      hint: text => this.announcer.hint(text)
    });
    this.cancelDrag = () => input.cancelDrag();
    disposables.add(() => input.dispose());
    disposables.add(() => this.bar.dispose());
    disposables.add(register(this));
    this.beside = new Beside(
      this,
      (room, given) => {
        // Both are on the same page by now, and take their colours from it.
        this._shell.readTheme();
        return new GraphView(room, { ...shown, ...given });
      },
      px => this._shell.reserve(px),
      shown.height === 'fill' || shown.isPage
    );
    disposables.add(() => this.beside.dispose());
    this.refresh();
  }

  // --- the frame ------------------------------------------------------------------------------

  get element(): HTMLElement {
    return this._shell.element;
  }

  get stage(): Stage {
    return this._shell.stage;
  }

  get announcer(): Announcer {
    return this._shell.announcer;
  }

  get theme(): ITheme {
    return this._shell.theme;
  }

  get isDisposed(): boolean {
    return this._shell.isDisposed;
  }

  setTheme(name: ThemeName): void {
    this._shell.setTheme(name);
  }

  get preferences(): IPreferences {
    return this._preferences;
  }

  /** Takes over how the user wants views to look; a graph that is shown is drawn again. */
  setPreferences(preferences: IPreferences): void {
    const isRenamed = preferences.names !== this._preferences.names;
    this._preferences = preferences;
    this.stage.types = preferences.types;
    this.minimap.setWanted(preferences.minimap, this.theme);
    this.stage.redraw();
    if (isRenamed && this._shown.hasDocument) {
      void this.rebuild(null);
    }
  }

  setHeight(height: number | 'fill'): void {
    this._shell.setHeight(height);
  }

  /** Replaces the drawing by an explanation. */
  showProblems(title: string, problems: readonly string[]): void {
    this._shell.showProblems(title, problems);
  }

  /** Opens or closes the list of keys. */
  showHelp(): void {
    this._shell.showHelp();
  }

  themed(): void {
    this.dock.themed();
    this._drawing.showLegend();
  }

  // --- panels and the kernel behind them ------------------------------------------------------

  get dock(): Dock {
    return this.docking.dock;
  }

  showDock(id?: string): boolean {
    return this.dock.open(id);
  }

  send(asked: IAsked): void {
    this.events.emit('asked', asked);
  }

  /** Hands in the answer of the kernel to the question `id`. */
  setAnswer(
    id: number,
    isGood: boolean,
    data: unknown,
    error: string,
    buffers: readonly ArrayBuffer[]
  ): void {
    this.docking.answered(id, isGood, data, error, buffers);
  }

  /** Why Profile is not possible, and nobody answers; null when somebody does. */
  setNoProfile(reason: string | null): void {
    this.docking.setNoProfile(reason);
  }

  // --- documents -----------------------------------------------------------------------------

  get model(): GraphModel {
    return this._shown.model;
  }

  get timing(): Timing {
    return this._shown.timing;
  }

  /** Shows a document; anything that is not one is explained instead. */
  setDocument(input: unknown): boolean {
    return this._shown.set(input);
  }

  /**
   * Shows the document that is held after `difference`; what did not change keeps its place. False when
   * the difference is not of this document, which then stays as it is.
   */
  setDifference(difference: IDifference): boolean {
    return this._shown.revise(difference);
  }

  /** Marks what changed since the last run of the cell that shows the graph. */
  setMarks(marks: IMarks): void {
    this._shown.setMarks(marks);
  }

  /** Marks what differs: since the last run, or from a graph that stands beside this one. */
  setChanges(changes: Changes): void {
    this._shown.setChanges(changes);
  }

  get hasChanges(): boolean {
    return this._shown.hasChanges;
  }

  get areChangesShown(): boolean {
    return this._shown.areChangesShown;
  }

  setChangesShown(areShown: boolean): void {
    this._shown.setChangesShown(areShown);
  }

  /** Adds the generated text of a kernel that was asked for by `sourceRequested`. */
  setKernelSource(id: string, source: string, lines: LineSpan[]): void {
    const kernel = this.model.kernels.get(id);
    if (kernel !== undefined) {
      kernel.source = source;
      kernel.lines = lines;
      this._choosing.showPanel();
    }
  }

  setProfileStatus(status: IProfileMessage['status'], fault?: IFault): void {
    this._isProfiling = status === 'running';
    this.working.profile(status);
    if (status === 'failed') {
      this.showFault('Profile', fault ?? plainFault(''));
    } else {
      this._shell.fault.clear('Profile');
      const now = status === 'running' ? 'Profiling' : `Profile ${status}`;
      this.announcer.say(now);
      if (status === 'cancelled') {
        this.announcer.hint(now);
      }
    }
    this.refresh();
  }

  /** Says why `action` failed, until that is dismissed. */
  showFault(action: string, fault: IFault): void {
    this._shell.fault.show(action, fault);
  }

  // --- scene and layout ------------------------------------------------------------------------

  get scene(): IScene | null {
    return this._drawing.scene;
  }

  get layoutMs(): number {
    return this._drawing.layoutMs;
  }

  /** Resolves when the newest layout is on the stage. */
  layoutDone(): Promise<void> {
    return this._drawing.layoutDone();
  }

  /** Builds the scene for the current fold state and lays it out; `anchor` keeps its place. */
  rebuild(anchor: string | null): Promise<void> {
    return this._drawing.rebuild(anchor);
  }

  /** Draws the scene again, in which something was moved. */
  redrawScene(): void {
    this._drawing.redrawScene();
  }

  sceneChanged(): void {
    this._choosing.sceneChanged();
  }

  drawn(scene: IScene, { ms, where }: ILayoutAnswer): void {
    this._shown.mark(scene);
    this.failing.mark(scene);
    this.stage.marks.pinned = pinnedIn(this.model, scene);
    this.apart.drawn(scene);
    this.tree.setScene(scene, this.tree.active?.key ?? this._choosing.firstKey);
    this._drawing.fitFirst();
    this.refresh();
    this._choosing.again();
    this.events.emit('layoutDone', { ms, items: scene.items.length, where });
  }

  get direction(): Direction {
    return this._drawing.direction;
  }

  get scale(): IScale | null {
    return this._drawing.scale;
  }

  /** Lets the graph run another way over the screen, and remembers it under the graph's name. */
  setDirection(direction: Direction): void {
    this._drawing.turn(direction);
    keepDirection(this.model.document.name, direction);
    this.announcer.say(direction === 'down' ? 'top to bottom' : 'left to right');
    void this.rebuild(null);
  }

  // --- folding ----------------------------------------------------------------------------------

  get expanded(): ReadonlySet<string> {
    return this._folding.expanded;
  }

  get only(): ReadonlySet<string> | null {
    return this.apart.only;
  }

  /** Folds or unfolds the box with an item key; false when there is none. */
  toggle(key: string): boolean {
    return this._folding.toggle(key);
  }

  setExpanded(box: IBox, isOpen: boolean): Promise<void> {
    return this._folding.setExpanded(box, isOpen);
  }

  setFold(expanded: ReadonlySet<string>, anchor: string | null): Promise<void> {
    return this._folding.setFold(expanded, anchor);
  }

  foldChanged(expanded: ReadonlySet<string>, isChosen: boolean): void {
    if (this.editing.isOn) {
      // What opens so that something can be seen is no step of a person: undo would only close it.
      this._folding.remember(fields => {
        if (isChosen) {
          void this.editing.change({ do: 'fold', fields });
        }
      });
    }
    this.events.emit('foldChanged', [...expanded]);
  }

  /** Unfolds everything above an item and moves the camera to it. */
  show(key: string, isNear = false): Promise<void> {
    return this._folding.show(key, isNear);
  }

  bringIntoView(item: IItem): void {
    this._folding.bringIntoView(item);
  }

  showBox(box: IBox): void {
    if (box.kind === 'root') {
      this.execute('fit');
      return;
    }
    void this.show(boxKey(box)).then(() => this._choosing.choose([boxKey(box)], true));
  }

  // --- selection, search, side panel --------------------------------------------------------------

  get selection(): string[] {
    return this._choosing.ids;
  }

  /** Keys of the selected items: operations, modules, inputs and outputs. */
  get chosen(): readonly string[] {
    return this._choosing.keys;
  }

  /** The selected edge. */
  get edge(): IEdge | null {
    return this._choosing.edge;
  }

  /** Selects what a menu opens on. */
  choose(item: IItem | null, edge: IEdge | null): void {
    this._choosing.pointed(item, edge);
  }

  /** Selects operations by id, unfolding what hides them, and shows the first. */
  select(ids: readonly string[]): void {
    this._choosing.select(ids);
  }

  /** Selects what a change made, and brings it into view. */
  selectMade(ids: readonly string[]): void {
    this._choosing.selectMade(ids);
  }

  /** Selects items by key; the camera stays. */
  selectKeys(keys: readonly string[]): void {
    this._choosing.choose(keys, true);
  }

  /** Draws again what is selected. */
  markAgain(): void {
    this._choosing.mark();
  }

  /** Takes a selection that was made elsewhere; does not announce it back. */
  syncSelection(ids: readonly string[]): void {
    this._choosing.syncSelection(ids);
  }

  clearSelection(): void {
    this._choosing.clearSelection();
  }

  /** Moves keyboard focus, and the selection with it, to an item. */
  goTo(item: IItem): void {
    this._choosing.goTo(item);
  }

  /** Shows an edge in the inspector; null leaves it. */
  selectEdge(edge: IEdge | null): void {
    this._choosing.selectEdge(edge);
  }

  keyboardChanged(): void {
    this._choosing.mark();
  }

  chosenChanged(): void {
    this.editing.update();
    this.wiring.connecting.update();
  }

  get hasPorts(): boolean {
    return this.editing.isOn;
  }

  editingChanged(): void {
    this.redrawScene();
    this.wiring.switched();
  }

  placeAt(x: number, y: number): { x: number; y: number } {
    const { camera } = this.stage;
    const root = this.scene?.root.container ?? null;
    const origin = root === null ? { x: 0, y: 0 } : originOf(root, this.direction);
    const drawn = { x: camera.worldX(x) - origin.x, y: camera.worldY(y) - origin.y };
    const place = pointPlace(this.direction, drawn, { w: 0, h: 0 });
    return { x: Math.round(place.x), y: Math.round(place.y) };
  }

  ran(failedAt: string, says: string): void {
    if (failedAt === '') {
      this.failing.clear();
    } else {
      this.failing.set(failedAt, says);
    }
  }

  freest(rects: readonly IRect[]): number {
    const { camera, picture } = this.stage;
    const inWorld = rects.map(({ x, y, w, h }) => ({
      x: camera.worldX(x),
      y: camera.worldY(y),
      w: w / camera.k,
      h: h / camera.k
    }));
    return freest(picture, inWorld);
  }

  settle(): void {
    this.arranging.settle();
  }

  get isUnsettled(): boolean {
    return this.arranging.isUnsettled;
  }

  carry(offer: IOfferedOp): ICarried {
    return this.wiring.carry(offer);
  }

  /** Puts a program into a cell; false where nobody takes it. */
  get insertCode(): ((code: string) => boolean) | null {
    return this._shell.options.canInsert ? code => insertCode(this.element, code) : null;
  }

  openPorts(): void {
    const key = this.chosen[0];
    this.wiring.open((key === undefined ? undefined : this.scene?.byKey.get(key)) ?? this.tree.active);
  }

  search(query: string): void {
    this._choosing.search(query);
  }

  /** Goes to the next (`1`) or previous (`-1`) match, round and round. */
  stepMatch(step: 1 | -1): Promise<void> {
    return this._choosing.stepMatch(step);
  }

  setPanel(isOpen: boolean): void {
    this._choosing.setPanel(isOpen);
  }

  showTab(name: TabName): void {
    this._choosing.showTab(name);
  }

  get isPanelOpen(): boolean {
    return this._choosing.isPanelOpen;
  }

  inspectorText(): string {
    return this._choosing.text;
  }

  // --- what is shown ------------------------------------------------------------------------------

  setHeat(isHeat: boolean): void {
    this.stage.isHeat = isHeat && this.colouring.canHeat;
    this.stage.redraw();
    this.refresh();
  }

  /** Colours the graph by what is chosen now. */
  recolour(): void {
    this.stage.isHeat = true;
    this._drawing.recolour();
    this.announcer.say(`coloured by ${this.colouring.title}`);
    this.refresh();
  }

  /** Shows in the toolbar and the legend what can be done now. */
  refresh(): void {
    const { document } = this.model;
    const ops = this.model.root.total;
    this.bar.update({
      title: document.name,
      subtitle: this._shown.hasDocument ? plural(ops, 'op') : '',
      isHeat: this.stage.isHeat,
      hasProfile: this.colouring.canHeat,
      hasChips: this.hasChips,
      isPanelOpen: this.isPanelOpen,
      isEditing: this.editing.isOn,
      isDockOpen: this.dock.isOpen,
      noProfile: this._shell.options.noProfile,
      isProfiling: this._isProfiling,
      hasBoxes: this.model.root.children.length > 0
    });
    this.editing.update();
    this.comments.update();
    this.conflicts.follow(this.model.document);
    this._drawing.showLegend();
  }

  // --- host of the inspector and the commands -----------------------------------------------------

  get canProfile(): boolean {
    return this._shell.options.noProfile === null && !this._isProfiling;
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
    const { file, line, col, cell } = source;
    const id = cell === undefined ? {} : { cell };
    this.events.emit('revealRequested', { file, line, col, node: node.node.id, ...id });
    return true;
  }

  canReveal(): boolean {
    return this._shell.options.canReveal;
  }

  requestSource(kernel: IKernel): boolean {
    if (this._shell.options.noProfile !== null) {
      return false;
    }
    if (this._shown.lacks(kernel)) {
      this.events.emit('sourceRequested', kernel.id);
    }
    return true;
  }

  familyColor(node: IGraphNode): string {
    return this.theme.family[node.family].stripe;
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._choosing.dispose();
    this.working.dispose();
    this.events.emit('disposed', undefined);
    this.events.clear();
    this._shell.dispose();
    this._drawing.dispose();
  }
}
