/**
 * Comments on the canvas: beside what they are about, or at a place of their own. They are elements over
 * the drawing, so keyboards and screen readers reach them; what they say is text and never markup.
 */

import type { IChangeAnswer, IChangeArgs } from '../../proto/changes';
import type { IComment } from '../../proto/document';
import { drawnAt, placeAt } from '../layout/places';
import type { GraphModel } from '../model/graph';
import { boxKey, type IItem, type IScene } from '../model/scene';
import { at } from '../narrow';
import type { Camera } from '../render/camera';
import type { INote } from '../render/notes';
import { button, el, icon } from './dom';
import { freest } from './free-room';
import type { Stage } from './stage';

export interface ICommentsHost {
  readonly model: GraphModel;
  readonly scene: IScene | null;
  readonly stage: Stage;
  readonly tree: { readonly active: IItem | null; focus(): void };
  readonly chosen: readonly string[];
  readonly editing: {
    readonly isOn: boolean;
    change(args: Partial<IChangeArgs> & { do: IChangeArgs['do'] }): Promise<IChangeAnswer | null>;
  };
}

/** Room between an item and what stands beside it, on the screen. */
const BESIDE_PX = 10;

/** Text is not smaller than this part of its size, however far out the camera is. */
const LEAST = 0.62;
/** Farther out only a mark is left of a comment. */
const MARK_ZOOM = 0.3;

/** The size of that mark. */
const MARK = { w: 12, h: 10 };

const NO_SIZE = { w: 0, h: 0 };

const DRAG_PX = 4;

const scaleAt = (k: number): number => Math.min(1.15, Math.max(LEAST, k));

interface IGroup {
  element: HTMLElement;
  /** What it stands beside; null where it has a place. */
  key: string | null;
  x: number;
  y: number;
  /** Its size when nothing is scaled; null until it was measured. */
  size: { w: number; h: number } | null;
  /** The side of the item on which it stands, for what scene and zoom that was found. */
  side: { of: IScene; k: number; number: number } | null;
}

/** The drawn item of a key: of what is in a folded box, the box. */
export function itemOf(model: GraphModel, scene: IScene, key: string): IItem | null {
  const item = scene.byKey.get(key);
  const node = model.node(key);
  if (item !== undefined || node === undefined) {
    return item ?? null;
  }
  for (let { box } = node; box.parent !== null; box = box.parent) {
    const folded = scene.byKey.get(boxKey(box));
    if (folded !== undefined) {
      return folded;
    }
  }
  return null;
}

export class Comments {
  readonly element = el('div', 'jp-MaxLab-comments');
  private _groups: IGroup[] = [];
  private _shown: readonly IComment[] = [];
  private _isEditing = false;
  /** The comment that is written; its id is empty for a new one. */
  private _writing: { id: string; on: string; x: number; y: number } | null = null;
  private _typed = '';

  constructor(private readonly _host: ICommentsHost) {
    this.element.setAttribute('role', 'group');
    this.element.setAttribute('aria-label', 'Comments');
    this.element.hidden = true;
  }

  /** The id of the comment that has the keyboard; empty where none has. */
  get focused(): string {
    const { activeElement } = this.element.ownerDocument;
    const note = activeElement instanceof HTMLElement && this.element.contains(activeElement) ? activeElement : null;
    return note?.closest<HTMLElement>('[data-comment]')?.dataset.comment ?? '';
  }

  /** Shows the comments of the document. */
  update(): void {
    const comments = this._host.model.document.comments ?? [];
    const isEditing = this._host.editing.isOn;
    if (comments !== this._shown || isEditing !== this._isEditing || this._writing !== null) {
      this._shown = comments;
      this._isEditing = isEditing;
      this._render();
    }
    this.place();
  }

