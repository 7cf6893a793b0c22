// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { GraphView } from '../src/core';
import { fromBase64 } from '../src/core/inflate';
import { applyDifference } from '../src/core/model/difference';
import { HeldDocument } from '../src/widget/held';
import { isDifference, type IDifference } from '../src/proto/difference';
import type { IGraphDocument } from '../src/proto/document';
import { Trail } from '../src/proto/shape';
import { parseDocument } from '../src/proto/parse';
import { large, threeOps, transformer } from './fixtures';
import golden from './golden/differences.json';
import { installPage } from './page';

interface IStep {
  difference: IDifference;
  document: IGraphDocument;
}
interface IChain {
  start: IGraphDocument;
  steps: IStep[];
}

const copy = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

/** What a view reads of a document: fields that may be missing are there. */
function read(value: IGraphDocument): IGraphDocument {
  const parsed = parseDocument(copy(value));
  return parsed.ok ? parsed.document : value;
}

async function chains(): Promise<IChain[]> {
  // jsdom's Blob has no stream
  const bytes = new Response(fromBase64(golden.data)).body!;
  const text = bytes.pipeThrough(new DecompressionStream('deflate'));
  return (await new Response(text).json()) as IChain[];
}

const views: GraphView[] = [];

beforeEach(installPage);

afterEach(() => {
  views.splice(0).forEach(view => view.dispose());
});

async function mount(shown: IGraphDocument): Promise<GraphView> {
  const view = new GraphView(document.body, { noProfile: null });
  view.stage.reducedMotion = true;
  views.push(view);
  view.setDocument(copy(shown));
  await view.layoutDone();
  return view;
}

/** What replaces the node `id` by what `change` makes of it. */
function changed(shown: IGraphDocument, id: string, attrs: Record<string, string>): IDifference {
  const node = shown.nodes.find(one => one.id === id)!;
  return { revision: 2, nodes: { removed: [], changed: [{ ...node, attrs }], added: [] } };
}

describe('a difference', () => {
  it('makes the document that Python has', async () => {
    let steps = 0;
    for (const chain of await chains()) {
      let held = chain.start;
      for (const { difference, document } of chain.steps) {
        expect(isDifference(difference, new Trail())).toBe(true);
        const before = copy(held);
        const next = applyDifference(held, difference)!;
        expect(next).toEqual(document);
        expect(held).toEqual(before);
        held = next;
        steps += 1;
      }
    }
    expect(steps).toBe(36);
  });

  it('makes it in a view as well, which draws all of it', async () => {
    for (const chain of await chains()) {
      const view = await mount(chain.start);
      for (const { difference, document } of chain.steps) {
        expect(view.setDifference(difference)).toBe(true);
        await view.layoutDone();
        expect(read(view.model.document)).toEqual(read(document));
        const drawn = view.model.nodes.filter(node => !node.isChip).map(node => view.scene!.ofNode[node.index]);
        expect(drawn.every(item => item !== null && item !== undefined)).toBe(true);
      }
    }
  });

  it('of another document changes nothing', async () => {
    const view = await mount(threeOps());
    const { document } = view.model;
    const strange: IDifference[] = [
      { revision: 2, nodes: { removed: ['n999'], changed: [], added: [] } },
      changed({ ...document, nodes: [{ ...document.nodes[0]!, id: 'n999' }] }, 'n999', {}),
      { revision: 2, nodes: { removed: [], changed: [], added: [{ before: 'n9', node: document.nodes[0]! }] } },
      { revision: 2, nodes: { removed: [], changed: [], added: [{ before: null, node: document.nodes[0]! }] } }
    ];
    for (const difference of strange) {
      expect(view.setDifference(difference)).toBe(false);
      expect(view.model.document).toBe(document);
    }
  });

  it('before any document is refused', () => {
    const view = new GraphView(document.body, { noProfile: null });
    views.push(view);
    expect(view.setDifference({ revision: 1 })).toBe(false);
  });
});

