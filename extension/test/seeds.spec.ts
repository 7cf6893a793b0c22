import { describe, expect, it } from 'vitest';

import { applyLayout, makeRequest } from '../src/core/layout/apply';
import { layoutHierarchy } from '../src/core/layout/hierarchy';
import { seedsOf } from '../src/core/layout/seeds';
import { roughMeasure } from '../src/core/model/metrics';
import { buildScene, type IItem } from '../src/core/model/scene';
import { headerWidth } from '../src/core/render/labels';
import type { IGraphDocument, INode, IValue } from '../src/proto/document';
import { large, transformer, wide } from './fixtures';
import { allBoxes, containers, layOut, load, type ILaidOut } from './scene';

/** The layout of `document`, seeded with `before`. */
function revise(before: ILaidOut, document: IGraphDocument, isOpen: boolean): ILaidOut {
  const model = load(document);
  const expanded = isOpen ? allBoxes(model) : new Set<string>();
  const scene = buildScene(model, { expanded, chips: true, direction: before.scene.direction });
  const seeds = seedsOf(before, { scene, model });
  expect(seeds).not.toBeNull();
  const request = makeRequest(scene, item => headerWidth(item, roughMeasure), 5000);
  const results = layoutHierarchy(request, new Map(), () => 0, seeds ?? []);
  applyLayout(scene, results);
  return { ...before, model, scene, results };
}

const copy = (document: IGraphDocument): IGraphDocument =>
  JSON.parse(JSON.stringify(document)) as IGraphDocument;

const EDITS: Record<string, (document: IGraphDocument, at: number) => void> = {
  'an attribute': (document, at) => {
    const node = document.nodes[at] as INode;
    node.attrs = { ...node.attrs, axis: '1' };
  },
  'an op between two': (document, at) => {
    const node = document.nodes[at] as INode;
    const [value] = node.results as [string];
    const old = document.values.find(v => v.id === value) as IValue;
    document.values.push({ ...old, id: 'vnew' });
    for (const other of document.nodes) {
      other.operands = other.operands.map(id => (id === value ? 'vnew' : id));
    }
    const added = { ...node, id: 'nnew', op: 'relu', operands: [value], results: ['vnew'], attrs: {} };
    document.nodes.splice(at + 1, 0, added);
  },
  'an op beside': (document, at) => {
    const node = document.nodes[at] as INode;
    const [value] = node.results as [string];
    const old = document.values.find(v => v.id === value) as IValue;
    document.values.push({ ...old, id: 'vnew' });
    document.nodes.push({ ...node, id: 'nnew', op: 'relu', operands: [value], results: ['vnew'] });
  },
  'an op less': (document, at) => {
    const [node] = document.nodes.splice(at, 1) as [INode];
    const [value] = node.results as [string];
    for (const other of document.nodes) {
      other.operands = other.operands.map(id => (id === value ? (node.operands[0] as string) : id));
    }
    document.values = document.values.filter(v => v.id !== value);
    document.outputs = document.outputs.map(id => (id === value ? (node.operands[0] as string) : id));
  },
  'another output': (document, at) => {
    document.outputs = [(document.nodes[at] as INode).results[0] as string];
  }
};

function overlaps({ scene }: ILaidOut): string[] {
  return containers(scene).flatMap(({ items }) => {
    const sorted = [...items].sort((a, b) => a.y - b.y);
    return sorted.flatMap((a, i) =>
      sorted
        .slice(i + 1)
        .filter(b => b.y < a.y + a.h - 0.01 && a.x < b.x + b.w - 0.01 && b.x < a.x + a.w - 0.01)
        .map(b => `${a.key} and ${b.key}`)
    );
  });
}

