/**
 * What the panel asks a Python kernel: expressions evaluated beside an empty, silent request.
 *
 * Such a request leaves no trace in the history and no output, imports nothing, and in a kernel that never
 * imported maxlab it costs one dictionary look-up. Answers come back as the `repr` of base64 text, which
 * holds no character that would need unquoting.
 */

import type { Kernel, KernelMessage } from '@jupyterlab/services';

import { GRAPH_MIME } from './tokens';

/** A graph or a compiled model in the kernel. */
export interface ILiveGraph {
  /** The variable that holds it. */
  name: string;
  kind: 'Graph' | 'Model';
  /** The name that the graph was built with; may be empty. */
  title: string;
  /** Changes when the object does: its identity and, where it has one, its revision. */
  stamp: string;
}

export class ProbeError extends Error {}

const LISTING = [
  '(lambda sys, base64, json, names: base64.b64encode(json.dumps([',
  "{'name': n, 'kind': type(v).__name__, 'title': str(getattr(v, 'name', None) or ''),",
  " 'stamp': '%x.%s' % (id(v), getattr(v, 'revision', ''))}",
  'for n, v in names',
  "if not n.startswith('_') and type(v).__module__.partition('.')[0] == 'maxlab'",
  "and type(v).__name__ in ('Graph', 'Model')",
  "]).encode()).decode() if 'maxlab' in sys.modules else '')",
  "(__import__('sys'), __import__('base64'), __import__('json'), list(globals().items()))"
].join(' ');

function documentOf(name: string): string {
  return [
    '(lambda base64, json, bundle: base64.b64encode(json.dumps(',
    `(bundle[0] if isinstance(bundle, tuple) else bundle)['${GRAPH_MIME}']`,
    ').encode()).decode())',
    `(__import__('base64'), __import__('json'), ${name}._repr_mimebundle_(include={'${GRAPH_MIME}'}))`
  ].join(' ');
}

/** Every graph and model that a variable of the user's namespace holds; empty when maxlab is not imported. */
export async function listGraphs(kernel: Kernel.IKernelConnection): Promise<ILiveGraph[]> {
  const text = await evaluate(kernel, LISTING);
  const found: unknown = text === '' ? [] : JSON.parse(text);
  if (!Array.isArray(found)) {
    throw new ProbeError('the kernel answered with something that is not a list');
  }
  return found.filter(isLiveGraph).sort((a, b) => a.name.localeCompare(b.name));
}

/** The document of the graph that the variable `name` holds, as it travels (maybe packed). */
export async function fetchDocument(
  kernel: Kernel.IKernelConnection,
  name: string
): Promise<unknown> {
  if (!/^[\p{L}_][\p{L}\p{N}_]*$/u.test(name)) {
    throw new ProbeError(`${JSON.stringify(name)} is not the name of a variable`);
  }
  return JSON.parse(await evaluate(kernel, documentOf(name))) as unknown;
}

async function evaluate(kernel: Kernel.IKernelConnection, expression: string): Promise<string> {
  const future = kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    stop_on_error: false,
    allow_stdin: false,
    user_expressions: { maxlab: expression }
  });
  const reply = await future.done;
  const content = reply.content as KernelMessage.IExecuteReply;
  if (content.status !== 'ok') {
    throw new ProbeError('the kernel stopped before it answered');
  }
  return decodeAnswer((content.user_expressions ?? {})['maxlab']);
}

/** The text that an expression's value holds. */
export function decodeAnswer(answer: unknown): string {
  if (typeof answer !== 'object' || answer === null) {
    throw new ProbeError('the kernel does not evaluate expressions');
  }
  const { status, data, ename, evalue } = answer as Record<string, unknown>;
  if (status !== 'ok') {
    throw new ProbeError(`${String(ename ?? 'error')}: ${String(evalue ?? 'unknown')}`);
  }
  const plain = (data as Record<string, unknown> | undefined)?.['text/plain'];
  const match = typeof plain === 'string' ? /^'([A-Za-z0-9+/=]*)'$/.exec(plain) : null;
  if (!match) {
    throw new ProbeError('the kernel answered in a way that maxlab does not know');
  }
  const bytes = Uint8Array.from(atob(match[1] ?? ''), char => char.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}

function isLiveGraph(item: unknown): item is ILiveGraph {
  const graph = item as Partial<ILiveGraph> | null;
  return (
    typeof graph === 'object' &&
    graph !== null &&
    typeof graph.name === 'string' &&
    typeof graph.title === 'string' &&
    typeof graph.stamp === 'string' &&
    (graph.kind === 'Graph' || graph.kind === 'Model')
  );
}