describe('a view that is revised', () => {
  it('keeps places, folds, selection and camera, and draws at once', async () => {
    const view = await mount(transformer(3));
    await view.setFold(new Set([...view.model.boxes.keys()]), null);
    await view.layoutDone();
    const { camera } = view.stage;
    camera.set(0.8, -120, -340);
    const id = view.model.nodes.find(node => node.node.op === 'softmax')!.node.id;
    const other = view.model.nodes.find(node => node.node.op === 'gelu')!.node.id;
    view.select([other]);
    await view.layoutDone();
    const where = (): Record<string, number[]> =>
      Object.fromEntries(view.scene!.items.map(({ key, x, y }) => [key, [x * camera.k + camera.tx, y * camera.k + camera.ty]]));
    const before = where();
    const folds = new Set(view.expanded);
    expect(view.setDifference(changed(view.model.document, id, { axis: '-2' }))).toBe(true);
    // not after a worker, or a frame
    expect(view.scene!.byKey.get(id)!.detail).toBe('axis=-2');
    const after = where();
    expect(Object.keys(after)).toEqual(Object.keys(before));
    for (const [key, place] of Object.entries(before)) {
      expect(after[key]![0]).toBeCloseTo(place[0]!, 1);
      expect(after[key]![1]).toBeCloseTo(place[1]!, 1);
    }
    expect(view.expanded).toEqual(folds);
    expect(view.selection).toEqual([other]);
    expect(view.stage.isMoving).toBe(false);
  });

  it('drops what is gone from the selection, and shows a new error once', async () => {
    const view = await mount(threeOps());
    const [first, , last] = view.model.document.nodes;
    view.select([first!.id, last!.id]);
    const error = { code: 'ML203', message: 'gelu: no', fix: null, node: last!.id };
    view.setDifference({ revision: 2, error });
    expect(view.selection).toEqual([last!.id]);
    view.clearSelection();
    view.setDifference(changed(view.model.document, first!.id, { a: 'b' }));
    expect(view.selection).toEqual([]);
    view.select([first!.id]);
    view.setDifference({ revision: 3, nodes: { removed: [first!.id], changed: [], added: [] } });
    expect(view.selection).toEqual([]);
  });

  it('is laid out anew while it is not drawn yet', async () => {
    const view = new GraphView(document.body, { noProfile: null });
    views.push(view);
    const shown = large(300);
    view.setDocument(copy(shown));
    view.setDifference(changed(view.model.document, shown.nodes[5]!.id, { axis: '9' }));
    await view.layoutDone();
    expect(view.scene!.items.length).toBeGreaterThan(250);
    expect(view.model.node(shown.nodes[5]!.id)!.node.attrs).toEqual({ axis: '9' });
  });
});

describe('the document that a page holds', () => {
  const start = threeOps();
  const [first] = start.nodes;
  const bytes = new TextEncoder().encode(JSON.stringify(start));
  const document_ = { type: 'document', protocol: 2, index: 0, count: 1, encoding: 'json' } as const;
  const message = (since: number, difference: IDifference) =>
    ({ type: 'difference', protocol: 2, since, revision: since + 1, difference }) as const;

  async function hold(revision: number): Promise<{ held: HeldDocument; view: GraphView; requests: unknown[] }> {
    const view = new GraphView(document.body, { noProfile: null });
    views.push(view);
    const requests: unknown[] = [];
    const held = new HeldDocument(view, {
      needDocument: () => requests.push('document'),
      needSince: since => requests.push(since),
      shown: () => undefined
    });
    held.add({ ...document_, revision }, bytes);
    await vi.waitFor(() => expect(view.model.document.nodes).toHaveLength(start.nodes.length));
    return { held, view, requests };
  }
  const axis = (view: GraphView): string | undefined => view.model.document.nodes[0]!.attrs.axis;
  const set = (value: string): IDifference => changed(start, first!.id, { axis: value });
  const settled = (): Promise<unknown> => new Promise(resolve => setTimeout(resolve));

  it('follows one difference after the other', async () => {
    const { held, view, requests } = await hold(4);
    held.revise(message(4, set('1')));
    held.revise(message(5, set('2')));
    await settled();
    expect(axis(view)).toBe('2');
    expect(requests).toEqual([]);
  });

  it('asks once for what it missed, and goes on from there', async () => {
    const { held, view, requests } = await hold(4);
    held.revise(message(6, set('3')));
    held.revise(message(7, set('4')));
    await settled();
    expect(axis(view)).toBeUndefined();
    expect(requests).toEqual([4]);
    for (const since of [4, 5, 6, 7]) {
      held.revise(message(since, set(String(since))));
    }
    await settled();
    expect(axis(view)).toBe('7');
    held.revise(message(5, set('old')));
    await settled();
    expect(axis(view)).toBe('7');
    expect(requests).toEqual([4]);
  });

  it('asks for the whole after a difference that does not fit, or cannot be read', async () => {
    const { held, view, requests } = await hold(4);
    held.revise(message(4, { revision: 9, nodes: { removed: ['n999'], changed: [], added: [] } }));
    held.revise(message(5, set('5')));
    await settled();
    expect(requests).toEqual(['document']);
    expect(view.model.document.nodes).toHaveLength(start.nodes.length);
    held.add({ ...document_, revision: 6 }, bytes);
    held.revise(message(6, set('6')));
    await settled();
    expect(axis(view)).toBe('6');
    held.lost();
    held.lost();
    await settled();
    expect(requests).toEqual(['document', 'document']);
    expect(axis(view)).toBe('6');
  });

  it('keeps the order while a document is still unpacked', async () => {
    const { held, view } = await hold(1);
    held.add({ ...document_, revision: 2 }, bytes);
    held.revise(message(2, set('late')));
    await settled();
    await settled();
    expect(axis(view)).toBe('late');
  });
});
