/** The plugin `reveal`: a source line that is chosen in a view is shown where it was written. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { type CodeEditor, CodeEditorWrapper } from '@jupyterlab/codeeditor';
import { PageConfig } from '@jupyterlab/coreutils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { Widget } from '@lumino/widgets';

import { fits } from '../core';
import { executionOf, type IPlace, isPlace, serverPath } from './places';
import { findCell, type IFound } from './show-cell-plugin';
import { EXTENSION } from './tokens';

/** The editor in a tab; null when there is none, as in a viewer. */
function editorIn(content: Widget): CodeEditor.IEditor | null {
  for (const child of content.children()) {
    if (child instanceof CodeEditorWrapper) {
      return child.editor;
    }
  }
  return null;
}

async function revealCell(app: JupyterFrontEnd, { panel, index }: IFound, place: IPlace): Promise<void> {
  const notebook = panel.content;
  app.shell.activateById(panel.id);
  notebook.activeCellIndex = index;
  await notebook.scrollToItem(index, 'smart');
  await notebook.activeCell?.ready;
  notebook.mode = 'edit';
  showLine(notebook.activeCell?.editor ?? null, place);
}

/**
 * The cell of a place. It keeps its id when it is run again or moved; its number becomes that of another
 * one, and is asked for only where the id is not known.
 */
function cellOf(tracker: INotebookTracker, target: Node, { cell = '', file }: IPlace): IFound | null {
  const execution = executionOf(file);
  // A copy of the notebook has the same cells: the one around the view comes first.
  const panel = tracker.find(({ node }) => node.contains(target));
  const index = panel?.content.widgets.findIndex(({ model }) =>
    cell !== ''
      ? model.id === cell
      : model.type === 'code' && model.toJSON().execution_count === execution
  );
  if (panel !== undefined && index !== undefined && index >= 0) {
    return { panel, index };
  }
  return cell === '' ? null : findCell(tracker, cell);
}

function showLine(editor: CodeEditor.IEditor | null, { line, col }: IPlace): void {
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
  requires: [INotebookTracker, IDocumentManager],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker, documents: IDocumentManager): void => {
    document.addEventListener('maxlab:reveal', event => {
      const place: unknown = event instanceof CustomEvent ? event.detail : null;
      const { target } = event;
      if (!fits(isPlace, place) || !(target instanceof Node)) {
        return;
      }
      if (place.cell !== undefined || executionOf(place.file) !== null) {
        const found = cellOf(tracker, target, place);
        if (found !== null) {
          event.preventDefault();
          void revealCell(app, found, place);
        }
        return;
      }
      const path = serverPath(place.file, PageConfig.getOption('serverRoot'));
      if (path !== null) {
        event.preventDefault();
        void openFile(documents, path, place);
      }
    });
  }
};

async function openFile(documents: IDocumentManager, path: string, place: IPlace): Promise<void> {
  const tab = documents.openOrReveal(path, 'Editor');
  if (tab !== undefined) {
    await tab.context.ready;
    showLine(editorIn(tab.content), place);
  }
}
