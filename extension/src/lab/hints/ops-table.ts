/**
 * The operations that can be typed, from a table that the extension carries: completion works before there
 * is a kernel, and while it is busy. The table is loaded when it is first needed.
 */

import type { CompletionHandler } from '@jupyterlab/completer';

import { isText, list, oneOf, read, record, type Told } from '../../proto/shape';
import type { Typed } from './calls';

const isRow = record({
  module: oneOf('ops', 'nn'),
  name: isText,
  signature: isText,
  says: isText,
  parameters: list(record({ name: isText, default: isText, values: list(isText) }))
});
const isTable = list(isRow);

export type OperationRow = Told<typeof isRow>;
export type ParameterRow = OperationRow['parameters'][number];

export type OpsTable = ReadonlyMap<string, OperationRow>;

let table: Promise<OpsTable> | null = null;

/** An operation or a layer as it is mostly written. */
function titleOf({ module, name }: OperationRow): string {
  return `${module}.${name}`;
}

/** The operations and layers, by names such as `ops.relu`. */
export function opsTable(): Promise<OpsTable> {
  table ??= import('./ops-table.json').then(
    module => new Map(read(isTable, module.default, 'The table of operations').map(row => [titleOf(row), row]))
  );
  return table;
}

type Item = CompletionHandler.ICompletionItem;

/** What can be typed where `typed` is. */
export function itemsFor(typed: Typed, operations: OpsTable): Item[] {
  if (typed.what === 'name') {
    return [...operations.values()]
      .filter(({ module, name }) => module === typed.module && name.startsWith(typed.word))
      .map(row => ({
        label: row.name,
        type: row.module === 'nn' ? 'class' : 'function',
        documentation: `${titleOf(row)}${row.signature}\n\n${row.says}`
      }));
  }
  const row = operations.get(`${typed.module}.${typed.call}`);
  if (row === undefined) {
    return [];
  }
  if (typed.what === 'argument') {
    return row.parameters
      .filter(({ name }) => name.startsWith(typed.word) && !typed.given.has(name))
      .map(parameter => ({
        label: `${parameter.name}=`,
        type: 'param',
        documentation: aboutParameter(row, parameter)
      }));
  }
  const parameter = row.parameters.find(({ name }) => name === typed.argument);
  return (parameter?.values ?? [])
    .filter(value => value.startsWith(typed.word))
    .map(value => ({ label: value, type: 'instance', documentation: `${typed.argument} of ${titleOf(row)}` }));
}

function aboutParameter(row: OperationRow, { default: given, values }: ParameterRow): string {
  const words = [given === '' ? 'must be given' : `${given} by default`];
  if (values.length > 0 && values.length <= 8) {
    words.push(`one of ${values.join(', ')}`);
  }
  return `${titleOf(row)}${row.signature}\n\n${words.join('; ')}`;
}