  /** The comments and where they are drawn when `camera` looks at the graph, for a picture of it. */
  notesAt({ k, tx, ty }: Camera): INote[] {
    const { scene, model } = this._host;
    if (scene === null) {
      return [];
    }
    const scale = scaleAt(k);
    const isFar = k < MARK_ZOOM;
    // They are measured as they would be shown.
    this.element.classList.toggle('jp-mod-far', isFar);
    const found = this._groups.flatMap(group => {
      const item = group.key === null ? null : itemOf(model, scene, group.key);
      if (group.key !== null && item === null) {
        return [];
      }
      const { x, y } = item === null ? drawnAt(scene.direction, group, NO_SIZE) : this._spot(group, item, scale, k, null).place;
      const notes = [...group.element.querySelectorAll<HTMLElement>('[data-comment]')];
      return notes.map((note): INote => {
        const text = note.querySelector('.jp-MaxLab-commentText')?.textContent ?? '';
        const [w, h] = isFar ? [MARK.w, MARK.h] : [note.offsetWidth, note.offsetHeight];
        const top = isFar ? 0 : note.offsetTop;
        return { text, x: x * k + tx, y: y * k + ty + top * scale, w: w * scale, h: h * scale, scale: isFar ? 0 : scale };
      });
    });
    this.element.classList.toggle('jp-mod-far', this._host.stage.camera.k < MARK_ZOOM);
    return found;
  }

  /** Puts what is shown where the camera has it. */
  place(): void {
    const { scene, stage, model } = this._host;
    const { camera } = stage;
    const size = scaleAt(camera.k);
    this.element.classList.toggle('jp-mod-far', camera.k < MARK_ZOOM);
    for (const group of this._groups) {
      const item = group.key === null || scene === null ? null : itemOf(model, scene, group.key);
      group.element.hidden = group.key !== null && item === null;
      // What is written is read at its full size.
      const scale = group.element.querySelector('textarea') === null ? size : 1;
      const own = drawnAt(scene?.direction ?? 'down', group, NO_SIZE);
      const { x, y } = item === null || scene === null ? own : this._beside(group, item, scene, scale);
      const left = x * camera.k + camera.tx;
      const top = y * camera.k + camera.ty;
      group.element.style.transform = `translate(${left.toFixed(1)}px, ${top.toFixed(1)}px) scale(${scale.toFixed(3)})`;
    }
  }

  /** Where beside an item a group stands: on the first side on which it covers least. */
  private _beside(group: IGroup, item: IItem, scene: IScene, scale: number): { x: number; y: number } {
    const { k } = this._host.stage.camera;
    const known = group.side?.of === scene && group.side.k === k ? group.side.number : null;
    const { place, number } = this._spot(group, item, scale, k, known);
    group.side = { of: scene, k, number };
    return place;
  }

  /** The place beside an item, and the number of the side; that of the one on which least is covered. */
  private _spot(
    group: IGroup,
    item: IItem,
    scale: number,
    k: number,
    known: number | null
  ): { place: { x: number; y: number }; number: number } {
    const { offsetWidth, offsetHeight } = group.element;
    if (k >= MARK_ZOOM && offsetWidth > 0) {
      group.size ??= { w: offsetWidth, h: offsetHeight };
    }
    const size = k < MARK_ZOOM ? MARK : group.size;
    const w = ((size?.w ?? 0) * scale) / k;
    const h = ((size?.h ?? 0) * scale) / k;
    const gap = BESIDE_PX / k;
    const places = [
      { x: item.x + item.w + gap, y: item.y },
      { x: item.x - gap - w, y: item.y },
      { x: item.x + item.w + gap, y: item.y + item.h - h },
      { x: item.x - gap - w, y: item.y + item.h - h },
      { x: item.x + item.w + gap, y: item.y + item.h + gap },
      { x: item.x - gap - w, y: item.y + item.h + gap },
      { x: item.x + item.w + gap, y: item.y - gap - h },
      { x: item.x - gap - w, y: item.y - gap - h },
      { x: item.x + gap, y: item.y + item.h + gap },
      { x: item.x + gap, y: item.y - gap - h }
    ];
    const number = known ?? freest(this._host.stage.picture, places.map(place => ({ ...place, w, h })));
    return { place: at(places, number), number };
  }

