/** Drafts, operations that are not whole yet, as nodes of the graph that is drawn. */

import type { IDraft, IGraphDocument, INode, IValue } from '../../proto/document';

/** The type of what a draft is to make: it is not known before the draft is whole. */
export const DRAFT_TYPE = 'draft';

/** The operation that a draft is to be. */
export function draftName({ name }: IDraft): string {
  return name.replace(/^mo\./, '');
}

/** The nodes and values of `document`, with those of its drafts behind them. */
export function withDrafts(document: IGraphDocument): Pick<IGraphDocument, 'nodes' | 'values'> {
  const { nodes, values, drafts = [] } = document;
  if (drafts.length === 0) {
    return { nodes, values };
  }
  const known = new Set(values.map(({ id }) => id));
  const owners = new Set(drafts.map(({ id }) => `v${id.slice(1)}`));
  const read = drafts.flatMap(({ operands }) => operands.filter(id => id !== null));
  // Of several results those are known of that another draft reads.
  const made = new Set([...owners, ...read.filter(id => owners.has(id.replace(/_\d+$/, '')))]);
  const added: IValue[] = [];
  const nodesOf = drafts.map((draft): INode => {
    const { id, reason, operands, attrs } = draft;
    const op = draftName(draft);
    const own = `v${id.slice(1)}`;
    const isEnd = op === 'output';
    const results = isEnd ? [] : [...made].filter(value => value === own || value.startsWith(`${own}_`));
    for (const value of results) {
      if (!known.has(value)) {
        added.push({ id: value, type: DRAFT_TYPE, dtype: '', shape: [], kind: 'tensor' });
      }
    }
    return {
      id,
      op: isEnd ? 'outputs' : op,
      name: op,
      scope: '',
      operands: operands.map(value => value ?? ''),
      results,
      attrs,
      source: null,
      error: reason
    };
  });
  return { nodes: [...nodes, ...nodesOf], values: [...values, ...added] };
}
