/**
 * Putting things somewhere by hand, while a graph is edited: dragged by the pointer, moved by keys, lined
 * up, pinned, or left to the layout again. Lines follow while something is dragged; the kernel is asked
 * once, at the end, and what it does not accept goes back.
 */

import type { IChangeAnswer, IChangeArgs } from '../../proto/changes';
import type { IPlace } from '../../proto/document';
import { Move, spread } from '../layout/move';
import { placeOf, placesOf } from '../layout/places';
import { plural } from '../model/format';
import type { GraphModel } from '../model/graph';
import type { IItem, IScene } from '../model/scene';
import { at } from '../narrow';
import type { Announcer } from './hud';
import type { IGrip } from './input';
import type { Stage } from './stage';

export interface IArrangingHost {
  readonly model: GraphModel;
  readonly scene: IScene | null;
  readonly stage: Stage;
  readonly announcer: Announcer;
  /** Keys of the selected items. */
  readonly chosen: readonly string[];
  readonly tree: { readonly active: IItem | null };
  /** Selects an item, or nothing. */
  choose(item: IItem | null, edge: null): void;
  /** Ids and keys of what is shown; null for all. */
  readonly only: ReadonlySet<string> | null;
  readonly editing: {
    readonly isOn: boolean;
    change(args: Partial<IChangeArgs> & { do: IChangeArgs['do'] }): Promise<IChangeAnswer | null>;
  };
  /** The scene has other places now: it is drawn again. */
  redrawScene(): void;
  rebuild(anchor: string | null): Promise<void>;
}

export type Alignment = 'left' | 'top' | 'across' | 'down';

/** How far one press of a key moves something. */
const STEP = 10;

/** Presses of keys that follow each other within this are one step. */
const PAUSE_MS = 500;

const ERROR_NODE = 'error';

/** What keys have moved so far. */
interface INudged {
  move: Move;
  scene: IScene;
  keys: string;
  dx: number;
  dy: number;
  timer: ReturnType<typeof setTimeout>;
}

export class Arranging {
  private _nudged: INudged | null = null;

  constructor(private readonly _host: IArrangingHost) {}

  /** Whether what is selected can be moved. */
  get canMove(): boolean {
    return this._items().length > 0;
  }

  /** Whether several things are selected that can be lined up. */
  get canAlign(): boolean {
    return this._items().length > 1;
  }

  /** Whether all that is selected is pinned. */
  get isPinned(): boolean {
    const places = placesOf(this._host.model);
    const items = this._items();
    return items.length > 0 && items.every(item => places.get(item.key)?.pinned === true);
  }

  get hasPlaces(): boolean {
    return this._host.editing.isOn && placesOf(this._host.model).size > 0;
  }

  /** What a press at a point of the stage drags; null where nothing is there, or may be moved. */
  grip(x: number, y: number): IGrip | null {
    const { stage, scene, chosen, editing } = this._host;
    const hit = editing.isOn ? stage.hit(x, y) : null;
    if (hit === null || scene === null || !hit.isSolid || hit.onChevron || !this._canBeMoved(hit.item)) {
      return null;
    }
    const items = chosen.includes(hit.item.key) ? this._items() : [hit.item];
    let move: Move | null = null;
    const [x0, y0] = [stage.camera.worldX(x), stage.camera.worldY(y)];
    return {
      moved: (toX, toY) => {
        if (move === null) {
          move = new Move(scene, items);
          if (!chosen.includes(hit.item.key)) {
            this._host.choose(hit.item, null);
          }
        }
        move.by(stage.camera.worldX(toX) - x0, stage.camera.worldY(toY) - y0);
        this._host.redrawScene();
      },
      dropped: () => {
        if (move !== null) {
          void this._ask('place', move);
        }
      },
      cancelled: () => {
        move?.back();
        this._host.redrawScene();
        this._host.announcer.say('put back');
      }
    };
  }

  /** Moves what is selected by a step on the screen; what follows soon is the same step of undo. */
  nudge(dx: number, dy: number): void {
    const { scene } = this._host;
    const items = this._items();
    if (scene === null || items.length === 0) {
      return;
    }
    const keys = items.map(item => item.key).join();
    if (this._nudged?.scene !== scene || this._nudged.keys !== keys) {
      this.settle();
    }
    clearTimeout(this._nudged?.timer);
    const { move, dx: x, dy: y } = this._nudged ?? { move: new Move(scene, items), dx: 0, dy: 0 };
    const now = { dx: x + dx * STEP, dy: y + dy * STEP };
    this._nudged = { move, scene, keys, ...now, timer: setTimeout(() => this.settle(), PAUSE_MS) };
    move.by(now.dx, now.dy);
    this._host.redrawScene();
  }

  /** Whether something was moved that is not a step yet. */
  get isUnsettled(): boolean {
    return this._nudged !== null;
  }

