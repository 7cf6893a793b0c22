// @vitest-environment jsdom

import { describe, expect, it } from 'vitest';

import { csvOf, headOf } from '../src/core/csv';
import { DataTable } from '../src/core/panels/parts/table';
import { copiedFrom } from './copying';

describe('csvOf', () => {
  it('quotes what would end a field, and doubles quotes in it', () => {
    const text = csvOf(['a,b', 'c'], [['say "hi"', 'two\nlines'], ['plain', ' kept ']]);
    expect(text).toBe('"a,b",c\r\n"say ""hi""","two\nlines"\r\nplain, kept \r\n');
  });

  it('writes numbers as they are, and nothing for what is not known', () => {
    const rows = [[1234567.25, null], [Number.NaN, Number.POSITIVE_INFINITY], [0, true]];
    expect(csvOf(['x', 'y'], rows)).toBe('x,y\r\n1234567.25,\r\nNaN,Infinity\r\n0,true\r\n');
  });

  it('says units in heads', () => {
    expect([headOf('time', 'ns'), headOf('name')]).toEqual(['time [ns]', 'name']);
  });
});

describe('a table', () => {
  interface IRow {
    name: string;
    ns: number | null;
  }
  const table = new DataTable<IRow>(
    'Kernels',
    [
      { title: 'kernel', cell: row => row.name, key: row => row.name },
      { title: 'time', cell: row => `${row.ns ?? '–'} µs`, key: row => row.ns, isNumber: true, unit: 'ns' },
      { title: 'mark', cell: row => document.createTextNode(row.name.toUpperCase()) }
    ],
    () => undefined
  );

  it('is copied whole, in its order, with numbers that are not rounded', () => {
    const many = Array.from({ length: 700 }, (_, n) => ({ name: `k${n}`, ns: n }));
    table.setRows(many);
    table.sortBy(1, true);
    const lines = table.csv().split('\r\n');
    expect(lines).toHaveLength(702);
    expect(lines.slice(0, 2)).toEqual(['kernel,time [ns],mark', 'k699,699,K699']);
    table.setRows([{ name: 'a', ns: null }]);
    expect(table.csv()).toBe('kernel,time [ns],mark\r\na,,A\r\n');
  });

  it('is copied where the focus is in it and no text is marked', () => {
    document.body.append(table.element);
    const button = table.element.querySelector('button')!;
    expect(copiedFrom(button).join('\r\n')).toBe(table.csv().trimEnd());
  });
});