  /** Begins a comment on what is selected, or where nothing is in the middle of the window. */
  write(): void {
    const { chosen, stage, model, scene } = this._host;
    const on = chosen[0] ?? '';
    const isThere = on !== '' && scene !== null && itemOf(model, scene, on) !== null;
    const { camera } = stage;
    const middle = { x: camera.worldX(stage.width / 2 - 90), y: camera.worldY(stage.height / 2 - 20) };
    const { x, y } = placeAt(scene?.direction ?? 'down', middle, NO_SIZE);
    this._open({ id: '', on: isThere ? on : '', x: Math.round(x), y: Math.round(y) });
  }

  /** Changes what the comment with the keyboard says; false where none has it. */
  editFocused(): boolean {
    return this._edit(this.focused);
  }

  /** Removes the comment that has the keyboard; false where none has it. */
  removeFocused(): boolean {
    const id = this.focused;
    if (id === '' || !this._host.editing.isOn) {
      return false;
    }
    this._remove(id);
    return true;
  }

  private _remove(id: string): void {
    this._host.tree.focus();
    void this._host.editing.change({ do: 'remove-comment', on: [id] });
  }

  private _edit(id: string): boolean {
    const comment = this._shown.find(one => one.id === id);
    if (comment === undefined || !this._host.editing.isOn) {
      return false;
    }
    this._open(comment, comment.text);
    return true;
  }

  private _open(writing: { id: string; on: string; x: number; y: number }, text = ''): void {
    this._writing = writing;
    this._typed = text;
    this._render();
    this.place();
    const field = this.element.querySelector('textarea');
    field?.focus();
    field?.select();
  }

  private _close(): void {
    this._writing = null;
    this._render();
    this.place();
    this._host.tree.focus();
  }

  private async _apply(text: string): Promise<void> {
    const writing = this._writing;
    this._typed = text;
    const old = this._shown.find(one => one.id === writing?.id)?.text ?? '';
    if (writing === null || text.trim() === '' || text.trim() === old) {
      this._close();
      return;
    }
    const { id, on, x, y } = writing;
    const fields = { text };
    const answer =
      id === ''
        ? await this._host.editing.change({
            do: 'comment',
            op: on,
            fields,
            ...(on === '' ? { places: [{ key: '', x, y, pinned: false }] } : {})
          })
        : await this._host.editing.change({ do: 'set-comment', on: [id], fields });
    // What was refused stays to be mended.
    if (answer !== null && this._writing === writing) {
      this._close();
    }
  }

  private _render(): void {
    const typing = this.element.querySelector('textarea');
    if (typing !== null) {
      this._typed = typing.value;
    }
    const hadFocus = typing !== null && typing === this.element.ownerDocument.activeElement;
    const kept = this.focused;
    const groups = new Map<string, IGroup>();
    const groupOf = (comment: { id: string; on: string; x: number; y: number }): IGroup => {
      const key = comment.on === '' ? `at ${comment.id}` : `on ${comment.on}`;
      let group = groups.get(key);
      if (group === undefined) {
        const element = el('div', 'jp-MaxLab-commentGroup');
        group = { element, key: comment.on === '' ? null : comment.on, x: comment.x, y: comment.y, size: null, side: null };
        groups.set(key, group);
      }
      return group;
    };
    const writing = this._writing;
    for (const comment of this._shown) {
      const isWritten = writing !== null && writing.id === comment.id;
      groupOf(comment).element.append(isWritten ? this._field(comment) : this._note(comment));
    }
    if (writing !== null && writing.id === '') {
      groupOf(writing).element.append(this._field(writing));
    }
    this._groups = [...groups.values()];
    this.element.replaceChildren(...this._groups.map(group => group.element));
    this.element.hidden = this._groups.length === 0;
    if (hadFocus) {
      this.element.querySelector('textarea')?.focus();
    } else if (kept !== '') {
      const notes = [...this.element.querySelectorAll<HTMLElement>('[data-comment]')];
      notes.find(note => note.dataset.comment === kept)?.focus();
    }
  }

  private _about(on: string): string {
    const { model, scene } = this._host;
    const item = on === '' || scene === null ? null : itemOf(model, scene, on);
    return item === null ? '' : ` on ${item.label}`;
  }

