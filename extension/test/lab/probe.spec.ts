import { describe, expect, it } from 'vitest';

import { decodeAnswer, listGraphs, ProbeError, showInView } from '../../src/lab/probe';
import { answering, reprOf } from './fake-kernel';

describe('decodeAnswer', () => {
  it('reads the repr of base64 text', () => {
    expect(decodeAnswer(reprOf('größe [1]'))).toBe('größe [1]');
    expect(decodeAnswer(reprOf(''))).toBe('');
  });

  it('passes on what Python raised', () => {
    const raised = { status: 'error', ename: 'KeyError', evalue: "'x'", traceback: [] };
    expect(() => decodeAnswer(raised)).toThrow("KeyError: 'x'");
  });

  it.each([undefined, null, 'text', { status: 'ok', data: { 'text/plain': '"<b>"' } }])(
    'refuses %j',
    answer => {
      expect(() => decodeAnswer(answer)).toThrow(ProbeError);
    }
  );
});

describe('listGraphs', () => {
  it('is empty when maxlab is not imported', async () => {
    expect(await listGraphs(answering(() => ''))).toEqual([]);
  });

  it('puts variables first, sorted', async () => {
    const loose = { id: 'g1', kind: 'Graph', title: 'x', names: [], stamp: '1', ops: 1 };
    const g = { ...loose, id: 'g2', names: ['g', 'h'] };
    const a = { ...loose, id: 'm3', kind: 'Model', names: ['a'] };
    const kernel = answering(() => JSON.stringify([loose, g, a]));
    expect(await listGraphs(kernel)).toEqual([a, g, loose]);
  });

  it.each([
    [{ id: 3 }, 'id'],
    [null, 'null'],
    [[{ id: 'g1', kind: 'Graph', title: 'x', names: [], stamp: '1' }], 'ops']
  ])('says what is wrong with %j', async (item, told) => {
    const kernel = answering(() => JSON.stringify(Array.isArray(item) ? item : [item]));
    await expect(listGraphs(kernel)).rejects.toThrow(told);
  });

  it('asks silently', async () => {
    const asked: unknown[] = [];
    await listGraphs(
      answering(request => {
        asked.push(request);
        return '';
      })
    );
    expect(asked).toEqual([
      expect.objectContaining({ code: '', silent: true, store_history: false, allow_stdin: false })
    ]);
  });
});

describe('showInView', () => {
  it('takes ids and nothing else', async () => {
    const asked: unknown[] = [];
    const kernel = answering(request => {
      asked.push(request);
      return '';
    });
    await showInView(kernel, 'a-1', 'g12');
    await expect(showInView(kernel, 'a-1', "') or exit('")).rejects.toThrow('not an id');
    expect(asked).toHaveLength(1);
  });
});
