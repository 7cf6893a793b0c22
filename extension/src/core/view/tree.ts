/**
 * The graph for keyboards and screen readers: a DOM tree parallel to the canvas, with one focusable
 * item at a time, kept to a window around it so that ten thousand operations cost nothing. Each item
 * lies, unseen, where it is drawn: magnifiers follow it, and programs that press on what they find by
 * its name press on the drawing.
 */

import type { IItem, IScene } from '../model/scene';
import type { IRect } from '../render/camera';
import { el } from './dom';

const REACH = 25;
/** Milliseconds until items lie where they are drawn: some frames of a movement. */
const FOLLOW_MS = 80;

export class AccessibleTree {
  readonly element = el('ul', 'jp-MaxLab-tree');
  private _scene: IScene | null = null;
  private _active: IItem | null = null;
  private _timer = 0;
  private readonly _rows = new Map<IItem, HTMLElement>();
  private _selected: readonly string[] = [];

  constructor(
    private readonly _describe: (item: IItem) => string,
    private readonly _focused: (item: IItem) => void,
    /** Where an item is drawn, in client coordinates. */
    private readonly _rectOf: (item: IItem) => IRect
  ) {
    this.element.setAttribute('role', 'tree');
    this.element.setAttribute('aria-label', 'Graph');
    this.element.setAttribute('aria-multiselectable', 'true');
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

  /** Says which items are selected. */
  setSelected(keys: readonly string[]): void {
    this._selected = keys;
    for (const [item, row] of this._rows) {
      row.setAttribute('aria-selected', String(keys.includes(item.key)));
    }
  }

  /** Moves the keyboard into the graph. */
  focus(): void {
    this._render(true);
  }

  /** What is drawn has moved: items follow it. */
  follow(): void {
    if (this._timer === 0) {
      this._timer = window.setTimeout(() => {
        this._timer = 0;
        this._place();
      }, FOLLOW_MS);
    }
  }

  dispose(): void {
    clearTimeout(this._timer);
  }

  private _place(): void {
    const { left, top } = this.element.getBoundingClientRect();
    for (const [item, { style }] of this._rows) {
      const { x, y, w, h } = this._rectOf(item);
      style.transform = `translate(${x - left}px, ${y - top}px)`;
      style.width = `${w}px`;
      style.height = `${h}px`;
    }
  }

  private _render(takeFocus: boolean): void {
    const scene = this._scene;
    const active = this._active;
    this._rows.clear();
    if (scene === null || active === null) {
      // What has the keyboard goes: the keys stay with the graph, which may have items again.
      const hadFocus = takeFocus || this.hasFocus;
      this.element.replaceChildren();
      this.element.tabIndex = 0;
      if (hadFocus) {
        this.element.focus({ preventScroll: true });
      }
      return;
    }
    this.element.removeAttribute('tabindex');
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
      row.setAttribute('aria-selected', String(this._selected.includes(item.key)));
      row.addEventListener('focus', () => this._focused(item));
      this._rows.set(item, row);
      return row;
    });
    this.element.replaceChildren(...rows);
    this._place();
    if (takeFocus) {
      rows[shown.indexOf(active)]?.focus({ preventScroll: true });
    }
  }
}
