// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { GraphView } from '../src/core';
import type { IItem } from '../src/core/model/scene';
import type { IAsked } from '../src/core/view/ask';
import type { IChangeArgs } from '../src/proto/changes';
import type { IComment, IGraphDocument, IPlace } from '../src/proto/document';
import { threeOps, transformer } from './fixtures';
import { installPage } from './page';

const mounted: GraphView[] = [];

beforeEach(installPage);
afterEach(() => {
  mounted.splice(0).forEach(view => view.dispose());
  document.body.replaceChildren();
});

interface INotes {
  places: IPlace[];
  folds: Record<string, boolean>;
  comments: IComment[];
}

/** What a kernel does with the steps of a view that are about what lies beside the graph. */
class Kernel {
  readonly asked: IChangeArgs[] = [];
  notes: INotes = { places: [], folds: {}, comments: [] };
  refuses = false;
  private readonly _done: INotes[] = [];

  constructor(readonly view: GraphView) {
    view.events.on('asked', asked => queueMicrotask(() => this._answer(asked)));
  }

  private _answer({ id, what, args }: IAsked): void {
    if (what !== 'change') {
      this.view.setAnswer(id, false, null, `nobody answers ${what}`, []);
      return;
    }
    const change = args as unknown as IChangeArgs;
    this.asked.push(change);
    if (this.refuses && change.do !== 'look') {
      this.view.setAnswer(id, false, null, 'the graph is in the middle of a change', []);
      return;
    }
    const before = this.notes;
    this.notes = this._after(change) ?? before;
    if (change.do !== 'undo' && this.notes !== before) {
      this._done.push(before);
    }
    if (this.notes !== before) {
      this._tell(before);
    }
    const data = { version: 1, said: change.do, select: [], can_undo: this._done.length > 0, can_redo: false, wrong: [] };
    this.view.setAnswer(id, true, data, '', []);
  }

  private _after({ do: what, places = [], on, op, fields }: IChangeArgs): INotes | undefined {
    const { notes } = this;
    const keys = new Set(places.map(place => place.key));
    switch (what) {
      case 'place':
      case 'pin':
      case 'unpin':
      case 'align':
        return { ...notes, places: [...notes.places.filter(place => !keys.has(place.key)), ...places] };
      case 'unplace':
        return { ...notes, places: notes.places.filter(place => !on.includes(place.key)) };
      case 'fold':
        return { ...notes, folds: { ...notes.folds, ...Object.fromEntries(Object.entries(fields).map(([k, v]) => [k, v === 'true'])) } };
      case 'comment': {
        const comment = { id: `c${notes.comments.length}`, text: fields.text ?? '', on: op, x: places[0]?.x ?? 0, y: places[0]?.y ?? 0 };
        return { ...notes, comments: [...notes.comments, comment] };
      }
      case 'set-comment':
        return {
          ...notes,
          comments: notes.comments.map(one => (one.id === on[0] ? { ...one, text: fields.text ?? one.text, ...(places[0] && { x: places[0].x, y: places[0].y }) } : one))
        };
      case 'remove-comment':
        return { ...notes, comments: notes.comments.filter(one => !on.includes(one.id)) };
      case 'undo':
        return this._done.pop();
      default:
        return undefined;
    }
  }

  private _tell(before: INotes): void {
    const { places, folds, comments } = this.notes;
    const removed = before.places.map(place => place.key);
    const added = places.map(place => ({ before: null, place }));
    const revision = this.view.model.document.revision + 1;
    expect(this.view.setDifference({ revision, folds, comments, places: { removed, changed: [], added } })).toBe(true);
  }
}

async function mount(doc: IGraphDocument): Promise<{ view: GraphView; kernel: Kernel }> {
  const view = new GraphView(document.body, { noProfile: null, canAsk: true });
  view.stage.reducedMotion = true;
  mounted.push(view);
  view.setDocument(doc);
  await view.layoutDone();
  const kernel = new Kernel(view);
  await view.editing.toggle();
  expect(view.editing.isOn).toBe(true);
  return { view, kernel };
}

const settled = async (view: GraphView): Promise<void> => {
  for (let i = 0; i < 40; i += 1) {
    await Promise.resolve();
  }
  await view.layoutDone();
};

