/**
 * Two graphs: side by side, the first of them, which a document brings along, in a view of its own beside
 * the second, with one camera and one selection; or both in one picture, what one of them has alone with
 * a sign. Below is the list of where they differ.
 */

import type { IBeside, IGraphDifference } from '../../proto/document';
import { type ChangeKind, Changes } from '../model/changes';
import type { GraphModel } from '../model/graph';
import type { IItem, IScene } from '../model/scene';
import { Anchors } from './anchors';
import { DifferenceList } from './difference-list';
import { button, Disposables, el, type Emitter } from './dom';
import type { Stage } from './stage';
import type { IGraphViewEvents, IGraphViewOptions } from './types';

/** What is asked of each of the two views. */
export interface IBesideView {
  readonly element: HTMLElement;
  readonly stage: Stage;
  readonly events: Emitter<IGraphViewEvents>;
  readonly model: GraphModel;
  readonly scene: IScene | null;
  readonly expanded: ReadonlySet<string>;
  readonly isDisposed: boolean;
  setDocument(input: unknown): boolean;
  setChanges(changes: Changes): void;
  syncSelection(ids: readonly string[]): void;
  setFold(expanded: ReadonlySet<string>, anchor: string | null): Promise<void>;
  show(key: string): Promise<void>;
  select(ids: readonly string[]): void;
  clearSelection(): void;
  dispose(): void;
}

/** Narrower than this the two stand one above the other. */
const STACKED_PX = 700;

/** Room for the list of differences. */
const LIST_PX = 148;

/** A camera that is nearer than this is where it should be. */
const SAME_PX = 0.25;

export class Beside {
  private _pair: Pair | null = null;
  private _shown: IBeside | undefined;
  private _isSwapping = false;

  /** `make` makes the view of the first graph. */
  constructor(
    private readonly _view: IBesideView,
    private readonly _make: (room: HTMLElement, options: IGraphViewOptions) => IBesideView,
    /** Makes the view so much higher than it was asked to be. */
    private readonly _reserve: (px: number) => void,
    /** One picture of both is shown first. */
    private readonly _isOneFirst = false
  ) {}

  get isShown(): boolean {
    return this._pair !== null;
  }

  /** Shows what the document of the view brings along; takes it away when that is nothing. */
  follow(beside: IBeside | undefined): void {
    if (beside === this._shown || this._isSwapping) {
      return;
    }
    this._pair?.dispose();
    this._shown = beside;
    this._reserve(beside === undefined ? 0 : LIST_PX);
    const swap = (document: unknown): void => {
      this._isSwapping = true;
      this._view.setDocument(document);
      this._isSwapping = false;
    };
    this._pair = beside === undefined ? null : new Pair(this._view, this._make, beside, swap);
    if (this._isOneFirst) {
      this._pair?.showOne(true);
    }
  }

  /** Shows both graphs in one picture, or side by side; false when there is no other way. */
  showOne(isOne: boolean): boolean {
    return this._pair?.showOne(isOne) ?? false;
  }

  get isOne(): boolean {
    return this._pair?.isOne ?? false;
  }

  dispose(): void {
    this._pair?.dispose();
    this._pair = null;
  }
}

class Pair {
  private readonly _disposables = new Disposables();
  private readonly _room = el('section', 'jp-MaxLab-besideRoom');
  private readonly _caption: HTMLElement;
  private readonly _list: DifferenceList;
  private readonly _first: IBesideView;
  private readonly _toSecond = new Map<string, string>();
  private readonly _toFirst = new Map<string, string>();
  /** The camera of this one is that of both. */
  private _leader: IBesideView;
  private _anchors: { of: unknown[]; found: Anchors } | null = null;
  /** A fold or a selection is being passed on, and is not to come back. */
  private _isPassing = false;
  /** The row that was stepped to stays the one, also where another operation stands for it. */
  private _isStepping = false;

  /** What the second view shows while the two stand side by side. */
  private readonly _after: unknown;
  private readonly _toggle: HTMLButtonElement;
  private _isOne = false;

