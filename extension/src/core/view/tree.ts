/**
 * The graph for keyboards and screen readers: a DOM tree parallel to the canvas, with one focusable
 * item at a time, kept to a window around it so that ten thousand operations cost nothing.
 */

import type { IItem, IScene } from '../model/scene';
import { el } from './dom';

const REACH = 25;

export class AccessibleTree {
  readonly element = el('ul', 'jp-MaxLab-tree');
  private _scene: IScene | null = null;
  private _active: IItem | null = null;

  constructor(
    private readonly _describe: (item: IItem) => string,
    private readonly _focused: (item: IItem) => void
  ) {
    this.element.setAttribute('role', 'tree');
    this.element.setAttribute('aria-label', 'Graph');
  }

  get active(): IItem | null {
    return this._active;
  }

  get hasFocus(): boolean {
    return this.element.contains(this.element.ownerDocument.activeElement);
  }

  setScene(scene: IScene, activeKey: string | null): void {
    this._scene = scene;
    const known = activeKey === null ? undefined : scene.byKey.get(activeKey);
    this._active = known ?? scene.items[0] ?? null;
    this._render(this.hasFocus);
  }

  /** Moves the place of the keyboard; where the tree has the focus, its new place has it then. */
  setActive(item: IItem, takeFocus: boolean): void {
    this._active = item;
    this._render(takeFocus || this.hasFocus);
  }

  /** Moves the keyboard into the graph. */
  focus(): void {
    this._render(true);
  }

  private _render(takeFocus: boolean): void {
    const scene = this._scene;
    const active = this._active;
    if (scene === null || active === null) {
      this.element.replaceChildren();
      return;
    }
    const at = Math.max(0, scene.items.indexOf(active));
    const shown = scene.items.slice(Math.max(0, at - REACH), at + REACH + 1);
    const rows = shown.map(item => {
      const row = el('li', 'jp-MaxLab-treeItem', this._describe(item));
      row.setAttribute('role', 'treeitem');
      row.setAttribute('aria-level', String(item.depth));
      row.setAttribute('aria-setsize', String(item.parent?.container?.items.length ?? 1));
      row.setAttribute('aria-posinset', String(item.order + 1));
      if (item.box !== null) {
        row.setAttribute('aria-expanded', String(item.container !== null));
      }
      row.dataset.key = item.key;
      row.tabIndex = item === active ? 0 : -1;
      row.setAttribute('aria-selected', String(item === active));
      row.addEventListener('focus', () => this._focused(item));
      return row;
    });
    this.element.replaceChildren(...rows);
    if (takeFocus) {
      rows[shown.indexOf(active)]?.focus({ preventScroll: true });
    }
  }
}