const itemOf = (view: GraphView, label: string): IItem => {
  const item = view.scene?.items.find(one => one.label === label);
  if (item === undefined) {
    throw new Error(`there is no ${label}`);
  }
  return item;
};

const spotOf = (view: GraphView, label: string): { x: number; y: number } => {
  const { x, y } = itemOf(view, label);
  return { x, y };
};

class Pointer {
  constructor(private readonly _view: GraphView) {
    this._view.stage.element.setPointerCapture = () => undefined;
    this._view.stage.element.getBoundingClientRect = () => ({ left: 0, top: 0, width: 900, height: 500, x: 0, y: 0, right: 900, bottom: 500, toJSON: () => '' });
  }

  /** The middle of an item on the stage. */
  at(label: string): { x: number; y: number } {
    const { camera } = this._view.stage;
    const { x, y, w, h } = itemOf(this._view, label);
    return { x: (x + w / 2) * camera.k + camera.tx, y: (y + h / 2) * camera.k + camera.ty };
  }

  fire(type: string, x: number, y: number, init: MouseEventInit = {}): void {
    const event = new MouseEvent(type, { clientX: x, clientY: y, button: 0, bubbles: true, cancelable: true, ...init });
    Object.defineProperty(event, 'pointerId', { value: 1 });
    this._view.stage.element.dispatchEvent(event);
  }

  /** Presses on an item and moves, without letting go. */
  take(label: string, dx: number, dy: number): void {
    const { x, y } = this.at(label);
    this.fire('pointerdown', x, y);
    this.fire('pointermove', x + dx / 2, y + dy / 2);
    this.fire('pointermove', x + dx, y + dy);
  }

  drop(label: string): void {
    const { x, y } = this.at(label);
    this.fire('pointerup', x, y);
  }
}

describe('dragging while a graph is edited', () => {
  it('moves what is taken, with its lines, and asks once', async () => {
    const { view, kernel } = await mount(threeOps());
    const pointer = new Pointer(view);
    const before = spotOf(view, 'add');
    const still = spotOf(view, 'gelu');
    const { k } = view.stage.camera;
    pointer.take('add', 120, -30);
    expect(itemOf(view, 'add').x).toBeCloseTo(before.x + 120 / k, 3);
    const edges = view.scene?.root.container?.edges ?? [];
    for (const edge of edges.filter(one => one.to?.label === 'add' || one.from?.label === 'add')) {
      const own = itemOf(view, 'add');
      const n = edge.points.length;
      const y = edge.to?.label === 'add' ? edge.points[n - 1] : edge.points[1];
      expect(y).toBeCloseTo(edge.to?.label === 'add' ? own.y : own.y + own.h, 2);
    }
    expect(kernel.asked.filter(asked => asked.do === 'place')).toEqual([]);
    pointer.drop('add');
    await settled(view);
    const [place] = kernel.notes.places;
    expect(kernel.asked.filter(asked => asked.do === 'place').length).toBe(1);
    expect(place).toEqual({ key: itemOf(view, 'add').key, x: Math.round(before.x + 120 / k), y: Math.round(before.y - 30 / k), pinned: false });
    expect(spotOf(view, 'add')).toEqual({ x: place?.x, y: place?.y });
    expect(spotOf(view, 'gelu')).toEqual(still);
    view.execute('edit-undo');
    await settled(view);
    expect(spotOf(view, 'add')).toEqual(before);
  });

  it('by keys is one step for all presses that follow soon, which undo takes back', async () => {
    const { view, kernel } = await mount(threeOps());
    const before = spotOf(view, 'add');
    view.choose(itemOf(view, 'add'), null);
    for (const command of ['move-right', 'move-right', 'move-down']) {
      view.execute(command);
    }
    expect(spotOf(view, 'add')).toEqual({ x: before.x + 20, y: before.y + 10 });
    expect(kernel.asked.filter(asked => asked.do === 'place')).toEqual([]);
    view.execute('edit-undo');
    await settled(view);
    expect(kernel.asked.map(asked => asked.do)).toEqual(['look', 'place', 'undo']);
    expect(spotOf(view, 'add')).toEqual(before);
  });

  it('is put back by Escape, and where the kernel refuses', async () => {
    const { view, kernel } = await mount(threeOps());
    const pointer = new Pointer(view);
    const before = spotOf(view, 'add');
    const lines = view.scene?.root.container?.edges.map(edge => Array.from(edge.points));
    pointer.take('add', 90, 40);
    view.tree.element.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
    expect(spotOf(view, 'add')).toEqual(before);
    expect(view.scene?.root.container?.edges.map(edge => Array.from(edge.points))).toEqual(lines);
    pointer.drop('add');
    await settled(view);
    expect(kernel.asked.map(asked => asked.do)).toEqual(['look']);
    kernel.refuses = true;
    pointer.take('add', 90, 40);
    pointer.drop('add');
    await settled(view);
    expect(kernel.asked.map(asked => asked.do)).toEqual(['look', 'place']);
    expect(spotOf(view, 'add')).toEqual(before);
  });

  it('moves all that is selected, and pans where nothing is edited', async () => {
    const { view, kernel } = await mount(threeOps());
    const pointer = new Pointer(view);
    view.select(['add', 'gelu'].map(label => itemOf(view, label).key));
    await settled(view);
    pointer.take('add', 50, 50);
    pointer.drop('add');
    await settled(view);
    expect(kernel.notes.places.map(place => place.key).sort()).toEqual(['add', 'gelu'].map(label => itemOf(view, label).key).sort());
    await view.editing.toggle();
    const spot = spotOf(view, 'add');
    const { tx } = view.stage.camera;
    pointer.take('add', 60, 0);
    pointer.drop('add');
    expect(spotOf(view, 'add')).toEqual(spot);
    expect(view.stage.camera.tx).not.toBe(tx);
  });
});

