import { describe, expect, it } from 'vitest';

import { GraphModel } from '../src/core/model/graph';
import { parseDocument } from '../src/proto/parse';
import { broken, threeOps, transformer, withProfile } from './fixtures';
import { layOut } from './scene';

function problems(change: (doc: Record<string, unknown>) => void): string[] {
  const doc = JSON.parse(JSON.stringify(threeOps())) as Record<string, unknown>;
  change(doc);
  const result = parseDocument(doc);
  return result.ok ? [] : result.problems;
}

describe('documents', () => {
  it.each([threeOps(), transformer(), withProfile(transformer(2)), broken()])('accepts $name', doc => {
    const result = parseDocument(JSON.parse(JSON.stringify(doc)));
    expect(result).toMatchObject({ ok: true, warnings: [] });
  });

  it('accepts JSON text, and says what is missing', () => {
    expect(parseDocument(JSON.stringify(threeOps())).ok).toBe(true);
    const result = parseDocument('{"format": "maxlab.graph", "version": 1, "nodes": []}');
    expect(!result.ok && result.problems.slice(0, 2)).toEqual([
      'name: it is missing',
      'revision: it is missing'
    ]);
  });

  it('accepts fields of later versions', () => {
    expect(problems(d => (d.weather = 'fine'))).toEqual([]);
    expect(problems(d => ((d.nodes as Record<string, unknown>[])[0]!.color = 3))).toEqual([]);
  });

  it.each([
    [null, 'expected a graph document, got null'],
    [[], 'expected a graph document, got a list'],
    ['{', 'not JSON'],
    [{}, 'expected format "maxlab.graph", got nothing'],
    [{ format: 'maxlab.graph', version: 2 }, 'this view reads version 1 of the document, got 2']
  ])('explains what is wrong with %j', (input, text) => {
    const result = parseDocument(input);
    expect(result.ok).toBe(false);
    expect(!result.ok && result.problems[0]).toContain(text);
  });

  it('says where', () => {
    expect(problems(d => ((d.nodes as { op: unknown }[])[1]!.op = 7))).toEqual([
      'nodes[1].op: expected text, got 7'
    ]);
    expect(problems(d => (d.values = 'none'))).toEqual([
      'values: expected a list, got text "none"'
    ]);
    const twice = problems(d => {
      const nodes = d.nodes as { id: string }[];
      nodes[1]!.id = nodes[0]!.id;
    });
    expect(twice[0]).toContain('used twice');
    const past = withProfile(threeOps());
    past.profile!.kernels[0]!.ns = -1;
    expect(parseDocument(past)).toMatchObject({
      problems: ['profile.kernels[0]: a time is not negative, got -1']
    });
  });

  it.each(['cuda', 'python', undefined, 'fortran'])('knows the language %s of a kernel, or none', word => {
    const doc = JSON.parse(JSON.stringify(withProfile(threeOps()))) as Record<string, unknown>;
    (doc.kernels as { language?: unknown }[])[0]!.language = word;
    const result = parseDocument(doc);
    const found = result.ok ? result.document.kernels[0]!.language : result.problems[0];
    const refused = 'kernels[0].language: expected "c" or "cuda" or "python", got text "fortran"';
    expect(found).toBe(word === 'fortran' ? refused : word);
  });

  it('counts problems beyond the first twenty', () => {
    const list = problems(d => (d.nodes = new Array<unknown>(50).fill(3)));
    expect(list).toHaveLength(21);
    expect(list[20]).toMatch(/^and \d+ more$/);
  });

  it('draws values that are used but not listed', () => {
    const doc = threeOps();
    doc.values = [];
    const result = parseDocument(JSON.parse(JSON.stringify(doc)));
    expect(result.ok && result.warnings.length).toBeGreaterThan(0);
    if (result.ok) {
      expect(layOut(new GraphModel(result.document)).scene.items.length).toBeGreaterThan(3);
    }
  });

  it('never throws on damaged documents', () => {
    const text = JSON.stringify(withProfile(transformer(1)));
    let seed = 5;
    const random = (n: number): number => {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      return seed % n;
    };
    const junk = [null, -1, 'x', [], {}, true, 1e300];
    for (let round = 0; round < 150; round += 1) {
      const doc = JSON.parse(text) as Record<string, unknown>;
      let at: Record<string, unknown> = doc;
      for (let depth = 0; depth < 5; depth += 1) {
        const keys = Object.keys(at);
        const key = keys[random(Math.max(1, keys.length))];
        if (key === undefined) {
          break;
        }
        const next = at[key];
        if (typeof next !== 'object' || next === null || random(3) === 0) {
          at[key] = junk[random(junk.length)];
          break;
        }
        at = next as Record<string, unknown>;
      }
      const result = parseDocument(doc);
      if (result.ok) {
        layOut(new GraphModel(result.document));
      }
    }
  });
});
