/** The plugin `mime`: registers the renderer of saved graphs everywhere outputs are shown. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { GraphOutput, StillOutput } from './mime';
import { EXTENSION, GRAPH_MIME, STILL_MIME } from './tokens';

/** Before the widget's renderer, whose rank is -10: ours hands over to it. */
const BEFORE_WIDGETS = -20;

/** Before HTML (50) and pictures (80, 90), where no widget can be. */
const BEFORE_HTML = 40;

export const mimePlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:mime`,
  description: 'Draws graphs and pages saved in the outputs of notebooks, with no kernel.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  optional: [INotebookTracker],
  activate: (
    _app: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry,
    tracker: INotebookTracker | null
  ): void => {
    // Safe: what a document holds is drawn as text and shapes, never as HTML.
    rendermime.addFactory(
      {
        safe: true,
        mimeTypes: [GRAPH_MIME],
        createRenderer: () => new GraphOutput({ widgets: null })
      },
      BEFORE_HTML
    );

    const prepare = (_: unknown, panel: NotebookPanel): void => {
      const widgets = panel.content.rendermime;
      const outputs = new Set<GraphOutput>();
      const kept = (output: GraphOutput): GraphOutput => {
        outputs.add(output);
        output.disposed.connect(() => outputs.delete(output));
        return output;
      };
      const kinds: [string, () => GraphOutput][] = [
        [GRAPH_MIME, () => new GraphOutput({ widgets })],
        [STILL_MIME, () => new StillOutput(widgets)]
      ];
      for (const [mime, make] of kinds) {
        widgets.addFactory(
          { safe: true, mimeTypes: [mime], createRenderer: () => kept(make()) },
          BEFORE_WIDGETS
        );
      }
      panel.sessionContext.connectionStatusChanged.connect((_context, status) => {
        if (status === 'connected') {
          outputs.forEach(output => output.retry());
        }
      });
    };
    tracker?.forEach(panel => prepare(null, panel));
    tracker?.widgetAdded.connect(prepare);
  }
};
