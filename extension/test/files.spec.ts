/** Weight files: rows, words, windows, colours, and answers of the server. */

import { describe, expect, it } from 'vitest';

import { divergingRamp, pixelsOf, SIDE, stepOf } from '../src/core/files/colors';
import { readSlice } from '../src/core/files/source';
import {
  filtered,
  firstAxes,
  holding,
  numberText,
  seenText,
  tensorsOf,
  wholeWindow,
  zoomed
} from '../src/core/files/tensors';
import type { IWeightHeader } from '../src/proto/files';
import { FileKinds, type IFileKind } from '../src/lab/file-kinds';
import { refusedBy } from '../src/lab/file-server';

const HEADER: IWeightHeader = {
  format: 'safetensors',
  bytes: 100,
  stamp: 's',
  metadata: [],
  tensors: [
    ['layers.3.Weight', 'BF16', [4096, 11008], 0, 90, ''],
    ['layers.4.bias', 'F32', [], 90, 4, '']
  ]
};

describe('the table of tensors', () => {
  const tensors = tensorsOf(HEADER);
  const names = (text: string): string[] => filtered(tensors, text).map(({ name }) => name);

  it('keeps those with all words', () => {
    expect(names('')).toHaveLength(2);
    expect(names('LAYERS.3 bf16')).toEqual(['layers.3.Weight']);
    expect(names('4096x11008')).toEqual(['layers.3.Weight']);
    expect(names('4096 × 11008')).toEqual(['layers.3.Weight']);
    expect(names('bf16 bias')).toEqual([]);
  });
});

describe('the axes of a picture', () => {
  it('are the last two with more than one element', () => {
    expect(firstAxes([3, 4, 5])).toEqual({ rows: 1, columns: 2 });
    expect(firstAxes([3, 4, 1, 1])).toEqual({ rows: 0, columns: 1 });
    expect(firstAxes([1, 7])).toEqual({ rows: 0, columns: 1 });
    expect(firstAxes([7])).toEqual({ rows: -1, columns: 0 });
    expect(firstAxes([])).toEqual({ rows: -1, columns: -1 });
  });

  it('are zoomed around an element, within the whole', () => {
    const whole = wholeWindow([100, 50], 0, 1);
    expect(zoomed(whole, whole, 50, 25, 0.5)).toEqual({ top: 25, left: 13, height: 50, width: 25 });
    expect(zoomed(whole, whole, 0, 49, 0.5)).toEqual({ top: 0, left: 25, height: 50, width: 25 });
    expect(zoomed(whole, whole, 50, 25, 2)).toEqual(whole);
    const near = zoomed({ top: 10, left: 10, height: 8, width: 8 }, whole, 12, 12, 0.5);
    expect([near.height, near.width]).toEqual([8, 8]);
  });

  it('follow the cursor out of the window', () => {
    const window = { top: 10, left: 10, height: 5, width: 5 };
    expect(holding(window, 15, 9)).toEqual({ ...window, top: 11, left: 9 });
    expect(holding(window, 12, 12)).toEqual(window);
  });
});

describe('colours', () => {
  it('diverge around zero', () => {
    expect([stepOf(0, 2), stepOf(-2, 2), stepOf(2, 2), stepOf(1, 2)]).toEqual([
      SIDE,
      0,
      2 * SIDE,
      SIDE + 64
    ]);
    expect([stepOf(NaN, 2), stepOf(Infinity, 2), stepOf(-Infinity, 0)]).toEqual([-1, 2 * SIDE, 0]);
    for (const isDark of [true, false]) {
      const ramp = divergingRamp(isDark);
      const [low, high] = [ramp[0] ?? [0, 0, 0], ramp[2 * SIDE] ?? [0, 0, 0]];
      expect(low[2]).toBeGreaterThan(low[0]);
      expect(high[0]).toBeGreaterThan(high[2]);
      const [r, g, b] = ramp[SIDE] ?? [0, 1, 2];
      expect(Math.max(r, g, b) - Math.min(r, g, b)).toBeLessThan(3);
    }
    expect([...pixelsOf([NaN], 1, divergingRamp(true), [1, 2, 3])]).toEqual([1, 2, 3, 255]);
  });
});

describe('words', () => {
  it('tell numbers apart', () => {
    expect([0, -1, 0.1, -2.5e-7, NaN, -Infinity].map(numberText)).toEqual([
      '0',
      '−1',
      '0.1',
      '−2.500000e−7',
      'NaN',
      '−∞'
    ]);
  });

  it('say which share was seen', () => {
    expect(seenText(960, 960)).toBe('all 960 numbers');
    expect(seenText(4194304, 5e9)).toContain('4,194,304 of 5,000,000,000 numbers (<0.1 %)');
  });
});

describe('answers of the server', () => {
  const reply = (json: unknown, values: Float64Array): ArrayBuffer => {
    const text = new TextEncoder().encode(JSON.stringify(json));
    const whole = new Uint8Array(4 + text.length + values.byteLength);
    new DataView(whole.buffer).setUint32(0, text.length);
    whole.set(text, 4);
    whole.set(new Uint8Array(values.buffer), 4 + text.length);
    return whole.buffer;
  };
  const span = { axis: 0, start: 0, step: 1, count: 1 };
  const slice = { rows: span, columns: { ...span, axis: 1, count: 3 }, low: 1, high: 2 };

  it('are numbers with NaN in them', () => {
    const found = readSlice(reply(slice, Float64Array.of(1, NaN, 2)));
    expect([...found.values]).toEqual([1, NaN, 2]);
  });

  it('are refused when they are of another size', () => {
    expect(() => readSlice(reply(slice, Float64Array.of(1)))).toThrow('another number of elements');
    expect(() => readSlice(reply({}, Float64Array.of(1)))).toThrow('something else');
  });

  it('say what to do where the extension is missing', () => {
    expect(refusedBy(404, '<html>').fix).toContain('jupyter server extension enable maxlab.lab.server');
    expect(refusedBy(404, '{"message": "Not Found", "reason": null}').message).toContain('does not run');
    const told = refusedBy(404, '{"message": "no file", "code": "ML890", "fix": "look"}');
    expect([told.message, told.code, told.fix]).toEqual(['no file', 'ML890', 'look']);
    expect(refusedBy(403, '').message).toContain('does not let you');
  });
});

describe('kinds of files', () => {
  it('are told to who opens them, and have names of their own', () => {
    const kinds = new FileKinds();
    const heard: string[] = [];
    kinds.added.connect((_, { name }) => void heard.push(name));
    const kind = { name: 'a', label: 'A', extensions: ['.a'] } as unknown as IFileKind;
    kinds.add(kind);
    expect(heard).toEqual(['a']);
    expect(() => kinds.add(kind)).toThrow('called a already');
  });
});
