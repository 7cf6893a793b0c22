/**
 * What the panel asks a Python kernel: expressions evaluated beside an empty, silent request.
 *
 * Such a request leaves no trace in the history and no output, and in a kernel that never imported
 * maxlab it costs one dictionary look-up. Answers come back as the `repr` of base64 text, which holds no
 * character that would need unquoting. The other side is `maxlab/lab/live.py`.
 */

import type { Kernel } from '@jupyterlab/services';

import { fits } from '../core';
import { isLiveGraph, type ILiveGraph } from '../proto/live';
import { isAnything, isText, list, oneOf, read, record } from '../proto/shape';

export type { ILiveGraph };

export class ProbeError extends Error {}

const LIVE = "__import__('maxlab.lab.live', fromlist=['live'])";

const LISTING = `${LIVE}.answer(globals()) if 'maxlab.graph' in __import__('sys').modules else ''`;

const areGraphs = list(isLiveGraph);

/** Every graph and model of the kernel, those in variables first; empty when maxlab is not in use. */
export async function listGraphs(kernel: Kernel.IKernelConnection): Promise<ILiveGraph[]> {
  const text = await evaluate(kernel, LISTING);
  const graphs = text === '' ? [] : read(areGraphs, JSON.parse(text), 'The list of graphs cannot be read');
  const named = graphs.filter(graph => graph.names.length > 0);
  named.sort((a, b) => (a.names[0] ?? '').localeCompare(b.names[0] ?? ''));
  return [...named, ...graphs.filter(graph => graph.names.length === 0)];
}

const TABS = "__import__('maxlab.lab.tabs', fromlist=['tabs'])";

/** Name of the comms over which a kernel shows a graph in a tab. */
const VIEW = 'maxlab.view';

/** A new channel to a view, which `open` of it names an object for; the kernel closes it where there is none. */
export async function openView(kernel: Kernel.IKernelConnection): Promise<Kernel.IComm> {
  await evaluate(kernel, `${TABS}.serve()`);
  return kernel.createComm(VIEW);
}

const EDITORS = "__import__('maxlab.lab.editors', fromlist=['editors'])";

/** Name of the comms over which a kernel edits a document. */
const EDITOR = 'maxlab.editor';

/** A new channel to the editing of a document, which `open` of it gives the text of. */
export async function openEditor(kernel: Kernel.IKernelConnection): Promise<Kernel.IComm> {
  await evaluate(kernel, `${EDITORS}.serve()`);
  return kernel.createComm(EDITOR);
}

const HINTS =
  "__import__('maxlab.lab.hints.channel', fromlist=['channel']).serve() " +
  "if 'maxlab.graph' in __import__('sys').modules else ''";

/** Name of the comms over which a kernel tells hints. */
const HINTS_TARGET = 'maxlab.hints';

/** A new channel for hints, which is not open yet; null from a kernel that does not use maxlab. */
export async function openHints(kernel: Kernel.IKernelConnection): Promise<Kernel.IComm | null> {
  const isServed = (await evaluate(kernel, HINTS)) !== '';
  return isServed ? kernel.createComm(HINTS_TARGET) : null;
}

/** Shows the object with this id over a channel that is open. */
export async function showInView(
  kernel: Kernel.IKernelConnection,
  comm: string,
  id: string
): Promise<void> {
  await evaluate(kernel, `${TABS}.show('${checked(comm)}', '${checked(id)}')`);
}

/** `id`, which becomes part of an expression and so must be plain. */
function checked(id: string): string {
  if (!/^[\w-]+$/.test(id)) {
    throw new ProbeError(`${JSON.stringify(id)} is not an id`);
  }
  return id;
}

const MARKS =
  "__import__('maxlab.lab.live', fromlist=['live']).mark_cells() " +
  "if 'maxlab' in __import__('sys').modules else ''";

/** Lets the cells of a kernel that uses maxlab show on the time axis of its session's recording. */
export async function markCells(kernel: Kernel.IKernelConnection): Promise<void> {
  try {
    await evaluate(kernel, MARKS);
  } catch {
    // A kernel of another language, or one that is busy ending: its cells are not marked.
  }
}

/** The reply of a kernel that knows what expressions beside a request are. */
const hasAnswer = record({
  user_expressions: record({ maxlab: isAnything })
});

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
  const { content } = reply;
  if (content.status !== 'ok') {
    throw new ProbeError('the kernel stopped before it answered');
  }
  return decodeAnswer(fits(hasAnswer, content) ? content.user_expressions.maxlab : undefined);
}

/** What Jupyter says of an expression that had a value, and of one that raised. */
const isEvaluated = record({
  status: oneOf('ok'),
  data: record({ 'text/plain': isText })
});
const isRaised = record({
  status: oneOf('error'),
  ename: isText,
  evalue: isText
});

/** The text that an expression's value holds. */
export function decodeAnswer(answer: unknown): string {
  if (fits(isRaised, answer)) {
    throw new ProbeError(`${answer.ename}: ${answer.evalue}`);
  }
  if (!fits(isEvaluated, answer)) {
    throw new ProbeError('the kernel does not evaluate expressions');
  }
  const match = /^'([A-Za-z0-9+/=]*)'$/.exec(answer.data['text/plain']);
  if (!match) {
    throw new ProbeError('the kernel answered in a way that maxlab does not know');
  }
  const bytes = Uint8Array.from(atob(match[1] ?? ''), char => char.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}
