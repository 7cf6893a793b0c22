/** The plugin `reveal`: a source line that is chosen in a view is shown where it was written. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import type { IDocumentWidget } from '@jupyterlab/docregistry';
import { INotebookTracker, type Notebook, type NotebookPanel } from '@jupyterlab/notebook';
import type { Widget } from '@lumino/widgets';

import { executionOf, type IPlace, serverPath } from './places';
import { EXTENSION } from './tokens';

type Editor = NonNullable<NonNullable<Notebook['activeCell']>['editor']>;

async function revealCell(panel: NotebookPanel, execution: number, place: IPlace): Promise<void> {
  const notebook = panel.content;
  const index = notebook.widgets.findIndex(
    ({ model }) => model.type === 'code' && model.toJSON().execution_count === execution
  );
  if (index >= 0) {
    notebook.activeCellIndex = index;
    await notebook.scrollToItem(index, 'smart');
    await notebook.activeCell?.ready;
    notebook.mode = 'edit';
    showLine(notebook.activeCell?.editor ?? null, place);
  }
}

function showLine(editor: Editor | null, { line, col }: IPlace): void {
  if (editor) {
    const position = { line: Math.min(line, editor.lineCount) - 1, column: col };
    editor.setCursorPosition(position);
    editor.revealPosition(position);
    editor.focus();
  }
}

export const revealPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:reveal`,
  description: 'Shows the source line that was chosen in a graph view, in its cell or file.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker): void => {
    document.addEventListener('maxlab:reveal', event => {
      const place = (event as CustomEvent<IPlace>).detail;
      const execution = executionOf(place.file);
      const panel = tracker.find(({ node }) => node.contains(event.target as Node));
      if (execution !== null) {
        if (panel) {
          void revealCell(panel, execution, place);
        }
        return;
      }
      const path = serverPath(place.file, PageConfig.getOption('serverRoot'));
      if (path !== null) {
        void openFile(app, path, place);
      }
    });
  }
};

async function openFile(app: JupyterFrontEnd, path: string, place: IPlace): Promise<void> {
  const widget = (await app.commands.execute('docmanager:open', {
    path,
    factory: 'Editor'
  })) as IDocumentWidget<Widget & { editor: Editor }> | undefined;
  if (widget) {
    await widget.context.ready;
    showLine(widget.content.editor, place);
  }
}
