import { describe, expect, it } from 'vitest';

import { decodeAnswer, fetchDocument, listGraphs, ProbeError } from '../../src/lab/probe';
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

  it('sorts by name and drops what it does not know', async () => {
    const g = { name: 'g', kind: 'Graph', title: 'first', stamp: '1.1' };
    const a = { name: 'a', kind: 'Model', title: '', stamp: '2.' };
    const kernel = answering(() => JSON.stringify([g, { name: 3 }, null, a]));
    expect(await listGraphs(kernel)).toEqual([a, g]);
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

describe('fetchDocument', () => {
  it('takes the name of a variable and nothing else', async () => {
    const kernel = answering(() => '{"format": "maxlab.graph"}');
    expect(await fetchDocument(kernel, 'gräph_2')).toEqual({ format: 'maxlab.graph' });
    await expect(fetchDocument(kernel, "__import__('os')")).rejects.toThrow('not the name');
  });
});