  constructor(
    private readonly _second: IBesideView,
    make: (room: HTMLElement, options: IGraphViewOptions) => IBesideView,
    private readonly _beside: IBeside,
    /** Lets the second view show another document. */
    private readonly _swap: (document: unknown) => void
  ) {
    const beside = _beside;
    this._after = _second.model.document;
    this._toggle = button('jp-MaxLab-besideToggle', 'Show both graphs in one picture', () =>
      this.showOne(!this._isOne)
    );
    this._toggle.textContent = 'One picture';
    this._toggle.hidden = beside.united === undefined;
    const [before = '', after = ''] = beside.labels;
    for (const [one = '', other = ''] of beside.pairs) {
      this._toSecond.set(one, other);
      this._toFirst.set(other, one);
    }
    this._leader = _second;
    this._room.setAttribute('aria-label', before);
    this._room.append(caption(before));
    this._caption = caption(after);
    this._list = new DifferenceList(beside.differences, beside.more, beside.labels, one => this._go(one), this._toggle);
    const body = _second.stage.element.closest('.jp-MaxLab-body');
    body?.classList.add('jp-mod-beside');
    body?.prepend(this._room);
    _second.stage.element.before(this._caption);
    body?.after(this._list.element);
    this._first = make(this._room, {
      height: 'fill',
      noProfile: 'this graph is only compared with the one beside it',
      canReveal: false
    });
    this._first.setDocument(beside.before);
    this._mark();
    for (const view of [this._first, _second]) {
      this._link(view);
    }
    if (body !== null && typeof ResizeObserver !== 'undefined') {
      const observer = new ResizeObserver(() => {
        body.classList.toggle('jp-mod-stacked', body.clientWidth < STACKED_PX);
      });
      observer.observe(body);
      this._disposables.add(() => observer.disconnect());
    }
    this._disposables.add(() => body?.classList.remove('jp-mod-beside', 'jp-mod-stacked'));
  }

  dispose(): void {
    this._disposables.dispose();
    if (!this._first.isDisposed) {
      this._first.dispose();
    }
    this._room.remove();
    this._caption.remove();
    this._list.element.remove();
  }

  get isOne(): boolean {
    return this._isOne;
  }

  /** Shows both in one picture, or side by side; false where there is no such picture. */
  showOne(isOne: boolean): boolean {
    const { united } = this._beside;
    if (united === undefined || isOne === this._isOne) {
      return false;
    }
    this._isOne = isOne;
    this._leader = this._second;
    this._second.stage.element.closest('.jp-MaxLab-body')?.classList.toggle('jp-mod-one', isOne);
    const label = isOne ? 'Side by side' : 'One picture';
    this._toggle.textContent = label;
    this._toggle.title = isOne ? 'Show the graphs side by side' : 'Show both graphs in one picture';
    this._toggle.setAttribute('aria-label', this._toggle.title);
    const [before = '', after = ''] = this._beside.labels;
    this._caption.textContent = isOne ? `${before} → ${after}` : after;
    this._caption.title = this._caption.textContent;
    this._swap(isOne ? united.document : this._after);
    this._mark();
    return true;
  }

  /** How what a view shows differs, by its ids. */
  private _kinds(side: 'before' | 'after' | 'both'): Map<string, ChangeKind> {
    const found = new Map<string, ChangeKind>();
    for (const one of this._beside.differences) {
      const id = side === 'both' ? idOf(one) : one[side];
      if (one.note !== true && id !== '') {
        found.set(id, one.kind);
      }
    }
    return found;
  }

  private _mark(): void {
    const { united } = this._beside;
    if (this._isOne && united !== undefined) {
      this._second.setChanges(Changes.between(this._kinds('both'), united));
      return;
    }
    this._first.setChanges(Changes.between(this._kinds('before')));
    this._second.setChanges(Changes.between(this._kinds('after')));
  }

  private _other(view: IBesideView): IBesideView {
    return view === this._first ? this._second : this._first;
  }

  private _link(view: IBesideView): void {
    const other = this._other(view);
    const isFirst = view === this._first;
    const lead = (): void => {
      this._leader = view;
    };
    const capture = { capture: true, passive: true };
    const ground = isFirst ? this._room : view.stage.element;
    for (const event of ['pointerdown', 'wheel', 'keydown'] as const) {
      this._disposables.listen(ground, event, lead, capture);
    }
    const { events } = view;
    this._disposables.add(
      events.on('selectionChanged', ids => {
        if (this._isOne) {
          this._choose(ids);
          return;
        }
        const map = isFirst ? this._toSecond : this._toFirst;
        const counterparts = ids.map(id => map.get(id)).filter(id => id !== undefined);
        this._pass(view, () => other.syncSelection(counterparts));
        if (!this._isStepping) {
          this._list.select(ids, isFirst ? 'before' : 'after');
        }
        this._follow();
      })
    );
    this._disposables.add(
      events.on('foldChanged', keys => {
        if (this._isOne) {
          return;
        }
        const next = new Set([...other.expanded].filter(key => !view.model.boxes.has(key)));
        keys.filter(key => other.model.boxes.has(key)).forEach(key => next.add(key));
        const isSame = next.size === other.expanded.size && [...next].every(key => other.expanded.has(key));
        if (!isSame) {
          this._pass(view, () => void other.setFold(next, null));
        }
      })
    );
    this._disposables.add(events.on('lookChanged', () => this._follow()));
  }

