/** What a query finds in a model, as rows of a list: operations, and scopes by their names. */

import type { IBox } from '../model/boxes';
import { scopeText } from '../model/format';
import type { GraphModel, IGraphNode } from '../model/graph';
import { foundIn, missing, type Rows } from './finding';
import { fieldsOf, isPlain, matches, readQuery, type QueryTest } from './syntax';

export interface IMatch {
  /** Key of what is drawn for it: a node id or a box key. A weight is drawn on its first reader. */
  key: string;
  /** Index of the node that is drawn, or -1. */
  node: number;
  /** What it is: id of the operation, or key of the box. */
  id: string;
  what: string;
  scope: string;
  shape: string;
  /** Nanoseconds that it takes; null where nothing was timed. */
  ns: number | null;
  /** By what they were split off the time of a kernel that computes others too; else empty. */
  split: string;
}

export interface ISearched {
  matches: IMatch[];
  /** Why nothing can be found: what the query asks for is not known. */
  missing: string;
}

/** The matches of `query`; throws a `QueryError` where it cannot be read. */
export function search(model: GraphModel, rows: Rows, query: string, hasMarks: boolean): ISearched {
  if (query.trim() === '') {
    return { matches: [], missing: '' };
  }
  const test = readQuery(query);
  const lacking = missing(fieldsOf(test), model.document, hasMarks);
  if (lacking !== '') {
    return { matches: [], missing: lacking };
  }
  const found: IMatch[] = [];
  if (isPlain(test)) {
    addBoxes(test, model.root, found);
  }
  for (const node of foundIn(test, rows)) {
    const entry = model.node(node.id);
    if (entry !== undefined) {
      found.push(matchOf(model, rows, entry));
    }
  }
  return { matches: found, missing: '' };
}

function matchOf(model: GraphModel, rows: Rows, entry: IGraphNode): IMatch {
  const { node } = entry;
  const reader = model.values[entry.results[0] ?? -1]?.consumers[0];
  const drawn = entry.isChip ? (model.nodes[reader ?? -1] ?? entry) : entry;
  const [result] = rows.results(node);
  return {
    key: drawn.node.id,
    node: drawn.index,
    id: node.id,
    what: node.op === node.name || node.name === '' ? node.op : `${node.op} ${node.name}`,
    scope: scopeText(node.scope),
    shape: result?.type ?? '',
    ns: rows.spent(node)?.ns ?? null,
    split: rows.spent(node)?.split ?? ''
  };
}

function addBoxes(test: QueryTest, box: IBox, found: IMatch[]): void {
  if (box.kind !== 'root' && isNamed(test, `${box.label} ${box.type}`)) {
    const what = box.type === '' ? box.label : `${box.label} ${box.type}`;
    const scope = box.parent === null ? '' : scopeText(box.parent.path);
    const key = `box:${box.key}`;
    found.push({ key, node: -1, id: key, what, scope, shape: `${box.total} ops`, ns: null, split: '' });
  }
  box.children.forEach(inner => addBoxes(test, inner, found));
}

function isNamed(test: QueryTest, text: string): boolean {
  return test.kind === 'all'
    ? test.tests.every(one => isNamed(one, text))
    : test.kind === 'words' && matches(test.text, text);
}
