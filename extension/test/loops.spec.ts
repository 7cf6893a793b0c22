import { describe, expect, it } from 'vitest';

import { initialFold } from '../src/core/model/fold';
import { scopeText } from '../src/core/model/format';
import { Timing } from '../src/core/model/timing';
import { neighbours } from '../src/core/model/trace';
import type { IEdge } from '../src/core/model/scene';
import { Builder } from './fixtures';
import { containers, layOut, load, type ILaidOut } from './scene';

const LOOP = 'n9:while';
const COND = 'n8:cond';

/** `while i < n: i += 1`, in which the second carried value is made by a branch. */
function looped(): Builder {
  const b = new Builder('loop');
  const x = b.input('x', [4]);
  const count = b.input('n', [], 'int64');
  for (const [path, label] of [
    [LOOP, 'while n9'],
    [`${LOOP}.predicate`, 'predicate'],
    [`${LOOP}.body`, 'body'],
    [`${LOOP}.body.${COND}`, 'cond n8'],
    [`${LOOP}.body.${COND}.then`, 'then']
  ] as const) {
    b.scope(path, label, '', '');
  }
  const carried = b.op('while', [x, count], [4], LOOP);
  const loop = b.document.nodes[b.document.nodes.length - 1]!;
  const flag = b.op('greater', [count, carried], [], `${LOOP}.predicate`);
  const mul = b.op('mul', [carried, x], [4], `${LOOP}.body`);
  const then = b.op('exp', [mul], [4], `${LOOP}.body.${COND}.then`);
  const chosen = b.op('cond', [flag], [4], `${LOOP}.body.${COND}`);
  const cond = b.document.nodes[b.document.nodes.length - 1]!;
  cond.gives = [[then], [carried]];
  loop.gives = [[flag], [chosen]];
  b.output(b.op('tanh', [carried], [4]));
  return b;
}

function turns({ scene }: ILaidOut): IEdge[] {
  return containers(scene).flatMap(container => container.edges.filter(edge => edge.isTurn));
}

describe('loops', () => {
  it('come back from their parts to the operation that stands for what is carried', () => {
    const laid = layOut(load(looped().document));
    const ends = turns(laid).map(edge => [edge.from?.label, edge.to?.label]);
    expect(ends.sort()).toEqual([
      ['body', 'while'],
      ['predicate', 'while']
    ]);
  });

  it('go round at the side, from below what was computed to the start of the turn', () => {
    const laid = layOut(load(looped().document));
    for (const { points, from, to } of turns(laid)) {
      const box = to!.parent!;
      const n = points.length;
      expect(points[1]).toBeCloseTo(from!.y + from!.h, 1);
      expect(points[n - 1]).toBeCloseTo(to!.y, 1);
      expect(points[n - 2]).toBeGreaterThan(to!.x);
      expect(points[n - 2]).toBeLessThan(to!.x + to!.w);
      for (let i = 0; i < n; i += 2) {
        expect(points[i]).toBeGreaterThanOrEqual(box.x);
        expect(points[i]).toBeLessThanOrEqual(box.x + box.w);
        expect(points[i + 1]).toBeGreaterThanOrEqual(box.y);
        expect(points[i + 1]).toBeLessThanOrEqual(box.y + box.h);
      }
      // The line up is right of everything in the box.
      const lane = points[4]!;
      for (const item of box.container!.items) {
        expect(item.x + item.w).toBeLessThan(lane);
      }
    }
  });

  it('keep the start of a turn above its parts, and nothing overlaps', () => {
    const { scene } = layOut(load(looped().document));
    const box = scene.byKey.get(`box:${LOOP}`)!;
    const [start, ...parts] = box.container!.items;
    expect(start?.label).toBe('while');
    for (const part of parts) {
      expect(part.y).toBeGreaterThan(start!.y + start!.h);
    }
  });

  it('draw no way back while they are folded', () => {
    const model = load(looped().document);
    expect(turns(layOut(model, new Set()))).toEqual([]);
    expect(turns(layOut(model, new Set([LOOP]))).length).toBe(2);
  });

  it('open with all of their parts in a small graph', () => {
    expect([...initialFold(load(looped().document))]).toEqual(
      expect.arrayContaining([LOOP, `${LOOP}.predicate`, `${LOOP}.body`])
    );
  });

  it('lead from the body to the start when edges are followed', () => {
    const model = load(looped().document);
    const { scene } = layOut(model);
    const loop = scene.items.find(item => item.node?.node.op === 'while')!;
    const above = neighbours(model, scene, loop, 'up').map(item => item.label);
    expect(above).toEqual(expect.arrayContaining(['x', 'n', 'greater', 'cond n8']));
  });
});

describe('scopes of parts', () => {
  it.each([
    ['n38:while', 'while n38'],
    ['encoder.n38:while.body.n4_1:cond.then', 'encoder.while n38.body.cond n4_1.then'],
    ['encoder.layers.0', 'encoder.layers.0'],
    ['', '']
  ])('%s in words', (path, words) => {
    expect(scopeText(path)).toBe(words);
  });
});

describe('branches', () => {
  it('end in the operation that has their results', () => {
    const model = load(looped().document);
    const { scene } = layOut(model, new Set([LOOP, `${LOOP}.body`, `${LOOP}.body.${COND}`]));
    const cond = scene.items.find(item => item.node?.node.op === 'cond')!;
    const above = neighbours(model, scene, cond, 'up').map(item => item.label);
    expect(above.sort()).toEqual(['predicate', 'then', 'while']);
    const then = scene.byKey.get(`box:${LOOP}.body.${COND}.then`)!;
    expect(then.y).toBeLessThan(cond.y);
  });
});

describe('steps that say where a run goes on', () => {
  it('are in no list of kernels, unless they took time', () => {
    const { document } = looped();
    const kernel = { symbol: '', source: null, lines: [], flops: null, bytes: null, parallel: null };
    document.kernels = ['map', 'branch', 'jump'].map((kind, i) => ({
      ...kernel,
      id: `k${i}`,
      name: kind,
      kind,
      nodes: [document.nodes[i]!.id]
    }));
    const timed = (ns: number[]): string[] => {
      const kernels = ns.map((t, i) => ({
        id: `k${i}`,
        ns: t,
        ns_min: t,
        count: 3,
        flops: null,
        bytes: null,
        nodes: [document.nodes[i]!.id]
      }));
      const profile = { device: 'cpu', runs: 1, threads: 1, dims: {}, wall_ns: 1, kernels };
      return new Timing(load(document), profile).kernels.map(k => k.id);
    };
    expect(timed([0, 0, 0])).toEqual(['k0']);
    expect(timed([5, 9, 0])).toEqual(['k1', 'k0']);
  });
});
