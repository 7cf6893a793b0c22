/** Turns unknown JSON into a graph document, or into a list of what is wrong with it. */

import type {
  Dim,
  IGraphDocument,
  IGraphError,
  IKernel,
  IKernelProfile,
  INode,
  IPass,
  IProfile,
  IScope,
  ISource,
  IValue,
  LineSpan,
  Quantity,
  ValueKind
} from './document';

export const DOCUMENT_FORMAT = 'maxlab.graph';
export const DOCUMENT_VERSION = 1;

/** More problems than this are counted, not listed. */
const MAX_PROBLEMS = 20;

export type ParseResult =
  | { ok: true; document: IGraphDocument; warnings: string[] }
  | { ok: false; problems: string[] };

type Json = Record<string, unknown>;

class Reader {
  readonly problems: string[] = [];
  count = 0;

  fail(where: string, what: string): void {
    this.count += 1;
    if (this.problems.length < MAX_PROBLEMS) {
      this.problems.push(where ? `${where}: ${what}` : what);
    }
  }

  object(value: unknown, where: string): Json {
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return value as Json;
    }
    this.fail(where, `expected an object, got ${kindOf(value)}`);
    return {};
  }

  list(value: unknown, where: string): unknown[] {
    if (Array.isArray(value)) {
      return value;
    }
    if (value !== undefined && value !== null) {
      this.fail(where, `expected a list, got ${kindOf(value)}`);
    }
    return [];
  }

  text(value: unknown, where: string, missing?: string): string {
    if (typeof value === 'string') {
      return value;
    }
    if ((value === undefined || value === null) && missing !== undefined) {
      return missing;
    }
    this.fail(where, `expected text, got ${kindOf(value)}`);
    return missing ?? '';
  }

  maybeText(value: unknown, where: string): string | null {
    return value === undefined || value === null ? null : this.text(value, where);
  }

  number(value: unknown, where: string, missing?: number): number {
    if (typeof value === 'number' && Number.isFinite(value)) {
      return value;
    }
    if ((value === undefined || value === null) && missing !== undefined) {
      return missing;
    }
    this.fail(where, `expected a finite number, got ${kindOf(value)}`);
    return missing ?? 0;
  }

  quantity(value: unknown, where: string): Quantity {
    if (value === undefined || value === null) {
      return null;
    }
    return typeof value === 'string' ? value : this.number(value, where);
  }

  texts(value: unknown, where: string): string[] {
    return this.list(value, where).map((item, i) => this.text(item, `${where}[${i}]`));
  }
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) {
    return value === null ? 'null' : 'nothing';
  }
  if (Array.isArray(value)) {
    return 'a list';
  }
  if (typeof value === 'string') {
    return `text ${JSON.stringify(value.slice(0, 24))}`;
  }
  return typeof value === 'number' ? String(value) : `a ${typeof value}`;
}

function readSource(r: Reader, value: unknown, where: string): ISource | null {
  if (value === undefined || value === null) {
    return null;
  }
  const o = r.object(value, where);
  return {
    file: r.text(o.file, `${where}.file`, ''),
    line: r.number(o.line, `${where}.line`, 0),
    col: r.number(o.col, `${where}.col`, 0),
    ...(o.end === undefined ? {} : { end: r.number(o.end, `${where}.end`, 0) }),
    text: r.text(o.text, `${where}.text`, ''),
    function: r.maybeText(o.function, `${where}.function`)
  };
}

function readAttrs(value: unknown): Record<string, string> {
  const attrs: Record<string, string> = {};
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    for (const [key, item] of Object.entries(value)) {
      attrs[key] = typeof item === 'string' ? item : JSON.stringify(item) ?? '';
    }
  }
  return attrs;
}

function readNode(r: Reader, value: unknown, where: string): INode {
  const o = r.object(value, where);
  const op = r.text(o.op, `${where}.op`);
  return {
    id: r.text(o.id, `${where}.id`),
    op,
    name: r.text(o.name, `${where}.name`, op),
    scope: r.text(o.scope, `${where}.scope`, ''),
    operands: r.texts(o.operands, `${where}.operands`),
    results: r.texts(o.results, `${where}.results`),
    attrs: readAttrs(o.attrs),
    source: readSource(r, o.source, `${where}.source`),
    error: r.maybeText(o.error, `${where}.error`),
    ...(typeof o.family === 'string' ? { family: o.family } : {}),
    flops: r.quantity(o.flops, `${where}.flops`),
    bytes: r.quantity(o.bytes, `${where}.bytes`),
    ...(o.gives === undefined
      ? {}
      : { gives: r.list(o.gives, `${where}.gives`).map(given => r.texts(given, `${where}.gives`)) })
  };
}

