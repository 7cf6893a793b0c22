/**
 * Finds the operations of a document that a query describes. The same as `maxlab/lab/query/finding.py`:
 * `tests/lab/queries.json` holds both to one table.
 */

import type { IMarks } from '../../proto/difference';
import type { IGraphDocument, IKernel, INode, IValue } from '../../proto/document';
import { QUERY_DTYPES, QUERY_FIELDS, QUERY_ITEM_BYTES } from '../../proto/query';
import { evaluate } from '../model/expr';
import { at } from '../narrow';
import { partsOf, splitBy } from '../model/split';
import { matches, starred, type Compare, type QueryTest, type TextPattern } from './syntax';

const SHORT: ReadonlyMap<string, string> = new Map(
  Object.entries(QUERY_DTYPES).map(([short, long]) => [long, short])
);

/** What one operation takes of a run. */
export interface ISpent {
  ns: number;
  /** By what part of it was split off the time of a kernel that computes others too; else empty. */
  split: string;
}

/** The operations of a document, as queries ask about them. */
export class Rows {
  private readonly _values: ReadonlyMap<string, IValue>;
  private readonly _kernels = new Map<string, IKernel[]>();
  private readonly _times = new Map<string, ISpent>();
  private readonly _totalNs: number = 0;
  private readonly _texts = new Map<INode, string>();
  private readonly _added: ReadonlySet<string>;
  private readonly _changed: ReadonlySet<string>;

  constructor(
    readonly document: IGraphDocument,
    marks: IMarks | null
  ) {
    this._values = new Map(document.values.map(value => [value.id, value]));
    this._added = new Set(marks?.added);
    this._changed = new Set(marks?.changed);
    const nodes = new Map(document.kernels.map(kernel => [kernel.id, kernel.nodes]));
    for (const kernel of document.kernels) {
      for (const id of kernel.nodes) {
        const list = this._kernels.get(id);
        if (list === undefined) {
          this._kernels.set(id, [kernel]);
        } else {
          list.push(kernel);
        }
      }
    }
    const model = document.profile === null ? '' : splitBy(document.profile);
    for (const timed of document.profile?.kernels ?? []) {
      this._totalNs += timed.ns;
      const ids = timed.nodes.length > 0 ? timed.nodes : (nodes.get(timed.id) ?? []);
      const parts = partsOf(timed, ids);
      const split = parts.filter(part => part > 0).length > 1 ? model : '';
      ids.forEach((id, i) => {
        const before = this._times.get(id) ?? { ns: 0, split: '' };
        const part = at(parts, i);
        this._times.set(
          id,
          part > 0 ? { ns: before.ns + timed.ns * part, split: before.split || split } : before
        );
      });
    }
  }

  /** What a node takes; null where nothing was timed. */
  spent(node: INode): ISpent | null {
    return this._times.get(node.id) ?? null;
  }

  results(node: INode): IValue[] {
    return this._of(node.results);
  }

  private _of(ids: readonly string[]): IValue[] {
    return ids.map(id => this._values.get(id)).filter(value => value !== undefined);
  }

  /** What words are looked for in. Of weights and constants it is their names: their types and
   * scopes are those of the operations that read them. */
  text(node: INode): string {
    let text = this._texts.get(node);
    if (text === undefined) {
      text = this._text(node);
      this._texts.set(node, text);
    }
    return text;
  }

  private _text(node: INode): string {
    const results = this.results(node);
    const isFixed = node.operands.length === 0 && results.length > 0;
    if (isFixed && results.every(({ kind }) => kind === 'weight' || kind === 'constant')) {
      return [node.id, node.op, node.name, ...results.map(value => value.name ?? '')].join(' ');
    }
    const about = [...results, ...this._of(node.operands)].map(({ type, name }) => `${type} ${name ?? ''}`);
    return [node.id, node.op, node.name, node.scope, ...about].join(' ');
  }

  /** The texts of a field; several are alternatives. */
  texts(node: INode, field: string): string[] {
    switch (field) {
      case 'op':
        return [node.op];
      case 'id':
        return [node.id];
      case 'name':
        return [node.name];
      case 'scope':
        return [node.scope];
      case 'family':
        return [node.family ?? 'other'];
      case 'dtype': {
        const names = this.results(node).map(value => value.dtype);
        return [...names, ...names.map(name => SHORT.get(name)).filter(name => name !== undefined)];
      }
      case 'file': {
        const { source } = node;
        return source === null ? [] : [source.file, source.file.replace(/^[^]*[\\/]/, '')];
      }
      case 'source':
        return node.source === null ? [] : [node.source.text];
      case 'weight':
        return this._of(node.operands)
          .filter(value => value.kind === 'weight')
          .map(value => value.name ?? '');
      case 'kernel':
        return (this._kernels.get(node.id) ?? []).flatMap(({ id, name }) => [id, name]);
      case 'changed':
        return this._added.has(node.id) ? ['added'] : this._changed.has(node.id) ? ['changed'] : [];
      case 'error': {
        const { error } = this.document;
        return node.error !== null ? [node.error] : error?.node === node.id ? [error.message] : [];
      }
      default:
        throw new RangeError(field);
    }
  }

