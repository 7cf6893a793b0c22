// @vitest-environment jsdom
/** Numbers of the user's own: on items, in the legend, and in the choice of colours. */

import { describe, expect, it, vi } from 'vitest';

import { numbersOf, numberText } from '../src/core/model/numbers';
import { Colouring } from '../src/core/view/colouring';
import type { IGraphDocument, IOverlay } from '../src/proto/document';
import { transformer, withProfile } from './fixtures';
import { allBoxes, layOut, load } from './scene';

const overlay = (more: Partial<IOverlay> = {}): IOverlay => ({
  title: 'error',
  unit: 'ulp',
  values: {},
  scopes: {},
  low: 0,
  high: 4,
  colors: 'sequential',
  combine: 'sum',
  ...more
});

describe('numbers on a graph', () => {
  const document = transformer(2);
  const model = load(document);
  const inner = model.nodes.filter(({ node, isChip }) => !isChip && node.scope.includes('layers.0'));
  const values = Object.fromEntries(inner.slice(0, 2).map(({ node }, i) => [node.id, i + 1]));

  it('stand on their operations, and nowhere else', () => {
    const { scene } = layOut(model, allBoxes(model));
    const found = numbersOf(model, scene, overlay({ values }));
    const leaves = [...found].filter(([item]) => item.node !== null);
    expect(leaves.map(([, { t, text }]) => [t, text])).toEqual([
      [0.25, '1 ulp'],
      [0.5, '2 ulp']
    ]);
  });

  it.each([
    ['sum', 'Σ 3 ulp', 0.75],
    ['max', 'max 2 ulp', 0.5]
  ] as const)('of a folded box are their %s', (combine, text, t) => {
    const { scene } = layOut(model, new Set());
    const boxes = [...numbersOf(model, scene, overlay({ values, combine })).values()];
    expect(boxes).toEqual([expect.objectContaining({ text, t })]);
  });

  it('of a folded box are those of its scope, where that has one', () => {
    const { scene } = layOut(model, new Set());
    const [box] = scene.items.filter(item => item.box !== null);
    const scopes = { [box!.box!.path]: 4 };
    const found = numbersOf(model, scene, overlay({ values, scopes }));
    expect(found.get(box!)).toMatchObject({ text: '4 ulp', t: 1 });
  });

  it('are short', () => {
    expect([0, 0.00012345, 12.3456, -1234567].map(value => numberText(value, ''))).toEqual([
      '0',
      '1.23e−4',
      '12.3',
      '−1.23e+6'
    ]);
  });
});

describe('what a graph is coloured by', () => {
  const plain = transformer(2);
  const timed = withProfile(transformer(2));
  const dressed = (document: IGraphDocument, ...overlays: IOverlay[]): IGraphDocument => ({ ...document, overlays });

  it('is time, unless there are overlays: then the newest', () => {
    const colouring = new Colouring(vi.fn());
    expect(colouring.follow(plain)).toBe(false);
    expect(colouring.canHeat).toBe(false);
    expect(colouring.follow(timed)).toBe(true);
    expect([colouring.title, colouring.chooser]).toEqual(['kernel time', null]);
    expect(colouring.follow(dressed(timed, overlay()))).toBe(true);
    expect(colouring.title).toBe('error');
    expect(colouring.chooser).not.toBeNull();
  });

  it('stays over a document that has it still, and goes with it', () => {
    const changed = vi.fn();
    const colouring = new Colouring(changed);
    colouring.follow(dressed(timed, overlay({ title: 'a' }), overlay({ title: 'b' })));
    colouring.next();
    expect([colouring.title, changed.mock.calls.length]).toEqual(['kernel time', 1]);
    colouring.next();
    expect(colouring.title).toBe('a');
    expect(colouring.follow(dressed(timed, overlay({ title: 'a' }), overlay({ title: 'b' })))).toBe(false);
    expect(colouring.title).toBe('a');
    expect(colouring.follow(dressed(timed, overlay({ title: 'b' })))).toBe(false);
    expect(colouring.title).toBe('kernel time');
    colouring.follow(dressed(timed, overlay({ title: 'b', high: 9 })));
    expect(colouring.title).toBe('b');
  });
});
