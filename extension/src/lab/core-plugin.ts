/** The plugin `core`: provides the views of the page, and lends the view's code to notebook widgets. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import * as widget from '../widget';
import { GraphView } from './graph-view';
import { EXTENSION, IViews, VERSION } from './tokens';
import { type IViewRegistry, viewRegistry } from './views';

/**
 * What the loader of the notebook widget looks for. When it is there and of the same version as the
 * Python side, nothing is fetched from the kernel, and the view is one that JupyterLab's commands know.
 */
interface ILent {
  readonly version: string;
  readonly render: typeof widget.render;
  readonly GraphView: typeof GraphView;
}

declare global {
  var __maxlab: ILent | undefined;
}

export const corePlugin: JupyterFrontEndPlugin<IViewRegistry> = {
  id: `${EXTENSION}:core`,
  description: 'Knows every graph view of the page, and lends its code to notebook widgets.',
  autoStart: true,
  provides: IViews,
  activate: (): IViewRegistry => {
    globalThis.__maxlab = { version: VERSION, render: widget.render, GraphView };
    return viewRegistry;
  }
};