  private _note(comment: IComment): HTMLElement {
    const { id, text, on } = comment;
    const note = el('div', 'jp-MaxLab-comment', el('span', 'jp-MaxLab-commentText', text));
    note.tabIndex = 0;
    note.dataset.comment = id;
    note.setAttribute('role', 'note');
    note.setAttribute('aria-label', `Comment${this._about(on)}: ${text}`);
    if (!this._isEditing) {
      return note;
    }
    note.title = on === '' ? 'Enter changes it, Delete removes it; it can be dragged' : 'Enter changes it, Delete removes it';
    const remove = button('jp-MaxLab-commentRemove', 'Remove the comment', () => this._remove(id), icon('close'));
    remove.tabIndex = -1;
    note.append(remove);
    note.addEventListener('dblclick', () => this._edit(id));
    note.addEventListener('keydown', event => {
      if (event.target === note && event.key === 'Enter') {
        this._edit(id);
        event.preventDefault();
        event.stopPropagation();
      }
    });
    if (on === '') {
      note.addEventListener('pointerdown', event => this._drag(event, note, comment));
    }
    return note;
  }

  private _field({ id, on }: { id: string; on: string }): HTMLElement {
    const field = el('textarea', 'jp-MaxLab-commentField');
    field.value = this._typed;
    field.rows = 3;
    field.placeholder = 'Enter keeps it, Shift+Enter begins a line';
    field.setAttribute('aria-label', `${id === '' ? 'New comment' : 'Comment'}${this._about(on)}`);
    field.addEventListener('input', () => (this._typed = field.value));
    field.addEventListener('keydown', event => {
      event.stopPropagation();
      if (event.key === 'Escape') {
        this._close();
      } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        void this._apply(field.value);
      }
    });
    return field;
  }

  /** A comment with a place of its own follows the pointer; the kernel is told where it was left. */
  private _drag(event: PointerEvent, note: HTMLElement, comment: IComment): void {
    if (event.button !== 0 || !(event.target instanceof Element) || event.target.closest('button') !== null) {
      return;
    }
    const group = this._groups.find(({ element }) => element.contains(note));
    const { camera } = this._host.stage;
    const direction = this._host.scene?.direction ?? 'down';
    const start = { x: event.clientX, y: event.clientY };
    let isDragged = false;
    const end = (): void => {
      note.removeEventListener('pointermove', move);
      note.removeEventListener('pointerup', up);
      note.removeEventListener('pointercancel', back);
      note.removeEventListener('keydown', key);
      note.classList.remove('jp-mod-dragged');
    };
    const back = (): void => {
      end();
      if (group !== undefined) {
        [group.x, group.y] = [comment.x, comment.y];
      }
      this.place();
    };
    const key = (pressed: KeyboardEvent): void => {
      if (pressed.key === 'Escape') {
        pressed.stopPropagation();
        back();
      }
    };
    const move = (now: PointerEvent): void => {
      const [dx, dy] = [now.clientX - start.x, now.clientY - start.y];
      isDragged ||= Math.hypot(dx, dy) >= DRAG_PX;
      if (isDragged && group !== undefined) {
        note.classList.add('jp-mod-dragged');
        const from = drawnAt(direction, comment, NO_SIZE);
        const to = { x: from.x + dx / camera.k, y: from.y + dy / camera.k };
        ({ x: group.x, y: group.y } = placeAt(direction, to, NO_SIZE));
        this.place();
      }
    };
    const up = (): void => {
      end();
      if (isDragged && group !== undefined) {
        const places = [{ key: '', x: Math.round(group.x), y: Math.round(group.y), pinned: false }];
        void this._host.editing.change({ do: 'set-comment', on: [comment.id], places }).then(answer => {
          if (answer === null) {
            back();
          }
        });
      }
    };
    note.setPointerCapture(event.pointerId);
    note.addEventListener('pointermove', move);
    note.addEventListener('pointerup', up);
    note.addEventListener('pointercancel', back);
    note.addEventListener('keydown', key);
  }
}

/** The commands of comments. */
export function addComments(
  view: { readonly comments: Comments; readonly editing: { readonly isOn: boolean } },
  add: (id: string, label: string, execute: () => void, isEnabled?: () => boolean) => void
): void {
  add('comment', 'Write a comment', () => view.comments.write(), () => view.editing.isOn);
}
