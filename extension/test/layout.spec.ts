import { describe, expect, it } from 'vitest';

import { layoutFlat, type IFlatGraph } from '../src/core/layout/flat';
import { Pin } from '../src/core/layout/rank';
import { turned } from '../src/core/model/flow';
import { End } from '../src/core/model/scene';
import { broken, large, threeOps, transformer, wide, withProfile } from './fixtures';
import { allBoxes, containers, layOut, load, type ILaidOut } from './scene';

/** Node's clock of CPU time; the tests need no more of its types. */
declare const process: { cpuUsage(start?: object): { user: number; system: number } };

const OPTIONS = { node: 26, edge: 14, layer: 20, stub: 24, deadline: Infinity, now: (): number => 0 };

function overlaps({ scene }: ILaidOut): string[] {
  const found: string[] = [];
  for (const { items } of containers(scene)) {
    const sorted = [...items].sort((a, b) => a.y - b.y);
    for (let i = 0; i < sorted.length; i += 1) {
      const a = sorted[i]!;
      for (let j = i + 1; j < sorted.length && sorted[j]!.y < a.y + a.h - 0.01; j += 1) {
        const b = sorted[j]!;
        if (a.x < b.x + b.w - 0.01 && b.x < a.x + a.w - 0.01) {
          found.push(`${a.key} and ${b.key}`);
        }
      }
    }
  }
  return found;
}

function escapes({ scene }: ILaidOut): string[] {
  return scene.items
    .filter(({ parent, x, y, w, h }) => {
      const p = parent!;
      const slack = 0.01;
      return (
        x < p.x - slack || y < p.y - slack || x + w > p.x + p.w + slack || y + h > p.y + p.h + slack
      );
    })
    .map(item => item.key);
}

function backward({ scene }: ILaidOut): string[] {
  const found: string[] = [];
  for (const container of containers(scene)) {
    for (const edge of container.edges) {
      if (edge.srcEnd === End.Child && edge.dstEnd === End.Child) {
        const from = turned(scene.direction, edge.from!);
        const to = turned(scene.direction, edge.to!);
        if (from.y + from.h > to.y + 0.01) {
          found.push(`${edge.from!.key} to ${edge.to!.key}`);
        }
      }
    }
  }
  return found;
}

/** Ends of edges lie on the items, or on the border, that they belong to. */
function looseEnds({ scene }: ILaidOut): string[] {
  const found: string[] = [];
  for (const container of containers(scene)) {
    const border = turned(scene.direction, container.item);
    for (const { points, from, to } of container.edges) {
      const n = points.length;
      const start = from === null ? null : turned(scene.direction, from);
      const top = start === null ? border.y : start.y + start.h;
      const bottom = to === null ? border.y + border.h : turned(scene.direction, to).y;
      if (n < 4 || Math.abs(points[1]! - top) > 0.05 || Math.abs(points[n - 1]! - bottom) > 0.05) {
        found.push(`${from?.key ?? 'border'} to ${to?.key ?? 'border'}`);
      }
    }
  }
  return found;
}

const GRAPHS = {
  'three ops': threeOps(),
  transformer: transformer(),
  'profiled transformer': withProfile(transformer()),
  broken: broken(),
  'deep network': large(1500),
  'parallel towers': wide(1500, 12)
};

const WAYS = Object.entries(GRAPHS).flatMap(([name, document]) =>
  (['down', 'right'] as const).map(direction => [name, direction, document] as const)
);

describe.each(WAYS)('layout of %s that runs %s', (_, direction, document) => {
  const model = load(document);
  describe.each([
    ['as first shown', undefined],
    ['unfolded', allBoxes(model)],
    ['folded', new Set<string>()]
  ])('%s', (__, expanded) => {
    const made = layOut(model, expanded, new Map(), direction);
    it('has no overlapping items', () => expect(overlaps(made)).toEqual([]));
    it('keeps children inside their box', () => expect(escapes(made)).toEqual([]));
    it('runs forward only', () => expect(backward(made)).toEqual([]));
    it('ends edges where they belong', () => expect(looseEnds(made)).toEqual([]));
  });
});

describe('hierarchical layout', () => {
  it('lays out identical layers once', () => {
    const model = load(transformer(6));
    const { cache, results } = layOut(model, allBoxes(model));
    expect(results.length).toBeGreaterThan(40);
    expect(cache.size).toBeLessThan(results.length / 2);
  });

  it('keeps what a fold did not touch', () => {
    const model = load(transformer(6));
    const all = allBoxes(model);
    const before = layOut(model, all);
    const size = before.cache.size;
    const fewer = new Set(all);
    fewer.delete('encoder.layers.5.mlp');
    layOut(model, fewer, before.cache);
    // Only the layer, its run, the encoder and the top level contain the folded box.
    expect(before.cache.size - size).toBeLessThanOrEqual(4);
  });

  it('is deterministic', () => {
    const model = load(wide(800, 9));
    const a = layOut(model);
    const b = layOut(model);
    expect(a.scene.items.map(i => [i.x, i.y])).toEqual(b.scene.items.map(i => [i.x, i.y]));
  });
});

