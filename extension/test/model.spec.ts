import { describe, expect, it } from 'vitest';

import { evaluate } from '../src/core/model/expr';
import { FAMILY_NAMES, type Family } from '../src/core/model/families';
import { collapseLevel, expandLevel, initialFold, MAX_VISIBLE } from '../src/core/model/fold';
import { formatMs, formatShare, formatTime } from '../src/core/model/format';
import { buildScene } from '../src/core/model/scene';
import { Rows } from '../src/core/query/finding';
import { search as ask, type IMatch } from '../src/core/query/search';
import { Timing } from '../src/core/model/timing';
import { edgesOf, neighbours } from '../src/core/model/trace';
import { makeTheme } from '../src/core/render/theme';
import { SPLIT_MODEL } from '../src/proto/document';
import { Builder, large, threeOps, transformer, withProfile } from './fixtures';
import { allBoxes, layOut, load } from './scene';

function sceneOf(model: ReturnType<typeof load>, expanded: Set<string>): ReturnType<typeof buildScene> {
  return buildScene(model, { expanded, chips: true });
}

describe('families', () => {
  it('are those of the document', () => {
    const b = new Builder('families');
    const x = b.input('x', [4]);
    b.op('matmul', [x], [4]);
    b.lastNode().op = 'a_name_of_the_user';
    const model = load(b.document);
    expect(model.nodes.map(node => node.family)).toEqual(['contract']);
  });

  it('are told by no name of an operation: documents without them are drawn as other', () => {
    const b = new Builder('old');
    const x = b.input('x', [4]);
    b.op('matmul', [x], [4]);
    delete b.lastNode().family;
    b.op('gelu', [x], [4]);
    b.lastNode().family = 'a family of later';
    b.op('exp', [x], [4]);
    b.lastNode().family = '__proto__';
    expect(load(b.document).nodes.map(node => node.family)).toEqual(['other', 'other', 'other']);
  });

  it('each have a name and a hue of their own, but for the quiet ones', () => {
    const families = Object.keys(FAMILY_NAMES) as Family[];
    const names = families.map(family => FAMILY_NAMES[family]);
    expect(new Set(names).size).toBe(names.length);
    const theme = makeTheme(false, null);
    const stripes = families.map(family => theme.family[family].stripe);
    expect(new Set(stripes).size).toBe(stripes.length - 1); // view and other
  });
});

describe('boxes', () => {
  it('folds six identical layers to one box', () => {
    const model = load(transformer(6));
    const run = [...model.boxes.values()].find(b => b.kind === 'run' && b.label === 'layers');
    expect(run?.children.map(c => c.label)).toEqual([0, 1, 2, 3, 4, 5].map(i => `layers.${i}`));
    expect(run?.path).toBe('encoder.layers');
    const item = sceneOf(model, new Set(['encoder'])).byKey.get(`box:${run?.key ?? ''}`);
    expect(item?.count).toBe(6);
  });

  it('does not fold what differs, nor what would make a cycle', () => {
    const b = new Builder('g');
    let x = b.input('x', [4]);
    for (let i = 0; i < 4; i += 1) {
      b.scope(`l.${i}`, `l.${i}`, 'L', i < 2 ? 'same' : `other${i}`);
      const y = b.op('mul', [x], [4], `l.${i}`);
      // A loose operation between the two identical boxes reads the first and feeds the second.
      x = b.op('add', [y], [4]);
    }
    b.output(x);
    const model = load(b.document);
    expect([...model.boxes.values()].filter(box => box.kind === 'run')).toEqual([]);
  });

  it('makes boxes for scopes that are not declared', () => {
    const b = new Builder('g');
    const x = b.input('x', [4]);
    b.output(b.op('relu', [x], [4], 'model.blocks.3.act'));
    const keys = [...load(b.document).boxes.keys()].filter(Boolean);
    expect(keys.sort()).toEqual(['model', 'model.blocks.3', 'model.blocks.3.act']);
  });

  it('shows the layers of an encoder as one folded box at first', () => {
    const model = load(transformer(6));
    const { items } = sceneOf(model, initialFold(model));
    const layers = items.filter(i => i.label.startsWith('layers'));
    expect(layers.map(i => [i.label, i.count, i.container])).toEqual([['layers', 6, null]]);
    expect(items.length).toBeLessThanOrEqual(MAX_VISIBLE);
  });

  it('opens small graphs completely and large ones within the limit', () => {
    const small = load(threeOps());
    expect(sceneOf(small, initialFold(small)).items).toHaveLength(5);
    const deep = load(transformer(60));
    expect(sceneOf(deep, initialFold(deep)).items.length).toBeLessThanOrEqual(MAX_VISIBLE);
  });

  it('folds and unfolds level by level, back to the same state', () => {
    const model = load(transformer(6));
    let open = new Set<string>();
    const sizes = [sceneOf(model, open).items.length];
    for (let i = 0; i < 8; i += 1) {
      open = expandLevel(model, open);
      sizes.push(sceneOf(model, open).items.length);
    }
    expect(sizes).toEqual([...sizes].sort((a, b) => a - b));
    expect(open.size).toBe(allBoxes(model).size);
    for (let i = 0; i < 8; i += 1) {
      open = collapseLevel(model, open);
    }
    expect(open.size).toBe(0);
  });
});

