/** The queries of `tests/lab/queries.json`, which Python answers too. */

import { describe, expect, it } from 'vitest';

import { complete } from '../src/core/query/complete';
import { foundIn, missing, Rows } from '../src/core/query/finding';
import { fieldsOf, QueryError, readQuery } from '../src/core/query/syntax';
import { parseDocument } from '../src/proto/parse';
import type { IGraphDocument } from '../src/proto/document';
import type { IMarks } from '../src/proto/difference';

interface IRow {
  query: string;
  in: 'model' | 'bare';
  ids?: string[];
  place?: number;
  said?: string;
}

interface ITable {
  documents: Record<IRow['in'], IGraphDocument>;
  marks: IMarks;
  rows: IRow[];
}

declare const process: { env: Record<string, string | undefined> };

const file = process.env.MAXLAB_QUERIES ?? '../../tests/lab/queries.json';
const text: { default: string } = await import(/* @vite-ignore */ `${file}?raw`);
const table: ITable = JSON.parse(text.default);

const rowsOf = {
  model: new Rows(table.documents.model, table.marks),
  bare: new Rows(table.documents.bare, null)
};

/** What a query gives, in the form of the table. */
function answer(query: string, where: IRow['in']): Partial<IRow> {
  const rows = rowsOf[where];
  try {
    const test = readQuery(query);
    const lacking = missing(fieldsOf(test), rows.document, where === 'model');
    return lacking === '' ? { ids: foundIn(test, rows).map(node => node.id) } : { said: lacking };
  } catch (error) {
    if (error instanceof QueryError) {
      return { said: error.said, place: error.place };
    }
    throw error;
  }
}

describe('queries', () => {
  it('are of documents that can be read', () => {
    expect(parseDocument(table.documents.model).ok).toBe(true);
  });

  it.each(table.rows)('$query', ({ query, in: where, ...expected }) => {
    expect(answer(query, where)).toEqual(expected);
  });
});

describe('completion', () => {
  const at = (query: string): string[] =>
    complete(query, query.length, rowsOf.model).options.map(({ text }) => text);

  it('names fields', () => {
    expect(at('sha')).toEqual(['shape', 'share']);
    expect(at('op=matmul & ti')).toEqual(['time']);
    expect(at('!(f')).toEqual(['family', 'flops', 'file']);
    expect(at('i')).toContain('in(');
    expect(at('shape')).toEqual([]);
  });

  it('names values that occur, the frequent first', () => {
    expect(at('op=')[0]).toBe('matmul');
    expect(at('op=g')).toEqual(['gelu', 'gather', 'weight']);
    expect(at('dtype=b')).toEqual(['bf16', 'bfloat16', 'bool']);
    expect(at('in(enc')).toContain('encoder.layers.0.attention');
    expect(at('source="x = o')).toEqual([]);
  });
});
