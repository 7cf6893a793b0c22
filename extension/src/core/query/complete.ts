/** What a query that is being typed may go on with: names of fields, and values that occur. */

import { QUERY_FIELDS } from '../../proto/query';
import type { Rows } from './finding';

export interface ICompletion {
  /** What stands there instead of the text from `from` to the cursor. */
  text: string;
  says: string;
}

export interface ICompletions {
  from: number;
  options: ICompletion[];
}

const NOTHING: ICompletions = { from: 0, options: [] };

const MOST = 8;

/** Fields whose few values can be listed. */
const LISTED: ReadonlySet<string> = new Set(['op', 'family', 'dtype', 'scope', 'weight', 'changed']);

/** What may follow at `cursor`, at most 8. */
export function complete(query: string, cursor: number, rows: Rows): ICompletions {
  const before = query.slice(0, cursor);
  if ((before.match(/"/g)?.length ?? 0) % 2 === 1) {
    return NOTHING;
  }
  const value = /(\w+)\s*(?:=|!=|:)\s*([^\s&|()"/[\]]*)$/.exec(before);
  const typed = value?.[2] ?? '';
  if (value !== null && LISTED.has(value[1] ?? '')) {
    return { from: cursor - typed.length, options: valuesOf(value[1] ?? '', typed, rows) };
  }
  const inside = /\bin\(\s*([^\s&|()"/]*)$/.exec(before);
  if (inside !== null) {
    const path = inside[1] ?? '';
    return { from: cursor - path.length, options: valuesOf('scope', path, rows) };
  }
  const word = /(?:^|[\s&|!(])([A-Za-z]+)$/.exec(before)?.[1];
  if (word === undefined) {
    return NOTHING;
  }
  const low = word.toLowerCase();
  const options = [...QUERY_FIELDS, { name: 'in(', says: 'inside of a scope: in(layers.3)' }]
    .filter(({ name }) => name.startsWith(low) && name !== low)
    .map(({ name, says }) => ({ text: name, says }));
  return { from: cursor - word.length, options: options.slice(0, MOST) };
}

function valuesOf(field: string, typed: string, rows: Rows): ICompletion[] {
  const counts = new Map<string, number>();
  const low = typed.toLowerCase();
  for (const node of rows.document.nodes) {
    for (const text of rows.texts(node, field)) {
      if (text !== '' && text.toLowerCase().includes(low) && !/[\s&|()"]/.test(text)) {
        counts.set(text, (counts.get(text) ?? 0) + 1);
      }
    }
  }
  return [...counts]
    .filter(([text]) => text.toLowerCase() !== low)
    .sort(([a, n], [b, m]) => starts(b, low) - starts(a, low) || m - n || a.localeCompare(b))
    .slice(0, MOST)
    .map(([text, count]) => ({ text, says: `${count} op${count === 1 ? '' : 's'}` }));
}

function starts(text: string, low: string): number {
  return text.toLowerCase().startsWith(low) ? 1 : 0;
}