  /** Marks the row of what was selected in the picture of both. */
  private _choose(ids: readonly string[]): void {
    if (!this._isStepping) {
      const isGone = ids[0]?.endsWith(GONE) === true;
      const known = ids.map(id => (isGone ? id.slice(0, -GONE.length) : id));
      this._list.select(known, isGone ? 'before' : 'after');
    }
  }

  private _pass(from: IBesideView, act: () => void): void {
    if (!this._isPassing) {
      this._isPassing = true;
      this._leader = from;
      act();
      this._isPassing = false;
    }
  }

  /** Puts the camera of the one that does not lead where that of the leader is. */
  private _follow(): void {
    const follower = this._other(this._leader);
    const [leading, led] = [this._leader.stage, follower.stage];
    const { scene } = this._leader;
    if (this._isOne || scene === null || follower.scene === null || leading.width === 0 || led.width === 0) {
      return;
    }
    const { k, tx, ty } = leading.camera;
    const middle = {
      x: leading.camera.worldX(leading.width / 2),
      y: leading.camera.worldY(leading.height / 2)
    };
    const { dx, dy } = this._offsets(scene, follower.scene).at(middle.x, middle.y, this._chosen(scene));
    const x = tx - dx * k + (led.width - leading.width) / 2;
    const y = ty - dy * k + (led.height - leading.height) / 2;
    const { camera } = led;
    const isThere =
      Math.abs(camera.k / k - 1) < 1e-4 && Math.abs(camera.tx - x) < SAME_PX && Math.abs(camera.ty - y) < SAME_PX;
    if (!isThere) {
      led.stopFlight();
      camera.set(k, x, y);
      led.redraw();
    }
  }

  /** The selected item of the leader, which stands at the same height in both. */
  private _chosen(scene: IScene): IItem | null {
    const [item] = this._leader.stage.marks.selected;
    return item !== undefined && scene.byKey.get(item.key) === item ? item : null;
  }

  /** How far the items of the follower stand from those of the leader. */
  private _offsets(scene: IScene, other: IScene): Anchors {
    const of = [scene, other];
    if (this._anchors === null || this._anchors.of.some((one, n) => one !== of[n])) {
      const map = this._leader === this._first ? this._toSecond : this._toFirst;
      const counterpart = (item: IItem): IItem | undefined => {
        const node = item.node?.node.id;
        return other.byKey.get(node === undefined ? item.key : (map.get(node) ?? ''));
      };
      this._anchors = { of, found: new Anchors(scene.items, counterpart) };
    }
    return this._anchors.found;
  }

  /** Shows a difference in the graph that has it, and what is beside it in the other. */
  private _go(difference: IGraphDifference): void {
    const { before, after } = difference;
    const view = after === '' && !this._isOne ? this._first : this._second;
    const id = this._isOne ? idOf(difference) : after === '' ? before : after;
    if (id === '') {
      return;
    }
    this._leader = view;
    const node = view.model.node(id);
    if (node === undefined) {
      const end = [`in:${id}`, `out:${id}`].find(key => view.scene?.byKey.has(key) === true);
      view.clearSelection();
      void view.show(end ?? id);
      return;
    }
    this._isStepping = true;
    view.select([node.isChip ? (readerOf(view.model, id) ?? id) : id]);
    this._isStepping = false;
  }
}

/** Stands behind the id of what only the first graph has, in the picture of both. */
const GONE = '~';

/** What a difference is called in the picture of both. */
function idOf({ before, after }: IGraphDifference): string {
  return after === '' && before !== '' ? before + GONE : after;
}

/** A constant is drawn on the operation that reads it. */
function readerOf(model: GraphModel, id: string): string | null {
  const reader = model.node(id)?.results.flatMap(value => model.values[value]?.consumers ?? [])[0];
  return reader === undefined ? null : (model.nodes[reader]?.node.id ?? null);
}

function caption(text: string): HTMLElement {
  const found = el('div', 'jp-MaxLab-besideCaption', text);
  found.title = text;
  return found;
}