const VALUE_KINDS: readonly string[] = ['tensor', 'input', 'weight', 'constant'];

function readValue(r: Reader, value: unknown, where: string): IValue {
  const o = r.object(value, where);
  const kind = r.text(o.kind, `${where}.kind`, 'tensor');
  const shape = r.list(o.shape, `${where}.shape`).map((dim, i): Dim => {
    return typeof dim === 'string' ? dim : r.number(dim, `${where}.shape[${i}]`);
  });
  return {
    id: r.text(o.id, `${where}.id`),
    type: r.text(o.type, `${where}.type`, ''),
    dtype: r.text(o.dtype, `${where}.dtype`, ''),
    shape,
    // A kind from a later version still draws, as an ordinary value.
    kind: (VALUE_KINDS.includes(kind) ? kind : 'tensor') as ValueKind,
    name: r.maybeText(o.name, `${where}.name`),
    nbytes:
      o.nbytes === undefined || o.nbytes === null ? null : r.number(o.nbytes, `${where}.nbytes`)
  };
}

function readScope(r: Reader, value: unknown, where: string): IScope {
  const o = r.object(value, where);
  const path = r.text(o.path, `${where}.path`);
  return {
    path,
    label: r.text(o.label, `${where}.label`, path.slice(path.lastIndexOf('.') + 1)),
    type: r.text(o.type, `${where}.type`, ''),
    fingerprint: r.text(o.fingerprint, `${where}.fingerprint`, '')
  };
}

/** The line spans of a kernel's generated text; ill-formed ones are reported. */
export function readLines(value: unknown): LineSpan[] {
  const lines: LineSpan[] = [];
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) {
      if (Array.isArray(item)) {
        const [first, last, node] = item as unknown[];
        if (typeof first === 'number' && typeof last === 'number' && typeof node === 'string') {
          lines.push([first, last, node]);
        }
      }
    }
  }
  return lines;
}

function readKernel(r: Reader, value: unknown, where: string): IKernel {
  const o = r.object(value, where);
  const id = r.text(o.id, `${where}.id`);
  return {
    id,
    ...(typeof o.device === 'string' ? { device: o.device } : {}),
    ...(o.language === 'cuda' || o.language === 'python' ? { language: o.language } : {}),
    name: r.text(o.name, `${where}.name`, id),
    kind: r.text(o.kind, `${where}.kind`, ''),
    nodes: r.texts(o.nodes, `${where}.nodes`),
    symbol: r.text(o.symbol, `${where}.symbol`, ''),
    source: r.maybeText(o.source, `${where}.source`),
    lines: readLines(o.lines),
    flops: r.quantity(o.flops, `${where}.flops`),
    bytes: r.quantity(o.bytes, `${where}.bytes`),
    parallel: r.quantity(o.parallel, `${where}.parallel`)
  };
}

function readKernelProfile(r: Reader, value: unknown, where: string): IKernelProfile {
  const o = r.object(value, where);
  const ns = r.number(o.ns, `${where}.ns`);
  return {
    id: r.text(o.id, `${where}.id`),
    ns: Math.max(0, ns),
    ns_min: Math.max(0, r.number(o.ns_min, `${where}.ns_min`, ns)),
    count: r.number(o.count, `${where}.count`, 1),
    flops: o.flops === undefined || o.flops === null ? null : r.number(o.flops, `${where}.flops`),
    bytes: o.bytes === undefined || o.bytes === null ? null : r.number(o.bytes, `${where}.bytes`),
    nodes: r.texts(o.nodes, `${where}.nodes`)
  };
}

function readProfile(r: Reader, value: unknown): IProfile | null {
  if (value === undefined || value === null) {
    return null;
  }
  const o = r.object(value, 'profile');
  const dims: Record<string, number> = {};
  for (const [name, size] of Object.entries(r.object(o.dims ?? {}, 'profile.dims'))) {
    dims[name] = r.number(size, `profile.dims.${name}`);
  }
  return {
    device: r.text(o.device, 'profile.device', ''),
    runs: r.number(o.runs, 'profile.runs', 1),
    threads: r.number(o.threads, 'profile.threads', 1),
    dims,
    wall_ns: r.number(o.wall_ns, 'profile.wall_ns', 0),
    wall_ns_min:
      o.wall_ns_min === undefined || o.wall_ns_min === null
        ? null
        : r.number(o.wall_ns_min, 'profile.wall_ns_min'),
    kernels: r
      .list(o.kernels, 'profile.kernels')
      .map((item, i) => readKernelProfile(r, item, `profile.kernels[${i}]`))
  };
}