describe('scene', () => {
  it('draws weights on their users', () => {
    const { items } = sceneOf(load(threeOps()), new Set());
    expect(items.map(i => i.kind)).toEqual(['input', 'node', 'node', 'node', 'output']);
    expect(items[1]?.chips).toEqual(['scale f32[2048]']);
  });

  it('draws no box around constants alone: they are on their users', () => {
    const b = new Builder('g');
    const x = b.input('x', [4]);
    const { document } = b;
    const made = b.value([4], 'constant');
    document.nodes.push({
      id: 'c1', op: 'constant', name: 'constant', scope: 'weight', operands: [], results: [made],
      attrs: {}, source: null, error: null
    });
    b.scope('weight', 'weight', '', '');
    b.output(b.op('mul', [x, made], [4]));
    for (const open of [new Set<string>(), new Set(['weight'])]) {
      const { items } = sceneOf(load(document), open);
      expect(items.map(i => i.kind)).toEqual(['input', 'node', 'output']);
      expect(items[1]?.chips).toHaveLength(1);
    }
  });

  it('merges lifted edges and counts them', () => {
    const model = load(transformer(2));
    const scene = sceneOf(model, new Set());
    const edges = scene.root.container?.edges ?? [];
    const keys = edges.map(e => `${e.from?.key ?? ''}>${e.to?.key ?? ''}`);
    expect(new Set(keys).size).toBe(keys.length);
    const total = edges.reduce((sum, e) => sum + e.count, 0);
    expect(total).toBeGreaterThan(edges.length);
  });

  it('has an item for every operation in every fold state', () => {
    const model = load(transformer(3));
    for (const open of [new Set<string>(), initialFold(model), allBoxes(model)]) {
      const scene = sceneOf(model, open);
      for (const node of model.nodes) {
        expect(scene.ofNode[node.index] === null).toBe(node.isChip);
      }
    }
  });

  it('keeps keys through rebuilds', () => {
    const a = sceneOf(load(transformer(3)), new Set(['encoder']));
    const b = sceneOf(load(transformer(3)), new Set(['encoder']));
    expect([...a.byKey.keys()]).toEqual([...b.byKey.keys()]);
  });
});

describe('following edges', () => {
  const model = load(transformer(2));
  it('crosses the borders of unfolded boxes', () => {
    const { scene } = layOut(model, allBoxes(model));
    const norm = scene.items.filter(i => i.label === 'layer_norm')[1]!;
    const below = neighbours(model, scene, norm, 'down');
    expect(below.map(i => i.label).sort()).toEqual(['add', 'matmul']);
    expect(below.every(i => neighbours(model, scene, i, 'up').includes(norm))).toBe(true);
    const pieces = edgesOf(norm, 'down');
    expect(new Set(pieces.map(e => e.to).filter(i => i?.container === null))).toEqual(new Set(below));
  });

  it('leads from inputs to outputs', () => {
    const scene = sceneOf(model, new Set());
    const seen = new Set(scene.items.filter(i => i.kind === 'input'));
    for (const item of seen) {
      neighbours(model, scene, item, 'down').forEach(next => seen.add(next));
    }
    expect([...seen].some(i => i.kind === 'output')).toBe(true);
  });
});

