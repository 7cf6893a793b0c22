// @vitest-environment jsdom
/** Several things are selected: with a box that is dragged, and by keys. */

import { afterEach, beforeEach, expect, it } from 'vitest';

import { GraphView } from '../src/core';
import { threeOps } from './fixtures';
import { installPage } from './page';

const mounted: GraphView[] = [];

beforeEach(() => {
  installPage();
});

afterEach(() => {
  mounted.splice(0).forEach(view => view.dispose());
  document.body.replaceChildren();
});

async function mount(): Promise<GraphView> {
  const view = new GraphView(document.body, { noProfile: null });
  view.stage.reducedMotion = true;
  mounted.push(view);
  view.setDocument(threeOps());
  await view.layoutDone();
  const room = { left: 0, top: 0, width: 900, height: 500, x: 0, y: 0, right: 900, bottom: 500, toJSON: () => '' };
  view.stage.element.getBoundingClientRect = () => room;
  view.stage.element.setPointerCapture = () => undefined;
  return view;
}

function fire(view: GraphView, type: string, x: number, y: number, init: MouseEventInit = {}): void {
  const event = new MouseEvent(type, { clientX: x, clientY: y, button: 0, bubbles: true, cancelable: true, ...init });
  Object.defineProperty(event, 'pointerId', { value: 1 });
  view.stage.element.dispatchEvent(event);
}

/** The corners of a box around the items called `labels`, on the stage. */
function around(view: GraphView, ...labels: string[]): [number, number, number, number] {
  const { k, tx, ty } = view.stage.camera;
  const items = (view.scene?.items ?? []).filter(item => labels.includes(item.label));
  expect(items.length).toBe(labels.length);
  return [
    Math.min(...items.map(item => item.x)) * k + tx - 40,
    Math.min(...items.map(item => item.y)) * k + ty + 4,
    Math.max(...items.map(item => item.x + item.w)) * k + tx + 3,
    Math.max(...items.map(item => item.y + item.h)) * k + ty + 3
  ];
}

const labels = (view: GraphView): string[] => view.chosen.map(key => view.scene?.byKey.get(key)?.label ?? '').sort();

function drag(view: GraphView, [x0, y0, x1, y1]: readonly number[], init: MouseEventInit = {}): void {
  fire(view, 'pointerdown', x0 ?? 0, y0 ?? 0, init);
  fire(view, 'pointermove', ((x0 ?? 0) + (x1 ?? 0)) / 2, ((y0 ?? 0) + (y1 ?? 0)) / 2, init);
  fire(view, 'pointermove', x1 ?? 0, y1 ?? 0, init);
}

it('a box selects what it touches, after its button, once', async () => {
  const view = await mount();
  const { tx } = view.stage.camera;
  view.execute('select-area');
  expect(view.selecting.button.getAttribute('aria-pressed')).toBe('true');
  const box = around(view, 'add', 'gelu');
  drag(view, box);
  expect(view.element.querySelector('.jp-MaxLab-area')).not.toBeNull();
  expect(view.chosen).toEqual([]);
  fire(view, 'pointerup', box[2], box[3]);
  expect(labels(view)).toEqual(expect.arrayContaining(['add', 'gelu']));
  expect(view.element.querySelector('.jp-MaxLab-area')).toBeNull();
  expect(view.selecting.isArmed).toBe(false);
  expect(view.stage.camera.tx).toBe(tx);
  const selected = view.tree.element.querySelectorAll('[aria-selected="true"]');
  expect(selected.length).toBe(view.chosen.length);
});

it('with Shift a box adds to what is selected, and Escape leaves it', async () => {
  const view = await mount();
  view.selectKeys([view.scene?.items.find(item => item.label === 'add')?.key ?? '']);
  const box = around(view, 'gelu');
  drag(view, box, { shiftKey: true });
  view.execute('clear');
  fire(view, 'pointerup', box[2], box[3]);
  expect(labels(view)).toEqual(['add']);
  drag(view, box, { shiftKey: true });
  fire(view, 'pointerup', box[2], box[3], { shiftKey: true });
  expect(labels(view)).toEqual(expect.arrayContaining(['add', 'gelu']));
  view.execute('select-area');
  view.execute('clear');
  expect(view.selecting.isArmed).toBe(false);
  expect(labels(view)).toEqual(expect.arrayContaining(['add', 'gelu']));
});

it('keys go on with what is selected, and back again', async () => {
  const view = await mount();
  const first = view.scene?.items.find(item => item.node !== null);
  expect(first).toBeDefined();
  if (first === undefined) {
    return;
  }
  view.goTo(first);
  view.execute('extend-down');
  expect(view.chosen.length).toBe(2);
  const second = view.tree.active;
  expect(view.chosen).toEqual([first.key, second?.key]);
  view.execute('extend-up');
  expect(view.chosen).toEqual([first.key]);
  expect(view.tree.active).toBe(first);
  view.execute('select-also');
  expect(view.chosen).toEqual([]);
  view.execute('select-also');
  expect(view.chosen).toEqual([first.key]);
});
