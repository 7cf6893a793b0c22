/**
 * Selecting several things: with a box that the pointer draws, and by keys that keep what is selected.
 * The box begins on an empty place with Shift, or anywhere after the button of boxes, which a finger can
 * press too. It selects what it touches.
 */

import { plural } from '../model/format';
import type { IItem, IScene } from '../model/scene';
import type { Announcer } from './hud';
import type { IGrip } from './input';
import type { Stage } from './stage';
import { button, el, icon } from './dom';

export interface ISelectingHost {
  readonly scene: IScene | null;
  readonly stage: Stage;
  readonly announcer: Announcer;
  /** Keys of the selected items. */
  readonly chosen: readonly string[];
  readonly tree: { readonly active: IItem | null; setActive(item: IItem, takeFocus: boolean): void };
  /** Selects items by key. */
  selectKeys(keys: readonly string[]): void;
  /** Draws again what is selected. */
  markAgain(): void;
  bringIntoView(item: IItem): void;
}

export class Selecting {
  /** Makes the next drag draw a box. */
  readonly button: HTMLButtonElement;
  private _isArmed = false;

  constructor(private readonly _host: ISelectingHost) {
    this.button = button('jp-MaxLab-iconButton', 'Select with a box (B)', () => this.toggle(), icon('area'));
    this.button.setAttribute('aria-pressed', 'false');
  }

  /** Whether the next drag draws a box. */
  get isArmed(): boolean {
    return this._isArmed;
  }

  /** Lets the next drag draw a box, or no longer. */
  toggle(): void {
    this._arm(!this._isArmed);
    const words = 'drag a box around what is to be selected, Esc leaves';
    this._host.announcer.say(this._isArmed ? words : 'no box');
    if (this._isArmed) {
      this._host.announcer.hint(words);
    }
  }

  /** Draws no box now; false where none was to be drawn. */
  leave(): boolean {
    const wasArmed = this._isArmed;
    this._arm(false);
    return wasArmed;
  }

  /** What a press at a point of the stage draws; null where it is about what is there. */
  grip(x: number, y: number, isExtending: boolean): IGrip | null {
    const { stage, chosen } = this._host;
    if (!this._isArmed && (!isExtending || stage.hit(x, y)?.isSolid === true || stage.hitEdge(x, y) !== null)) {
      return null;
    }
    const before = isExtending ? [...chosen] : [];
    const shown = el('div', 'jp-MaxLab-area');
    let found: IItem[] = [];
    const end = (): void => {
      shown.remove();
      this._arm(false);
    };
    return {
      moved: (toX, toY) => {
        stage.element.append(shown);
        const [left, top] = [Math.min(x, toX), Math.min(y, toY)];
        const [w, h] = [Math.abs(toX - x), Math.abs(toY - y)];
        Object.assign(shown.style, { left: `${left}px`, top: `${top}px`, width: `${w}px`, height: `${h}px` });
        found = this._within(left, top, w, h);
        const kept = before.flatMap(key => this._host.scene?.byKey.get(key) ?? []);
        stage.marks.selected = [...new Set([...kept, ...found])];
        stage.redrawMarks();
      },
      dropped: () => {
        end();
        const keys = [...new Set([...before, ...found.map(item => item.key)])];
        this._host.selectKeys(keys);
        const [first] = found;
        if (first !== undefined) {
          this._host.tree.setActive(first, true);
        }
        this._say(keys.length);
      },
      cancelled: () => {
        end();
        this._host.markAgain();
        this._host.announcer.say('nothing else is selected');
      }
    };
  }

  /** Goes on to an item, and selects it as well; going back takes out what was gone on to last. */
  extend(next: IItem): void {
    const { chosen, tree } = this._host;
    const from = tree.active?.key ?? '';
    const kept = chosen.length === 0 && from !== '' ? [from] : chosen;
    const isBack = kept.includes(next.key) && kept[kept.length - 1] === from;
    const keys = isBack ? kept.filter(key => key !== from) : [...kept.filter(key => key !== next.key), next.key];
    tree.setActive(next, true);
    this._host.selectKeys(keys);
    this._host.bringIntoView(next);
    this._say(keys.length);
  }

  /** Selects the item with the keyboard as well, or no longer. */
  toggleActive(): void {
    const { active } = this._host.tree;
    if (active !== null) {
      const others = this._host.chosen.filter(key => key !== active.key);
      const isNew = others.length === this._host.chosen.length;
      this._host.selectKeys(isNew ? [...others, active.key] : others);
      this._say(this._host.chosen.length);
    }
  }

  /** What can be selected and touches a box of the stage: of a module that is unfolded, what is in it. */
  private _within(left: number, top: number, w: number, h: number): IItem[] {
    const { camera, picture } = this._host.stage;
    const [x0, y0] = [camera.worldX(left), camera.worldY(top)];
    const [x1, y1] = [camera.worldX(left + w), camera.worldY(top + h)];
    const near = picture?.items.query(x0, y0, x1, y1) ?? [];
    return near.filter(
      item => item.container === null && item.x <= x1 && x0 <= item.x + item.w && item.y <= y1 && y0 <= item.y + item.h
    );
  }

  private _arm(isArmed: boolean): void {
    this._isArmed = isArmed;
    this.button.setAttribute('aria-pressed', String(isArmed));
    this._host.stage.element.classList.toggle('jp-mod-area', isArmed);
  }

  private _say(count: number): void {
    this._host.announcer.say(count === 0 ? 'nothing is selected' : `${plural(count, 'item')} selected`);
  }
}
