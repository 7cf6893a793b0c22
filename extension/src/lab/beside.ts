/** Where a tab goes: beside the others in JupyterLab, below the one document of a page in Notebook 7. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Widget } from '@lumino/widgets';

/** Whether the main area takes many tabs. Notebook 7's has one document, and drops what else it is given. */
export function hasTabs(shell: JupyterFrontEnd.IShell): boolean {
  return 'mode' in shell;
}

/** Adds a tab to what the user has open; `options` say where in JupyterLab. */
export function addTab(
  shell: JupyterFrontEnd.IShell,
  widget: Widget,
  options: DocumentRegistry.IOpenOptions = {}
): void {
  if (hasTabs(shell)) {
    shell.add(widget, 'main', options);
  } else {
    shell.add(widget, 'down');
  }
}
