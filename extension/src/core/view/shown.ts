/** The document that a view shows: how the next one takes its place, and what is marked as changed in it. */

import type { IDifference, IMarks } from '../../proto/difference';
import type { IGraphDocument, IKernel } from '../../proto/document';
import { parseDocument } from '../../proto/parse';
import { Changes } from '../model/changes';
import { applyDifference } from '../model/difference';
import { EMPTY_DOCUMENT, GraphModel } from '../model/graph';
import type { IScene } from '../model/scene';
import { Timing } from '../model/timing';
import type { Apart } from './apart';
import type { Bar } from './bar';
import type { Beside } from './beside';
import type { Choosing } from './choosing';
import type { Colouring } from './colouring';
import { itemOf } from './comments';
import type { ConflictList } from './conflicts';
import { keptDirection } from './direction';
import type { Dock } from './dock';
import type { Drawing } from './drawing';
import type { Failing } from './failing';
import type { Folding } from './folding';
import { ChangesNote, type Announcer } from './hud';
import type { Shell } from './shell';
import type { Stage } from './stage';
import type { AccessibleTree } from './tree';

export interface IShownHost {
  readonly announcer: Announcer;
  readonly apart: Apart;
  readonly bar: Bar;
  readonly beside: Beside;
  readonly colouring: Colouring;
  readonly conflicts: ConflictList;
  readonly dock: Dock;
  readonly failing: Failing;
  readonly scene: IScene | null;
  readonly stage: Stage;
  readonly tree: AccessibleTree;
  rebuild(anchor: string | null): Promise<void>;
}

export class Shown {
  model: GraphModel = new GraphModel(EMPTY_DOCUMENT);
  timing: Timing = new Timing(this.model, null);
  /** Whether there is one. */
  hasDocument = false;
  readonly note: ChangesNote;
  private _changes = new Changes({ added: [], changed: [], removed: 0 });
  private _areChangesShown = true;
  private readonly _requested = new Set<string>();

  constructor(
    private readonly _host: IShownHost,
    private readonly _shell: Shell,
    private readonly _drawing: Drawing,
    private readonly _folding: Folding,
    private readonly _choosing: Choosing,
    toggle: () => void
  ) {
    this.note = new ChangesNote(toggle);
  }

  /** Shows a document; anything that is not one is explained instead. */
  set(input: unknown): boolean {
    const parsed = parseDocument(input);
    if (!parsed.ok) {
      this._shell.showProblems('This graph cannot be drawn', parsed.problems);
      return false;
    }
    parsed.warnings.forEach(text => console.warn(`maxlab: ${text}`));
    this._shell.hideProblems();
    this._show(parsed.document, false);
    return true;
  }

  /** Shows the document that is held after `difference`; false when that is not of this document. */
  revise(difference: IDifference): boolean {
    const document = applyDifference(this.model.document, difference);
    if (document === null || !this.hasDocument) {
      return false;
    }
    this._show(document, true);
    return true;
  }

  private _show(document: IGraphDocument, isRevised: boolean): void {
    const { _host: host, model: before } = this;
    this.model = new GraphModel(document);
    this.timing = new Timing(this.model, document.profile);
    this._requested.clear();
    const isFirst = !this.hasDocument;
    this._folding.follow(isFirst ? null : before);
    host.apart.follow();
    if (isFirst) {
      this._drawing.startAnew();
    }
    if (isFirst || before.document.name !== document.name) {
      this._drawing.turn(keptDirection(document.name) ?? 'down');
    }
    this.hasDocument = true;
    if (host.colouring.follow(document)) {
      host.stage.isHeat = true;
    }
    if (!host.colouring.canHeat) {
      host.stage.isHeat = false;
    }
    this._choosing.follow(host.bar.search.value);
    this._pointAtError(before, isRevised);
    host.failing.follow(before.document);
    this._drawing.dropOverlay();
    if (isRevised) {
      this._drawing.revise(before);
    } else {
      void host.rebuild(null);
    }
    host.dock.update();
    host.beside.follow(document.beside);
    host.conflicts.follow(document);
    if (isFirst && document.panel !== undefined) {
      host.dock.open(document.panel, true);
    }
  }

  /** Selects the operation that could not be built, when that is news. */
  private _pointAtError(before: GraphModel, isRevised: boolean): void {
    const { error } = this.model.document;
    const failed = error?.node ?? null;
    const culprit = failed === null ? undefined : this.model.node(failed);
    const isNewError = !isRevised || before.document.error?.message !== error?.message;
    if (culprit !== undefined && isNewError) {
      this._folding.reveal(culprit.box);
      this._choosing.point(culprit.node.id);
    }
  }

  // --- what is marked as changed ----------------------------------------------------------------

  /** Marks what changed since the last run of the cell that shows the graph. */
  setMarks(marks: IMarks): void {
    this._choosing.finder.setMarks(marks);
    const { announcer } = this._host;
    if (marks.says !== undefined || marks.added.length + marks.changed.length + marks.removed > 0) {
      const { title } = new Changes(marks);
      const changed = title === '' ? '' : `${title} since the last run`;
      announcer.say([marks.says ?? '', changed].filter(text => text !== '').join('; '));
    }
    if (marks.says !== undefined) {
      announcer.hint(marks.says);
    }
    this.setChanges(new Changes(marks));
  }

  /** Marks what differs: since the last run, or from a graph that stands beside this one. */
  setChanges(changes: Changes): void {
    this._changes = changes;
    this._showChanges();
  }

  get hasChanges(): boolean {
    return !this._changes.isEmpty;
  }

  get areChangesShown(): boolean {
    return this._areChangesShown;
  }

  setChangesShown(areShown: boolean): void {
    this._areChangesShown = areShown;
    this._host.announcer.say(`changes since the last run ${areShown ? 'marked' : 'not marked'}`);
    this._showChanges();
  }

  private _showChanges(): void {
    this.note.show(this._changes, this._areChangesShown);
    this.note.element.hidden ||= this._changes.isBeside;
    const { scene, tree } = this._host;
    if (scene !== null) {
      this.mark(scene);
      this._choosing.mark();
      tree.setScene(scene, tree.active?.key ?? null);
    }
  }

  /** Finds what is changed, and what is in conflict, in `scene`. */
  mark(scene: IScene): void {
    const { marks } = this._host.stage;
    marks.changes =
      this._areChangesShown && this.hasChanges ? this._changes.on(this.model, scene) : new Map();
    marks.conflicts = this._host.conflicts.keys
      .map(key => itemOf(this.model, scene, key))
      .filter(item => item !== null);
    marks.apart = this._areChangesShown ? this._changes.apart(this.model, scene) : null;
  }

  // --- text that a document leaves out ------------------------------------------------------------

  /** Whether the text of `kernel` is to be asked for: once for each document. */
  lacks({ id }: IKernel): boolean {
    const isNew = !this._requested.has(id);
    this._requested.add(id);
    return isNew;
  }
}