function flat(n: number, edges: readonly (readonly [number, number])[], pins: number[] = []): IFlatGraph {
  const zero = new Float64Array(edges.length);
  return {
    w: new Array<number>(n).fill(100),
    h: new Array<number>(n).fill(30),
    pin: Array.from({ length: n }, (_, i) => pins[i] ?? Pin.None),
    src: edges.map(e => e[0]),
    dst: edges.map(e => e[1]),
    srcOff: zero,
    dstOff: zero
  };
}

describe('flat layout', () => {
  it('draws a chain as one straight line', () => {
    const { x } = layoutFlat(flat(5, [[0, 1], [1, 2], [2, 3], [3, 4]]), OPTIONS);
    expect(new Set(Array.from(x)).size).toBe(1);
  });

  it('centres a fork over its branches', () => {
    const { x } = layoutFlat(flat(5, [[0, 1], [0, 2], [0, 3], [1, 4], [2, 4], [3, 4]]), OPTIONS);
    const [left, mid, right] = [x[1]!, x[2]!, x[3]!].sort((a, b) => a - b) as [number, number, number];
    expect(x[0]).toBeCloseTo(mid);
    expect(x[4]).toBeCloseTo(mid);
    expect(mid - left).toBeCloseTo(right - mid);
  });

  it('keeps the main line straight beside a skip connection', () => {
    const { x, paths } = layoutFlat(
      flat(6, [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [0, 4]]),
      OPTIONS
    );
    for (let i = 1; i < 6; i += 1) {
      expect(x[i]).toBeCloseTo(x[0]!);
    }
    const skip = paths[5]!;
    const away = Math.max(...Array.from(skip).filter((_, i) => i % 2 === 0).map(v => Math.abs(v - x[0]! - 50)));
    expect(away).toBeGreaterThan(50);
  });

  it('removes avoidable crossings', () => {
    const { crossings } = layoutFlat(
      flat(8, [[0, 7], [1, 6], [2, 5], [3, 4]]),
      OPTIONS
    );
    expect(crossings).toBe(0);
  });

  it('survives cycles, repeated edges, loose nodes and nothing at all', () => {
    expect(layoutFlat(flat(0, []), OPTIONS).width).toBe(0);
    const { x, paths } = layoutFlat(flat(5, [[0, 1], [1, 2], [2, 0], [0, 1]]), OPTIONS);
    expect(Array.from(x).every(Number.isFinite)).toBe(true);
    expect(paths.every(p => p.length >= 4 && p.every(Number.isFinite))).toBe(true);
  });

  it('puts ports first and last', () => {
    const { layer } = layoutFlat(
      flat(5, [[3, 0], [0, 1], [1, 2], [0, 4]], [0, 0, 0, Pin.First, Pin.Last]),
      OPTIONS
    );
    expect(layer[3]).toBe(0);
    expect(layer[4]).toBe(Math.max(...Array.from(layer)));
    expect(Math.min(layer[0]!, layer[1]!, layer[2]!)).toBeGreaterThan(0);
  });

  it('keeps random graphs free of overlap', () => {
    let seed = 11;
    const random = (n: number): number => {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      return seed % n;
    };
    for (let round = 0; round < 60; round += 1) {
      const n = 2 + random(40);
      const edges = Array.from({ length: random(70) }, (): [number, number] => {
        const a = random(n);
        const b = random(n);
        return a === b ? [0, n - 1] : [a, b];
      });
      const graph = flat(n, edges);
      const { x, y, layer, height } = layoutFlat(graph, OPTIONS);
      for (let i = 0; i < n; i += 1) {
        expect(y[i]! + 30).toBeLessThanOrEqual(height + 0.01);
        for (let j = 0; j < i; j += 1) {
          const apart = layer[i] !== layer[j] || Math.abs(x[i]! - x[j]!) >= 100;
          expect(apart, `round ${round}: ${i} and ${j}`).toBe(true);
        }
      }
    }
  });
});

describe('ten thousand operations', () => {
  it.each([
    ['deep', large(10_000)],
    ['wide', wide(10_000)]
  ])('are laid out, and not again while nothing changes (%s)', (name, document) => {
    const model = load(document);
    const start = process.cpuUsage();
    const { scene, results, cache } = layOut(model);
    const { user, system } = process.cpuUsage(start);
    // Only printed: a time says as much of the machine as of the layout.
    console.log(`${name}: scene and layout in ${((user + system) / 1000).toFixed(0)} ms of CPU`);
    expect(scene.items.length).toBeGreaterThan(10_000);
    const again = layOut(model, undefined, cache);
    expect(again.cache.size).toBe(results.length);
    expect(again.results).toEqual(results);
  });
});