describe('places by commands', () => {
  it('moves by keys, pins, and lays out again what is not pinned', async () => {
    const { view, kernel } = await mount(threeOps());
    const first = spotOf(view, 'add');
    const gelu = spotOf(view, 'gelu');
    view.goTo(itemOf(view, 'add'));
    expect(view.execute('move-right')).toBe(true);
    await settled(view);
    expect(spotOf(view, 'add')).toEqual({ x: Math.round(first.x + 10), y: Math.round(first.y) });
    view.goTo(itemOf(view, 'gelu'));
    view.execute('toggle-pin');
    await settled(view);
    expect(kernel.notes.places.map(place => place.pinned)).toEqual([false, true]);
    expect(view.stage.marks.pinned.map(item => item.label)).toEqual(['gelu']);
    expect(view.tree.element.textContent).toContain('pinned');
    view.execute('lay-out');
    await settled(view);
    expect(kernel.notes.places.map(place => place.key)).toEqual([itemOf(view, 'gelu').key]);
    expect(spotOf(view, 'add').x).toBeCloseTo(first.x, 0);
    expect(spotOf(view, 'gelu')).toEqual({ x: Math.round(gelu.x), y: Math.round(gelu.y) });
    view.execute('lay-out-all');
    await settled(view);
    expect(kernel.notes.places).toEqual([]);
    expect(view.execute('lay-out')).toBe(false);
    expect(spotOf(view, 'gelu')).toEqual(gelu);
  });

  it('lines up what is selected', async () => {
    const { view } = await mount(threeOps());
    const labels = ['mul', 'add', 'gelu'];
    for (const [label, by] of [['mul', -3], ['add', 7]] as const) {
      view.goTo(itemOf(view, label));
      for (let n = 0; n < Math.abs(by); n += 1) {
        view.execute(by > 0 ? 'move-right' : 'move-left');
        await settled(view);
      }
    }
    view.select(labels.map(label => itemOf(view, label).key));
    await settled(view);
    view.execute('align-left');
    await settled(view);
    expect(new Set(labels.map(label => itemOf(view, label).x)).size).toBe(1);
    view.execute('spread-down');
    await settled(view);
    const [a, b, c] = labels.map(label => itemOf(view, label));
    expect((b?.y ?? 0) - (a?.y ?? 0) - (a?.h ?? 0)).toBeCloseTo((c?.y ?? 0) - (b?.y ?? 0) - (b?.h ?? 0), -0.5);
  });

  it('remembers folds that are made while editing, and follows an undo', async () => {
    const { view, kernel } = await mount(transformer(2));
    const box = view.scene?.items.find(item => item.box !== null && item.container === null);
    expect(box).toBeDefined();
    view.toggle(box?.key ?? '');
    await settled(view);
    const key = box?.box?.key ?? '';
    expect(kernel.notes.folds[key]).toBe(false);
    expect(view.expanded.has(key)).toBe(true);
    view.execute('edit-undo');
    await settled(view);
    expect(view.expanded.has(key)).toBe(false);
    const folded = { ...transformer(2), folds: { [key]: false } };
    const other = new GraphView(document.body, { noProfile: 'nobody is there' });
    mounted.push(other);
    other.setDocument(folded);
    expect(other.expanded.has(key)).toBe(true);
  });
});

