// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { GraphView } from '../src/core';
import { keepDirection, keptDirection } from '../src/core/view/direction';
import { StubContext } from './canvas';
import { threeOps, transformer } from './fixtures';

const mounted: GraphView[] = [];

beforeEach(() => {
  HTMLCanvasElement.prototype.getContext = (() => new StubContext()) as never;
  for (const [name, size] of [['clientWidth', 900], ['clientHeight', 500]] as const) {
    Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => size });
  }
});

afterEach(() => {
  mounted.splice(0).forEach(view => view.dispose());
  document.body.replaceChildren();
  localStorage.clear();
});

async function mount(doc = threeOps()): Promise<GraphView> {
  const view = new GraphView(document.body, { noProfile: null });
  view.stage.reducedMotion = true;
  mounted.push(view);
  view.setDocument(doc);
  await view.layoutDone();
  return view;
}

const keys = (view: GraphView): string[] => view.scene!.items.map(item => item.key);
const id = (view: GraphView, op: string): string =>
  view.model.nodes.find(({ node }) => node.op === op)!.node.id;

describe.each(['down', 'right'] as const)('a part of a graph that runs %s', direction => {
  async function shown(op: string, command: string): Promise<GraphView> {
    const view = await mount();
    view.setDirection(direction);
    await view.layoutDone();
    view.select([id(view, op)]);
    view.execute(command);
    await view.layoutDone();
    return view;
  }

  it('is what an op reads, level by level', async () => {
    const view = await shown('gelu', 'producers');
    expect(keys(view).sort()).toEqual([id(view, 'add'), id(view, 'gelu')].sort());
    view.execute('one-level-more');
    await view.layoutDone();
    expect(keys(view)).toContain(id(view, 'mul'));
    view.execute('one-level-less');
    await view.layoutDone();
    expect(keys(view)).not.toContain(id(view, 'mul'));
    expect(view.apart.element.textContent).toContain('hidden');
    expect(view.scene!.direction).toBe(direction);
  });

  it('comes back whole', async () => {
    const view = await shown('add', 'isolate');
    expect(keys(view)).toEqual([id(view, 'add')]);
    view.execute('show-all');
    await view.layoutDone();
    expect(keys(view)).toHaveLength(5);
    expect(view.apart.element.hidden).toBe(true);
  });

  it('leaves out what is hidden, but never all', async () => {
    const view = await shown('add', 'hide');
    expect(keys(view)).toHaveLength(4);
    view.execute('previous-part');
    await view.layoutDone();
    expect(keys(view)).toHaveLength(5);
  });
});

describe('the direction of a graph', () => {
  it('is that of the arrow keys', async () => {
    const view = await mount();
    const go = (op: string, command: string): string[] => {
      view.tree.setScene(view.scene!, id(view, op));
      view.execute(command);
      return view.selection;
    };
    expect(go('add', 'go-down')).toEqual([id(view, 'gelu')]);
    view.execute('toggle-direction');
    await view.layoutDone();
    expect(go('add', 'go-right')).toEqual([id(view, 'gelu')]);
    expect(go('add', 'go-left')).toEqual([id(view, 'mul')]);
  });

  it('is remembered under its name, and not for another graph', async () => {
    const first = await mount();
    first.execute('toggle-direction');
    expect((await mount()).direction).toBe('right');
    expect((await mount(transformer())).direction).toBe('down');
    first.execute('toggle-direction');
    expect((await mount()).direction).toBe('down');
  });

  it('is forgotten, the oldest first, when there are too many', () => {
    for (let n = 0; n <= 200; n += 1) {
      keepDirection(`graph ${n}`, 'right');
    }
    expect(keptDirection('graph 0')).toBeNull();
    expect(keptDirection('graph 200')).toBe('right');
    localStorage.setItem('maxlab:direction', '{"not": "a list"');
    expect(keptDirection('graph 200')).toBeNull();
  });
});