  /** Keeps what keys have moved: another step is to be made, or none came for a while. */
  settle(): void {
    const nudged = this._nudged;
    if (nudged !== null) {
      clearTimeout(nudged.timer);
      this._nudged = null;
      void this._ask('place', nudged.move);
    }
  }

  /** Pins what is selected where it stands, or lets it go. */
  togglePin(): void {
    const isPinned = !this.isPinned;
    const places = this._places(this._items(), () => isPinned);
    void this._host.editing.change({ do: isPinned ? 'pin' : 'unpin', places });
  }

  /** Lines up what is selected, or spreads it evenly. */
  align(how: Alignment): void {
    const { scene } = this._host;
    const items = this._items();
    if (scene === null || items.length < 2) {
      return;
    }
    const isAcross = how === 'left' || how === 'across';
    const starts = items.map(item => (isAcross ? item.x : item.y));
    const sizes = items.map(item => (isAcross ? item.w : item.h));
    const least = Math.min(...starts);
    const wanted = how === 'left' || how === 'top' ? starts.map(() => least) : spread(starts, sizes);
    const places = this._places(items, place => place?.pinned ?? false, n => {
      const by = at(wanted, n) - at(starts, n);
      return isAcross ? [by, 0] : [0, by];
    });
    void this._host.editing.change({ do: 'align', places });
  }

  /** Leaves to the layout where things stand: those that are not pinned, or all. */
  async layOut(isAll: boolean): Promise<void> {
    const on = (this._host.model.document.places ?? []).filter(place => isAll || !place.pinned).map(place => place.key);
    if (on.length === 0) {
      this._host.announcer.hint(isAll ? 'Nothing has a place' : 'Everything that has a place is pinned');
      return;
    }
    const answer = await this._host.editing.change({ do: 'unplace', on });
    if (answer !== null) {
      await this._host.rebuild(null);
    }
  }

  private _canBeMoved(item: IItem): boolean {
    return this._host.only === null && item.kind !== 'root' && item.node?.node.id !== ERROR_NODE;
  }

  /** The selected items, or the one that has the keyboard. */
  private _items(): IItem[] {
    const { scene, chosen, editing, tree } = this._host;
    if (!editing.isOn || scene === null) {
      return [];
    }
    const keys = chosen.length > 0 ? chosen : [tree.active?.key ?? ''];
    return keys
      .flatMap(key => scene.byKey.get(key) ?? [])
      .filter(item => this._canBeMoved(item));
  }

  /** The places of `items`, each farther than it is drawn by what `by` gives for its number. */
  private _places(
    items: readonly IItem[],
    pinned: (known: IPlace | undefined) => boolean,
    by: (number: number) => readonly [number, number] = () => [0, 0]
  ): IPlace[] {
    const known = placesOf(this._host.model);
    const direction = this._host.scene?.direction ?? 'down';
    return items.map((item, number) => {
      const { x, y } = placeOf(item, direction, ...by(number));
      return { key: item.key, x: Math.round(x), y: Math.round(y), pinned: pinned(known.get(item.key)) };
    });
  }

  private async _ask(what: 'place', move: Move): Promise<void> {
    const places = this._places(move.items, place => place?.pinned ?? false);
    const { scene } = this._host;
    const answer = await this._host.editing.change({ do: what, places });
    if (answer === null && scene === this._host.scene) {
      move.back();
      this._host.redrawScene();
      this._host.announcer.hint(`${plural(move.items.length, 'item')} put back`);
    }
  }
}

/** The commands that put things somewhere. */
export function addArranging(
  arranging: () => Arranging,
  add: (id: string, label: string, execute: () => void, isEnabled?: () => boolean) => void
): void {
  const canMove = (): boolean => arranging().canMove;
  const canAlign = (): boolean => arranging().canAlign;
  for (const [id, label, dx, dy] of [
    ['move-left', 'Move to the left', -1, 0],
    ['move-right', 'Move to the right', 1, 0],
    ['move-up', 'Move up', 0, -1],
    ['move-down', 'Move down', 0, 1]
  ] as const) {
    add(id, label, () => arranging().nudge(dx, dy), canMove);
  }
  add('toggle-pin', 'Pin where it stands, or let it go', () => arranging().togglePin(), canMove);
  add('align-left', 'Line up at the left', () => arranging().align('left'), canAlign);
  add('align-top', 'Line up at the top', () => arranging().align('top'), canAlign);
  add('spread-across', 'Spread evenly across', () => arranging().align('across'), canAlign);
  add('spread-down', 'Spread evenly downwards', () => arranging().align('down'), canAlign);
  add('lay-out', 'Lay out what is not pinned', () => void arranging().layOut(false), () => arranging().hasPlaces);
  add('lay-out-all', 'Lay out all, also what is pinned', () => void arranging().layOut(true), () => arranging().hasPlaces);
}