describe('comments', () => {
  const notes = (view: GraphView): HTMLElement[] => [...view.element.querySelectorAll<HTMLElement>('.jp-MaxLab-comment')];
  const type = (view: GraphView, text: string): void => {
    const field = view.element.querySelector('textarea');
    expect(document.activeElement).toBe(field);
    if (field !== null) {
      field.value = text;
      field.dispatchEvent(new Event('input'));
      field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
    }
  };

  it('are written on what is selected, changed and removed, and are text', async () => {
    const { view, kernel } = await mount(threeOps());
    view.select([itemOf(view, 'add').key]);
    await settled(view);
    expect(view.execute('comment')).toBe(true);
    type(view, '<b>why</b> <script>alert(1)</script>');
    await settled(view);
    const [note] = notes(view);
    expect(note?.textContent).toContain('<b>why</b> <script>alert(1)</script>');
    expect(note?.querySelector('b, script')).toBeNull();
    expect(note?.getAttribute('aria-label')).toContain('Comment on add: <b>');
    expect(kernel.notes.comments[0]?.on).toBe(itemOf(view, 'add').key);
    expect(view.tree.element.textContent).toContain('comment: <b>why</b>');
    note?.focus();
    expect(view.execute('edit-change')).toBe(true);
    type(view, 'because');
    await settled(view);
    expect(kernel.notes.comments.map(comment => comment.text)).toEqual(['because']);
    notes(view)[0]?.focus();
    expect(view.execute('edit-remove')).toBe(true);
    await settled(view);
    expect(kernel.asked[kernel.asked.length - 1]?.do).toBe('remove-comment');
    expect(notes(view)).toEqual([]);
    expect(view.tree.hasFocus).toBe(true);
    view.execute('edit-undo');
    await settled(view);
    expect(notes(view).length).toBe(1);
  });

  it('stand at a place of their own where nothing is selected, and are left alone by Escape', async () => {
    const { view, kernel } = await mount(threeOps());
    view.clearSelection();
    view.execute('comment');
    const field = view.element.querySelector('textarea');
    field?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
    expect(view.element.querySelector('textarea')).toBeNull();
    expect(kernel.notes.comments).toEqual([]);
    view.execute('comment');
    type(view, 'two\nlines');
    await settled(view);
    const [comment] = kernel.notes.comments;
    expect(comment?.on).toBe('');
    expect(Number.isInteger(comment?.x)).toBe(true);
    const transform = notes(view)[0]?.parentElement?.style.transform ?? '';
    expect(transform).toMatch(/^translate\(\S+px, \S+px\) scale/);
  });

  it('are shown without a kernel, where nothing changes them', async () => {
    const key = 'n404';
    const comments = [
      { id: 'c0', text: 'of what is gone', on: key, x: 0, y: 0 },
      { id: 'c1', text: 'here', on: '', x: 10, y: 20 }
    ];
    const view = new GraphView(document.body, { noProfile: 'nobody is there' });
    mounted.push(view);
    view.setDocument({ ...threeOps(), comments, places: [{ key, x: 1, y: 2, pinned: true }] });
    await view.layoutDone();
    const shown = notes(view).filter(note => note.parentElement?.hidden === false);
    expect(shown.map(note => note.textContent)).toEqual(['here']);
    expect(view.element.querySelector('.jp-MaxLab-commentRemove')).toBeNull();
    expect(view.execute('comment')).toBe(false);
  });
});
