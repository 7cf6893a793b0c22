/**
 * Turns unknown JSON into a graph document, or into a list of what is wrong with it.
 *
 * The shape of a document is read by what `scripts/gen_protocol.py` made of its declaration. What is
 * left for here is the meaning: ids are used once, times are not negative, and a value that is used
 * but not listed is added.
 */

import {
  FORMAT,
  VERSION,
  isGraphDocument,
  type IGraphDocument,
  type IValue
} from './document';
import { Trail, fits, isAnything, isText, kindOf, optional, record } from './shape';

export type ParseResult =
  | { ok: true; document: IGraphDocument; warnings: string[] }
  | { ok: false; problems: string[] };

/** What every version of a document says of itself. */
const isHead = record({ format: optional(isAnything), version: optional(isAnything) });

/** More warnings than this are left out. */
const MOST_WARNINGS = 20;

function noteTwice(trail: Trail, items: readonly { id: string }[], what: string): void {
  const seen = new Set<string>();
  for (const { id } of items) {
    if (seen.has(id)) {
      const before = trail.length;
      trail.note(`the id ${JSON.stringify(id)} is used twice`);
      trail.under(what, before);
    }
    seen.add(id);
  }
}

function noteNegative(trail: Trail, document: IGraphDocument): void {
  document.profile?.kernels.forEach((kernel, n) => {
    if (kernel.ns < 0 || kernel.ns_min < 0) {
      const before = trail.length;
      trail.note(`a time is not negative, got ${Math.min(kernel.ns, kernel.ns_min)}`);
      trail.under(`profile.kernels[${n}]`, before);
    }
  });
}

/** A document that can be drawn, or every reason (at most 20) why the input cannot be. */
export function parseDocument(input: unknown): ParseResult {
  const fail = (...problems: string[]): ParseResult => ({ ok: false, problems });
  let json = input;
  if (fits(isText, json)) {
    try {
      json = JSON.parse(json);
    } catch (error) {
      return fail(`not JSON: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (!fits(isHead, json)) {
    return fail(`expected a graph document, got ${kindOf(json)}`);
  }
  if (json.format !== FORMAT) {
    return fail(`expected format "${FORMAT}", got ${kindOf(json.format)}`);
  }
  if (json.version !== VERSION) {
    return fail(
      `this view reads version ${VERSION} of the document, got ${kindOf(json.version)}; ` +
        'use the view that came with the maxlab that wrote it'
    );
  }
  const trail = new Trail();
  if (!isGraphDocument(json, trail)) {
    return fail(...trail.listed());
  }
  noteTwice(trail, json.nodes, 'nodes');
  noteTwice(trail, json.values, 'values');
  noteTwice(trail, json.kernels, 'kernels');
  noteNegative(trail, json);
  return trail.length > 0 ? fail(...trail.listed()) : { ok: true, ...withAllValues(json) };
}

/** A value that is used but not listed still draws, as one of unknown type. */
function withAllValues(document: IGraphDocument): {
  document: IGraphDocument;
  warnings: string[];
} {
  const known = new Set(document.values.map(value => value.id));
  const added: IValue[] = [];
  const warnings: string[] = [];
  const need = (ids: readonly string[], where: string): void => {
    for (const id of ids) {
      if (!known.has(id)) {
        known.add(id);
        added.push({ id, type: '', dtype: '', shape: [], kind: 'tensor' });
        warnings.push(`${where} names the value ${JSON.stringify(id)}, which is not listed`);
      }
    }
  };
  for (const node of document.nodes) {
    const where = `node ${node.id}`;
    need(node.operands, where);
    need(node.results, where);
    node.gives?.forEach(given => need(given, where));
  }
  need(document.inputs, 'inputs');
  need(document.outputs, 'outputs');
  return {
    document: added.length === 0 ? document : { ...document, values: [...document.values, ...added] },
    warnings: warnings.slice(0, MOST_WARNINGS)
  };
}
