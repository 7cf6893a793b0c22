import { describe, expect, it } from 'vitest';

import { applyLayout, makeRequest } from '../src/core/layout/apply';
import { layoutHierarchy } from '../src/core/layout/hierarchy';
import { keptColumns, type IRoom } from '../src/core/layout/wrap';
import { turned, type Direction } from '../src/core/model/flow';
import { initialFold } from '../src/core/model/fold';
import { roughMeasure } from '../src/core/model/metrics';
import { buildScene, type IScene } from '../src/core/model/scene';
import { headerWidth } from '../src/core/render/labels';
import { large, threeOps } from './fixtures';
import { load } from './scene';

function wrapped(document: ReturnType<typeof threeOps>, direction: Direction, room: IRoom): IScene {
  const model = load(document);
  const scene = buildScene(model, { expanded: initialFold(model), chips: true, direction });
  const request = makeRequest(scene, item => headerWidth(item, roughMeasure), 5000, room);
  applyLayout(scene, layoutHierarchy(request, new Map(), () => 0));
  return scene;
}

describe.each(['down', 'right'] as const)('a long chain that runs %s', direction => {
  const room = { w: 1000, h: 500 };
  const scene = wrapped(large(600), direction, room);
  const container = scene.root.container!;
  const of = container.columns!.of;
  const rects = container.items.map(item => turned(direction, item));

  it('is broken into lines that follow each other across the flow', () => {
    expect(Math.max(...of)).toBeGreaterThan(1);
    const spans = new Map<number, [number, number]>();
    rects.forEach(({ x, w }, i) => {
      const [from, to] = spans.get(of[i]!) ?? [Infinity, -Infinity];
      spans.set(of[i]!, [Math.min(from, x), Math.max(to, x + w)]);
    });
    const lines = [...spans].sort((a, b) => a[0] - b[0]).map(([, span]) => span);
    lines.slice(1).forEach(([from], i) => expect(from).toBeGreaterThanOrEqual(lines[i]![1]));
  });

  it('fills the window better than one line would', () => {
    const { w, h } = scene.root;
    expect(Math.min(room.w / w, room.h / h)).toBeGreaterThan(0.02);
    expect(w / h).toBeGreaterThan(0.4);
    expect(w / h).toBeLessThan(10);
  });

  it('leads edges around the ends of lines, and forward inside of them', () => {
    const places = new Map(container.items.map((item, i) => [item, i]));
    for (const { from, to, isAround } of container.edges) {
      const [a, b] = [places.get(from!)!, places.get(to!)!];
      expect(isAround).toBe(of[a] !== of[b]);
      expect(of[a]!).toBeLessThanOrEqual(of[b]!);
      if (!isAround) {
        expect(rects[a]!.y + rects[a]!.h).toBeLessThanOrEqual(rects[b]!.y + 0.01);
      }
    }
  });

  it('stays whole where it has room', () => {
    const small = wrapped(threeOps(), direction, { w: 2000, h: 2000 });
    expect(small.root.container!.columns).toBeNull();
  });
});

describe('the columns of an earlier layout', () => {
  it('are kept, and what is new joins the column before it', () => {
    const layer = Int32Array.from([0, 1, 2, 3]);
    const kept = keptColumns(layer, 4, Int32Array.from([0, -1, 1, 1]), null);
    expect([...kept.of]).toEqual([0, 0, 1, 1]);
  });

  it('close up where a column is gone', () => {
    const layer = Int32Array.from([0, 1, 2]);
    const kept = keptColumns(layer, 3, Int32Array.from([0, 2, 3]), null);
    expect([...kept.of]).toEqual([0, 1, 2]);
  });
});
