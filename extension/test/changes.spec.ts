// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { GraphView } from '../src/core';
import { Changes, describeChange } from '../src/core/model/changes';
import { render, type IWidgetModel } from '../src/widget';
import { installPage } from './page';
import { threeOps, transformer } from './fixtures';
import { allBoxes, layOut, load } from './scene';

const views: GraphView[] = [];

beforeEach(installPage);

afterEach(() => {
  views.splice(0).forEach(view => view.dispose());
  document.body.replaceChildren();
});

async function mount(shown: unknown): Promise<{ view: GraphView; note: HTMLElement }> {
  const view = new GraphView(document.body, { noProfile: null });
  view.stage.reducedMotion = true;
  views.push(view);
  view.setDocument(shown);
  await view.layoutDone();
  return { view, note: view.element.querySelector<HTMLElement>('.jp-MaxLab-changes')! };
}

const rows = (view: GraphView): string[] =>
  [...view.element.querySelectorAll('[role="treeitem"]')].map(row => row.textContent ?? '');

describe('what changed since the last run', () => {
  it('is marked on the items that show it', () => {
    const model = load(transformer(3));
    const { scene } = layOut(model, allBoxes(model));
    const [gelu] = model.nodes.filter(node => node.node.op === 'gelu');
    const chip = model.nodes.find(node => node.isChip)!;
    const reader = model.values[chip.results[0]!]!.consumers[0]!;
    const found = new Changes({ added: [gelu!.node.id], changed: [chip.node.id, 'n999'], removed: 0 }).on(model, scene);
    expect(found.get(scene.ofNode[gelu!.index]!)).toEqual({ isNew: true, count: 1 });
    // a constant is written on the operation that reads it, which did not come with it
    expect(found.get(scene.ofNode[reader]!)).toEqual({ isNew: false, count: 1 });
    expect(found.size).toBe(2);
  });

  it('is counted on folded boxes, which are new only as a whole', () => {
    const model = load(transformer(3));
    const { scene } = layOut(model, new Set());
    const box = scene.items.find(item => item.box !== null && item.box.total > 3)!;
    const ids = model.nodesIn(box.box!).map(index => model.nodes[index]!).filter(node => !node.isChip).map(node => node.node.id);
    const on = (added: string[]) => new Changes({ added, changed: [], removed: 0 }).on(model, scene).get(box)!;
    expect(describeChange(box, on(ids.slice(0, 2)))).toBe('2 operations changed since the last run');
    expect(on(ids.slice(0, 2)).isNew).toBe(false);
  });

  it('is said in words, with how much, and can be switched off', async () => {
    const { view, note } = await mount(threeOps());
    expect(note.hidden).toBe(true);
    expect(view.execute('toggle-changes')).toBe(false);
    const [mul, , gelu] = view.model.document.nodes;
    view.setMarks({ added: [gelu!.id], changed: [mul!.id], removed: 4 });
    expect(note.hidden).toBe(false);
    expect(note.textContent).toBe('1 changed, 1 new, 4 gone since the last run');
    expect(note.getAttribute('aria-pressed')).toBe('true');
    expect(rows(view).filter(row => row.includes('last run'))).toEqual([
      'mul, f32[batch, 2048], changed since the last run',
      'gelu, f32[batch, 2048], new since the last run'
    ]);
    note.click();
    expect(rows(view).filter(row => row.includes('last run'))).toEqual([]);
    expect(view.stage.marks.changes.size).toBe(0);
    expect(note.getAttribute('aria-pressed')).toBe('false');
    expect(note.hidden).toBe(false);
    expect(view.execute('toggle-changes')).toBe(true);
    expect(view.stage.marks.changes.size).toBe(2);
  });

  it('says what is gone when nothing else is', async () => {
    const { view, note } = await mount(threeOps());
    view.setMarks({ added: [], changed: [], removed: 2 });
    expect(note.textContent).toBe('2 gone since the last run');
    view.setMarks({ added: [], changed: [], removed: 0 });
    expect(note.hidden).toBe(true);
  });

  it('stays marked while the graph changes', async () => {
    const { view } = await mount(threeOps());
    const [mul, add] = view.model.document.nodes;
    view.setMarks({ added: [mul!.id, add!.id], changed: [], removed: 0 });
    view.setDifference({ revision: 2, nodes: { removed: [mul!.id], changed: [], added: [] } });
    expect([...view.stage.marks.changes.keys()].map(item => item.key)).toEqual([add!.id]);
  });
});

describe('a widget', () => {
  it('asks for the whole document after a difference that cannot be read', async () => {
    const shown = threeOps();
    const sent: unknown[] = [];
    let received: (content: unknown, buffers?: unknown) => void = () => undefined;
    const traits: Record<string, unknown> = { doc: null, selection: [], height: 400, theme: 'light', not_live: '', no_model: '' };
    const model: IWidgetModel = {
      get: (name: string): never => traits[name] as never,
      set: () => undefined,
      save_changes: () => undefined,
      on: (event: string, callback: (...args: never[]) => void) => {
        if (event === 'msg:custom') {
          received = callback as never;
        }
      },
      off: () => undefined,
      send: (content: unknown) => sent.push(content)
    };
    const done = render({ model, el: document.body });
    const bytes = new TextEncoder().encode(JSON.stringify(shown));
    const head = { type: 'document', protocol: 2, revision: 1, index: 0, count: 1, encoding: 'json' };
    const settled = (): Promise<unknown> => new Promise(resolve => setTimeout(resolve, 20));
    received(head, [new DataView(bytes.slice().buffer)]);
    await settled();
    sent.length = 0;
    const node = { ...shown.nodes[0]!, attrs: { axis: 3 } };
    const wrong = { revision: 2, nodes: { removed: [], changed: [node], added: [] } };
    received({ type: 'difference', protocol: 2, since: 1, revision: 2, difference: wrong });
    await settled();
    expect(sent).toEqual([{ type: 'need_document', protocol: 2 }]);
    expect(rowsIn(document.body)).toBeGreaterThan(2);
    received({ ...head, revision: 2 }, [new DataView(bytes.slice().buffer)]);
    received({ type: 'difference', protocol: 2, since: 4, revision: 5, difference: { revision: 5 } });
    await settled();
    expect(sent).toEqual([{ type: 'need_document', protocol: 2 }, { type: 'need_since', protocol: 2, revision: 2 }]);
    done();
  });
});

function rowsIn(root: Element): number {
  return root.querySelectorAll('[role="treeitem"]').length;
}