  /** The numbers of a field, in its own unit; none where it is not known. */
  numbers(node: INode, field: string): number[] {
    if (field === 'rank') {
      return this.results(node).map(value => value.shape.length);
    }
    const found = this._number(node, field);
    return found === null ? [] : [found];
  }

  private _number(node: INode, field: string): number | null {
    const dims = this.document.profile?.dims ?? {};
    switch (field) {
      case 'time':
        return this.spent(node)?.ns ?? null;
      case 'share': {
        const ns = this.spent(node)?.ns ?? null;
        return ns === null || this._totalNs === 0 ? null : ns / this._totalNs;
      }
      case 'line':
        return node.source === null ? null : node.source.line;
      case 'flops':
        return evaluate(node.flops, dims);
      case 'bytes':
        return this._traffic(node, dims);
      default:
        throw new RangeError(field);
    }
  }

  private _traffic(node: INode, dims: Record<string, number>): number | null {
    const declared = evaluate(node.bytes, dims);
    if (declared !== null && declared !== 0) {
      return declared;
    }
    const values = [...this._of(node.operands), ...this.results(node)];
    let total = 0;
    for (const value of values) {
      let size = value.nbytes ?? QUERY_ITEM_BYTES[value.dtype] ?? 0;
      for (const dim of typeof value.nbytes === 'number' ? [] : value.shape) {
        const length = evaluate(dim, dims);
        if (length === null) {
          return null;
        }
        size *= length;
      }
      total += size;
    }
    return values.length === 0 ? null : total;
  }
}

/** Whether `shape` is as `pattern` says, in which `*` is any axis and `...` any number of them. */
function isShape(pattern: readonly string[], shape: readonly string[]): boolean {
  const [first, ...rest] = pattern;
  if (first === undefined) {
    return shape.length === 0;
  }
  if (first === '...') {
    return [...shape, ''].some((_, n) => isShape(rest, shape.slice(n)));
  }
  const [dim] = shape;
  return dim !== undefined && (first === '*' || first === dim) && isShape(rest, shape.slice(1));
}

function isInside(text: TextPattern, scope: string): boolean {
  if (text.how !== 'whole') {
    return matches(text, scope);
  }
  const wanted = text.pattern.split('.');
  const parts = scope === '' ? [] : scope.toLowerCase().split('.');
  for (let start = 0; start + wanted.length <= parts.length; start += 1) {
    const fits = (one: string, i: number): boolean => {
      const part = parts[start + i] ?? '';
      return text.stars ? starred(one, part) : one === part;
    };
    if (wanted.every(fits)) {
      return true;
    }
  }
  return false;
}

const ORDER: Record<Compare, (a: number, b: number) => boolean> = {
  '=': (a, b) => a === b,
  '!=': (a, b) => a === b,
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
  ':': () => false
};

/** Whether `test` finds `node`, one of `rows`. */
export function isFound(test: QueryTest, rows: Rows, node: INode): boolean {
  switch (test.kind) {
    case 'all':
      return test.tests.every(one => isFound(one, rows, node));
    case 'some':
      return test.tests.some(one => isFound(one, rows, node));
    case 'not':
      return !isFound(test.test, rows, node);
    case 'words':
      return matches(test.text, rows.text(node));
    case 'inside':
      return isInside(test.text, node.scope);
    case 'text':
      return rows.texts(node, test.field).some(text => matches(test.text, text)) !== test.isNot;
    case 'shape': {
      const shapes = rows.results(node).map(value => value.shape.map(String));
      return shapes.some(shape => isShape(test.dims, shape)) !== test.isNot;
    }
    case 'number': {
      const { compare, value } = test;
      const isOne = rows.numbers(node, test.field).some(number => ORDER[compare](number, value));
      return isOne !== (compare === '!=');
    }
  }
}

/** What `fields` ask for that is not known of `document`; empty when all is. */
export function missing(
  fields: ReadonlySet<string>,
  document: IGraphDocument,
  hasMarks: boolean
): string {
  for (const { name } of QUERY_FIELDS) {
    if (fields.has(name) && (name === 'time' || name === 'share') && document.profile === null) {
      return `${name} is not known: nothing was profiled`;
    }
    if (fields.has(name) && name === 'changed' && !hasMarks) {
      return 'changed is not known: only a view of a cell that ran twice knows it';
    }
  }
  return '';
}

/** The operations of `rows` that `test` finds, in their order. */
export function foundIn(test: QueryTest, rows: Rows): INode[] {
  return rows.document.nodes.filter(node => isFound(test, rows, node));
}
