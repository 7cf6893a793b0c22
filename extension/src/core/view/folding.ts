/** Which boxes of a view are unfolded, and the camera's way to what is in them. */

import type { IBox } from '../model/boxes';
import { initialFold, reveal } from '../model/fold';
import { plural } from '../model/format';
import type { GraphModel } from '../model/graph';
import { boxKey, type IItem } from '../model/scene';
import type { Drawing } from './drawing';
import type { Shell } from './shell';
import { insideView, nearestViewOf, viewOf } from './viewpoint';

export interface IFoldingHost {
  readonly model: GraphModel;
  /** Other boxes are unfolded now; these are their keys. */
  foldChanged(expanded: ReadonlySet<string>, isChosen: boolean): void;
}

export class Folding {
  private _expanded: ReadonlySet<string> = new Set();
  /** Keys of boxes that are no more and were unfolded: undo and redo bring them back. */
  private readonly _gone = new Set<string>();
  /** Those that were unfolded when the document was told last. */
  private _told: ReadonlySet<string> = new Set();

  constructor(
    private readonly _shell: Shell,
    private readonly _drawing: Drawing,
    private readonly _host: IFoldingHost
  ) {}

  /** Keys of the unfolded boxes. */
  get expanded(): ReadonlySet<string> {
    return this._expanded;
  }

  /**
   * Takes over a new model; `before` is the one it follows, null for the first. Folding survives, also of
   * boxes that come back; those that are new open as a fresh graph would show them. Nothing is drawn yet.
   */
  follow(before: GraphModel | null): void {
    const { model } = this._host;
    const fresh = initialFold(model);
    if (before === null) {
      this._expanded = fresh;
    } else {
      const kept = [...this._expanded].filter(key => model.boxes.has(key));
      const back = [...this._gone].filter(key => model.boxes.has(key));
      back.forEach(key => this._gone.delete(key));
      [...this._expanded].filter(key => !model.boxes.has(key)).forEach(key => this._gone.add(key));
      this._expanded = new Set([...kept, ...back, ...[...fresh].filter(key => !before.boxes.has(key))]);
    }
    this._followFolds(before);
  }

  /** Takes over which boxes people folded, as far as that is not what it was. */
  private _followFolds(before: GraphModel | null): void {
    const { model } = this._host;
    const old = new Map(Object.entries(before?.document.folds ?? {}));
    const now = new Map(Object.entries(model.document.folds ?? {}));
    const next = new Set(this._expanded);
    for (const key of new Set([...old.keys(), ...now.keys()])) {
      const was = old.get(key);
      // What nobody has folded any more is as it was before somebody did.
      const isFolded = now.get(key) ?? was === false;
      if (was !== now.get(key) && model.boxes.has(key)) {
        if (isFolded) {
          next.delete(key);
        } else {
          next.add(key);
        }
      }
    }
    this._expanded = next;
    this._told = next;
  }

  /** Tells `keep` which boxes were folded or unfolded since the last time, `true` for folded. */
  remember(keep: (folds: Record<string, string>) => void): void {
    const folds: Record<string, string> = {};
    for (const key of this._told) {
      if (!this._expanded.has(key) && this._host.model.boxes.has(key)) {
        folds[key] = 'true';
      }
    }
    for (const key of this._expanded) {
      if (!this._told.has(key)) {
        folds[key] = 'false';
      }
    }
    this._told = this._expanded;
    if (Object.keys(folds).length > 0) {
      keep(folds);
    }
  }

  /** Unfolds what a box is in, without drawing it yet. */
  reveal(box: IBox): void {
    this._expanded = reveal(this._expanded, box);
  }

  /** Folds or unfolds the box with an item key; false when there is none. */
  toggle(key: string): boolean {
    const box = this._host.model.boxes.get(key.replace(/^box:/, ''));
    if (box === undefined || box.kind === 'root') {
      return false;
    }
    const isOpen = this._expanded.has(box.key);
    void this.setExpanded(box, !isOpen).then(() => {
      const item = this._drawing.scene?.byKey.get(boxKey(box));
      const target = isOpen || item === undefined ? null : insideView(this._shell.stage, item);
      if (target !== null) {
        this._shell.stage.flyTo(target);
      }
    });
    this._shell.announcer.say(`${box.label} ${isOpen ? 'folded' : `unfolded, ${plural(box.total, 'operation')}`}`);
    return true;
  }

  setExpanded(box: IBox, isOpen: boolean): Promise<void> {
    const next = new Set(this._expanded);
    if (isOpen) {
      next.add(box.key);
    } else {
      next.delete(box.key);
    }
    return this.setFold(next, boxKey(box));
  }

  /** Opens the boxes `expanded`; `isChosen` is false where that follows from what is to be seen. */
  setFold(expanded: ReadonlySet<string>, anchor: string | null, isChosen = true): Promise<void> {
    this._expanded = expanded;
    this._host.foldChanged(expanded, isChosen);
    return this._drawing.rebuild(anchor ?? this._drawing.middleKey());
  }

  /**
   * Unfolds everything above an item and moves the camera to it; with `isNear` no further than it takes to
   * see it.
   */
  async show(key: string, isNear = false): Promise<void> {
    const box = this._homeOf(key);
    if (box !== null) {
      const next = new Set(this._expanded);
      for (let up: IBox | null = box; up !== null && up.kind !== 'root'; up = up.parent) {
        next.add(up.key);
      }
      if (next.size !== this._expanded.size) {
        await this.setFold(next, null, false);
      }
    }
    const item = this._drawing.scene?.byKey.get(key);
    if (item !== undefined) {
      this.bringIntoView(item, isNear);
    }
  }

  /** The box that has to be open for an item to be visible. */
  private _homeOf(key: string): IBox | null {
    const node = this._host.model.node(key);
    if (node !== undefined) {
      return node.box;
    }
    return this._host.model.boxes.get(key.replace(/^box:/, ''))?.parent ?? null;
  }

  bringIntoView(item: IItem, isNear = false): void {
    const { stage } = this._shell;
    const target = isNear ? nearestViewOf(stage, item) : viewOf(stage, item);
    if (target !== null) {
      stage.flyTo(target);
    }
  }
}