function readError(r: Reader, value: unknown): IGraphError | null {
  if (value === undefined || value === null) {
    return null;
  }
  const o = r.object(value, 'error');
  return {
    code: r.text(o.code, 'error.code', ''),
    message: r.text(o.message, 'error.message', ''),
    fix: r.maybeText(o.fix, 'error.fix'),
    node: r.maybeText(o.node, 'error.node')
  };
}

function readPass(r: Reader, value: unknown, where: string): IPass {
  const o = r.object(value, where);
  return {
    name: r.text(o.name, `${where}.name`, ''),
    before: r.number(o.before, `${where}.before`, 0),
    after: r.number(o.after, `${where}.after`, 0),
    ms: r.number(o.ms, `${where}.ms`, 0)
  };
}

function checkUnique(r: Reader, items: readonly { id: string }[], what: string): Set<string> {
  const seen = new Set<string>();
  for (const { id } of items) {
    if (seen.has(id)) {
      r.fail(what, `the id ${JSON.stringify(id)} is used twice`);
    }
    seen.add(id);
  }
  return seen;
}

/** A document that can be drawn, or every reason (at most 20) why the input cannot be. */
export function parseDocument(input: unknown): ParseResult {
  let json = input;
  if (typeof json === 'string') {
    try {
      json = JSON.parse(json) as unknown;
    } catch (error) {
      return { ok: false, problems: [`not JSON: ${(error as Error).message}`] };
    }
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    return { ok: false, problems: [`expected a graph document, got ${kindOf(json)}`] };
  }
  const o = json as Json;
  if (o.format !== DOCUMENT_FORMAT) {
    return {
      ok: false,
      problems: [`expected format "${DOCUMENT_FORMAT}", got ${kindOf(o.format)}`]
    };
  }
  if (o.version !== DOCUMENT_VERSION) {
    return {
      ok: false,
      problems: [
        `this view reads version ${DOCUMENT_VERSION} of the document, got ${kindOf(o.version)}; ` +
          'use the view that came with the maxlab that wrote it'
      ]
    };
  }
  const r = new Reader();
  const each = <T>(key: string, read: (r: Reader, v: unknown, where: string) => T): T[] =>
    r.list(o[key], key).map((item, i) => read(r, item, `${key}[${i}]`));
  const document: IGraphDocument = {
    format: DOCUMENT_FORMAT,
    version: DOCUMENT_VERSION,
    name: r.text(o.name, 'name', 'graph'),
    revision: r.number(o.revision, 'revision', 0),
    nodes: each('nodes', readNode),
    values: each('values', readValue),
    inputs: r.texts(o.inputs, 'inputs'),
    outputs: r.texts(o.outputs, 'outputs'),
    scopes: each('scopes', readScope),
    kernels: each('kernels', readKernel),
    passes: each('passes', readPass),
    profile: readProfile(r, o.profile),
    error: readError(r, o.error)
  };
  if (typeof o.answers === 'object' && o.answers !== null && !Array.isArray(o.answers)) {
    // Each panel reads its own answer, and says itself when it cannot.
    document.answers = o.answers as Record<string, unknown>;
  }
  if (typeof o.panel === 'string') {
    document.panel = o.panel;
  }
  checkUnique(r, document.nodes, 'nodes');
  const values = checkUnique(r, document.values, 'values');
  checkUnique(r, document.kernels, 'kernels');
  if (r.count > 0) {
    const more = r.count - r.problems.length;
    return {
      ok: false,
      problems: more > 0 ? [...r.problems, `and ${more} more`] : r.problems
    };
  }
  return { ok: true, document, warnings: addMissingValues(document, values) };
}

/** A value that is used but not listed still draws, as one of unknown type. */
function addMissingValues(document: IGraphDocument, known: Set<string>): string[] {
  const warnings: string[] = [];
  const need = (id: string, where: string): void => {
    if (!known.has(id)) {
      known.add(id);
      document.values.push({ id, type: '', dtype: '', shape: [], kind: 'tensor' });
      if (warnings.length < MAX_PROBLEMS) {
        warnings.push(`${where} names the value ${JSON.stringify(id)}, which is not listed`);
      }
    }
  };
  for (const node of document.nodes) {
    node.operands.forEach(id => need(id, `node ${node.id}`));
    node.results.forEach(id => need(id, `node ${node.id}`));
    node.gives?.forEach(given => given.forEach(id => need(id, `node ${node.id}`)));
  }
  document.inputs.forEach(id => need(id, 'inputs'));
  document.outputs.forEach(id => need(id, 'outputs'));
  return warnings;
}
