/** The document of the next revision, made from the one that is held and what changed. */

import type { IDifference } from '../../proto/difference';
import type { IGraphDocument, IPlace, IScope } from '../../proto/document';

/** What changed in a list, whatever its entries are. */
interface IListChange<T, A> {
  removed: readonly string[];
  changed: readonly T[];
  added: readonly A[];
}

/**
 * `document` after `difference`; entries that stay are shared. Null when the difference names an entry
 * that the document does not have: then it is not of this document.
 */
export function applyDifference(
  document: IGraphDocument,
  difference: IDifference
): IGraphDocument | null {
  const { nodes, values, scopes, places, ...replaced } = difference;
  const newNodes = changedList(document.nodes, idOf, nodes, added => added.node);
  const newValues = changedList(document.values, idOf, values, added => added.value);
  const newScopes = changedList(document.scopes, pathOf, scopes, added => added.scope);
  const newPlaces = changedList(document.places ?? [], placeOf, places, added => added.place);
  if (newNodes === null || newValues === null || newScopes === null || newPlaces === null) {
    return null;
  }
  const next = { ...document, ...replaced, nodes: newNodes, values: newValues, scopes: newScopes };
  return places === undefined ? next : { ...next, places: newPlaces };
}

function pathOf(scope: IScope): string {
  return scope.path;
}

function placeOf(place: IPlace): string {
  return place.key;
}

function idOf(entry: { id: string }): string {
  return entry.id;
}

function changedList<T, A extends { before: string | null }>(
  list: T[],
  keyOf: (entry: T) => string,
  change: IListChange<T, A> | undefined,
  entryOf: (added: A) => T
): T[] | null {
  if (change === undefined) {
    return list;
  }
  const gone = new Set(change.removed);
  const changed = new Map(change.changed.map(entry => [keyOf(entry), entry]));
  const added = new Map<string | null, T[]>();
  for (const one of change.added) {
    const group = added.get(one.before) ?? [];
    group.push(entryOf(one));
    added.set(one.before, group);
  }
  const made: T[] = [];
  for (const entry of list) {
    const key = keyOf(entry);
    if (gone.delete(key)) {
      continue;
    }
    made.push(...(added.get(key) ?? []), changed.get(key) ?? entry);
    added.delete(key);
    changed.delete(key);
  }
  made.push(...(added.get(null) ?? []));
  added.delete(null);
  const isOwn = gone.size === 0 && changed.size === 0 && added.size === 0;
  return isOwn && new Set(made.map(keyOf)).size === made.length ? made : null;
}
