/** Which boxes of a view are unfolded, and the camera's way to what is in them. */

import type { IBox } from '../model/boxes';
import { initialFold, reveal } from '../model/fold';
import { plural } from '../model/format';
import type { GraphModel } from '../model/graph';
import { boxKey, type IItem } from '../model/scene';
import type { Drawing } from './drawing';
import type { Shell } from './shell';
import { insideView, viewOf } from './viewpoint';

export interface IFoldingHost {
  readonly model: GraphModel;
  /** Other boxes are unfolded now; these are their keys. */
  foldChanged(expanded: ReadonlySet<string>): void;
}

export class Folding {
  private _expanded: ReadonlySet<string> = new Set();

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
   * Takes over a new model; `before` is the one it follows, null for the first. Folding survives; boxes
   * that are new open as a fresh graph would show them. Nothing is drawn yet.
   */
  follow(before: GraphModel | null): void {
    const { model } = this._host;
    const fresh = initialFold(model);
    if (before === null) {
      this._expanded = fresh;
      return;
    }
    const kept = [...this._expanded].filter(key => model.boxes.has(key));
    this._expanded = new Set([...kept, ...[...fresh].filter(key => !before.boxes.has(key))]);
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

  setFold(expanded: ReadonlySet<string>, anchor: string | null): Promise<void> {
    this._expanded = expanded;
    this._host.foldChanged(expanded);
    return this._drawing.rebuild(anchor ?? this._drawing.middleKey());
  }

  /** Unfolds everything above an item and moves the camera to it. */
  async show(key: string): Promise<void> {
    const box = this._homeOf(key);
    if (box !== null) {
      const next = new Set(this._expanded);
      for (let up: IBox | null = box; up !== null && up.kind !== 'root'; up = up.parent) {
        next.add(up.key);
      }
      if (next.size !== this._expanded.size) {
        await this.setFold(next, null);
      }
    }
    const item = this._drawing.scene?.byKey.get(key);
    if (item !== undefined) {
      this.bringIntoView(item);
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

  bringIntoView(item: IItem): void {
    const target = viewOf(this._shell.stage, item);
    if (target !== null) {
      this._shell.stage.flyTo(target);
    }
  }
}