/** How far each of the items that stayed went, against the one that stands first. */
function moves(before: ILaidOut, after: ILaidOut): { item: IItem; dx: number; dy: number }[] {
  const kept = before.scene.items
    .filter(item => item.container === null)
    .map(item => ({ old: item, item: after.scene.byKey.get(item.key) }))
    .flatMap(({ old, item }) => (item === undefined ? [] : [{ old, item }]));
  const middle = ({ x, w }: IItem): number => x + w / 2;
  const [first] = kept;
  const dx = first === undefined ? 0 : middle(first.item) - middle(first.old);
  return kept.map(({ old, item }) => ({
    item,
    dx: middle(item) - middle(old) - dx,
    dy: item.y + item.h / 2 - old.y - old.h / 2
  }));
}

const GRAPHS: Record<string, { document: IGraphDocument; isOpen: boolean }> = {
  'a thousand ops': { document: large(1000), isOpen: true },
  'forty lanes': { document: wide(600), isOpen: true }
};

describe('a graph that changed a little', () => {
  for (const [name, { document, isOpen }] of Object.entries(GRAPHS)) {
    const before = layOut(load(document), isOpen ? allBoxes(load(document)) : new Set());
    it(`${name}: stays where it is when nothing changed`, () => {
      const after = revise(before, document, isOpen);
      expect(moves(before, after).filter(m => Math.abs(m.dx) + Math.abs(m.dy) > 0.1)).toEqual([]);
      expect(after.scene.root.h).toBeCloseTo(before.scene.root.h, 1);
    });

    for (const [kind, edit] of Object.entries(EDITS)) {
      for (const part of [0.1, 0.5, 0.97]) {
        it(`${name}: ${kind} at ${part}`, () => {
          const changed = copy(document);
          const at = Math.floor(changed.nodes.length * part);
          edit(changed, at);
          const after = revise(before, changed, isOpen);
          expect(overlaps(after)).toEqual([]);
          const found = moves(before, after);
          expect(found.length).toBeGreaterThan(500);
          const aside = found.filter(m => Math.abs(m.dx) > 0.6);
          expect(aside.map(m => m.item.key).length).toBeLessThan(8);
          // What stands above does not move at all, and all below by one and the same distance.
          const node = before.scene.byKey.get((document.nodes[at] as INode).id);
          const above = found.filter(m => m.item.y + m.item.h < (node?.y ?? 0) - 300);
          expect(above.filter(m => Math.abs(m.dy) > 0.1)).toEqual([]);
        });
      }
    }
  }

  it('stays where it is when it runs to the right', () => {
    const document = wide(600);
    const before = layOut(load(document), allBoxes(load(document)), new Map(), 'right');
    const same = moves(before, revise(before, document, true));
    expect(same.filter(m => Math.abs(m.dx) + Math.abs(m.dy) > 0.1)).toEqual([]);
    const changed = copy(document);
    EDITS['an op between two']!(changed, Math.floor(changed.nodes.length / 2));
    const after = revise(before, changed, true);
    expect(overlaps(after)).toEqual([]);
    expect(moves(before, after).filter(m => Math.abs(m.dy) > 0.6).length).toBeLessThan(8);
  });

  it('keeps what is inside of unfolded boxes', () => {
    const document = transformer(4);
    const before = layOut(load(document), allBoxes(load(document)));
    const changed = copy(document);
    const place = changed.nodes.findIndex(node => node.scope === 'encoder.layers.2.attention' || node.op === 'softmax');
    EDITS['an op between two']?.(changed, place);
    const after = revise(before, changed, true);
    expect(overlaps(after)).toEqual([]);
    const aside = moves(before, after).filter(m => Math.abs(m.dx) > 60);
    expect(aside.map(m => m.item.key)).toEqual([]);
  });

  it('is laid out anew when little of it is left', () => {
    const document = large(200);
    const before = layOut(load(document), new Set());
    const model = load(transformer(2));
    const scene = buildScene(model, { expanded: new Set(), chips: true });
    expect(seedsOf(before, { scene, model })).toBeNull();
  });
});