describe('time', () => {
  const model = load(withProfile(transformer(6)));
  const timing = new Timing(model, model.document.profile);

  it('adds up to the kernels, at every level', () => {
    const sum = model.nodes.reduce((a, n) => a + timing.ofNode(n.index).ns, 0);
    expect(sum).toBeCloseTo(timing.totalNs, 0);
    expect(timing.ofBox(model.root).ns).toBeCloseTo(timing.totalNs, 0);
    expect(timing.ofBox(model.root).approx).toBe(false);
  });

  it('marks splits of shared kernels and nothing else', () => {
    for (const kernel of model.document.kernels) {
      for (const id of kernel.nodes) {
        const cost = timing.ofNode(model.node(id)!.index);
        expect(cost.approx).toBe(kernel.nodes.length > 1);
      }
    }
    const mlp = model.boxes.get('encoder.layers.0.mlp')!;
    const up = model.boxes.get('encoder.layers.0.mlp.up')!;
    // matmul + bias + gelu is one kernel: whole in the MLP, shared seen from its first Linear.
    expect(timing.ofBox(up).approx).toBe(true);
    expect(timing.ofBox(up).shared).toBe(1);
    expect(timing.ofBox(mlp).whole).toBeGreaterThan(0);
  });

  it('splits a kernel as its document says, and in equal parts where that says nothing', () => {
    const document = withProfile(transformer(6));
    const kernel = document.kernels.find(k => k.name === 'matmul_add_gelu')!;
    const timed = document.profile!.kernels.find(k => k.id === kernel.id)!;
    const split = () => {
      const read = load(document);
      const times = new Timing(read, read.document.profile);
      return { by: times.splitBy, ns: kernel.nodes.map(id => times.ofNode(read.node(id)!.index).ns) };
    };
    for (const ns of split().ns) {
      expect(ns).toBeCloseTo(timed.ns / kernel.nodes.length, 3);
    }
    expect(split().by).toMatch(/^equal parts/);
    timed.parts = kernel.nodes.map((_, i) => (i === 0 ? 1 : 0));
    expect(split()).toEqual({ by: SPLIT_MODEL, ns: kernel.nodes.map((_, i) => (i === 0 ? timed.ns : 0)) });
  });
});

const search = (model: ReturnType<typeof load>, query: string): IMatch[] =>
  ask(model, new Rows(model.document, null), query, false).matches;

describe('search', () => {
  const model = load(transformer(6));
  it('finds by operation, scope, weight and shape, all words at once', () => {
    expect(search(model, 'softmax')).toHaveLength(6);
    expect(search(model, 'gelu layers.3')).toHaveLength(1);
    expect(search(model, '1536').length).toBeGreaterThan(6);
    expect(search(model, 'embeddings.word')).toHaveLength(1);
    expect(search(model, 'nothing like this')).toEqual([]);
    expect(search(model, '   ')).toEqual([]);
  });

  it('finds all of many', () => {
    const big = load(large(10_000));
    const gelus = big.nodes.filter(({ node }) => node.op === 'gelu').length;
    expect(gelus).toBeGreaterThan(500);
    expect(search(big, 'gelu')).toHaveLength(gelus);
  });
});

describe('numbers', () => {
  it('evaluates sizes', () => {
    const dims = { batch: 8, seq: 64 };
    expect(evaluate('2*batch*seq*384*1536', dims)).toBe(2 * 8 * 64 * 384 * 1536);
    expect(evaluate('(seq + 31)//32 * 2**3 - -1', dims)).toBe(17);
    expect(evaluate('max(batch, seq) % 10', dims)).toBe(4);
    expect(evaluate(12, dims)).toBe(12);
    for (const bad of ['heads*2', '2*', 'alert(1)', '1/0', '__proto__', 'constructor', '']) {
      expect(evaluate(bad, dims)).toBeNull();
    }
  });

  it('formats times', () => {
    expect(formatTime(999)).toBe('999 ns');
    expect(formatTime(1_234_000)).toBe('1.23 ms');
    expect(formatMs(41_000)).toBe('0.041');
    expect([0, 0.0004, 0.014, 0.4].map(formatShare)).toEqual(['0%', '<0.1%', '1.4%', '40%']);
  });
});
