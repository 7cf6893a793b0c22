/** Where a tab goes: beside the others in JupyterLab, below the one document of a page in Notebook 7. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { MessageLoop } from '@lumino/messaging';
import { SplitPanel, TabPanel, type Widget } from '@lumino/widgets';

/** A panel below a document that is lower than this shows nothing. */
const LEAST_PX = 160;

/** Whether the main area takes many tabs. Notebook 7's has one document, and drops what else it is given. */
function hasTabs(shell: JupyterFrontEnd.IShell): boolean {
  return 'mode' in shell;
}

/** Adds a tab to what the user has open; `options` say where in JupyterLab. */
export function addTab(
  shell: JupyterFrontEnd.IShell,
  tab: Widget,
  options: DocumentRegistry.IOpenOptions = {}
): void {
  if (hasTabs(shell)) {
    shell.add(tab, 'main', options);
  } else {
    shell.add(tab, 'down');
  }
}

/** Brings a tab to the front, and the keyboard to it. */
export function showTab(shell: JupyterFrontEnd.IShell, tab: Widget): void {
  shell.activateById(tab.id);
  // Notebook 7 shows the panel below, but neither the tab in it nor, at first, any of its height.
  const panel = tab.parent?.parent;
  if (!hasTabs(shell) && panel instanceof TabPanel) {
    panel.currentWidget = tab;
    MessageLoop.flush(); // what its parts hear of being shown changes their sizes
    if (panel.parent instanceof SplitPanel && panel.node.offsetHeight < LEAST_PX) {
      panel.parent.setRelativeSizes([1, 1]);
    }
    tab.activate();
  }
}
