/**
 * Completes the names of operations and layers, their arguments and the words that these may be. What the kernel
 * offers, too, is listed once.
 */

import type { CompletionHandler, ICompletionContext, ICompletionProvider } from '@jupyterlab/completer';
import { Text } from '@jupyterlab/coreutils';
import { NotebookPanel } from '@jupyterlab/notebook';

import { modulesIn, typedAt } from './calls';
import { itemsFor, opsTable } from './ops-table';

/** All code of the notebook or file that `context` is of. */
function codeOf({ widget, editor }: ICompletionContext): string {
  if (widget instanceof NotebookPanel) {
    return widget.content.widgets
      .filter(({ model }) => model.type === 'code')
      .map(({ model }) => model.sharedModel.getSource())
      .join('\n');
  }
  return editor?.model.sharedModel.getSource() ?? '';
}

export class OpsCompletion implements ICompletionProvider {
  readonly identifier = 'maxlab:ops';
  /** Before the kernel's, whose items have no words of their own. */
  readonly rank = 560;
  readonly renderer = null;

  constructor(private readonly _isOn: () => boolean) {}

  isApplicable({ editor }: ICompletionContext): Promise<boolean> {
    return Promise.resolve(this._isOn() && /python/.test(editor?.model.mimeType ?? ''));
  }

  async fetch(
    { text, offset }: CompletionHandler.IRequest,
    context: ICompletionContext
  ): Promise<CompletionHandler.ICompletionItemsReply> {
    const before = text.slice(0, Text.charIndexToJsIndex(offset, text));
    const typed = typedAt(before, modulesIn(codeOf(context)));
    if (typed === null) {
      return { start: offset, end: offset, items: [] };
    }
    const start = offset - typed.word.length;
    return { start, end: offset, items: itemsFor(typed, await opsTable()) };
  }
}
