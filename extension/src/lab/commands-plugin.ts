/** The plugin `commands`: what can be done with the graph view that the user is in. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { exportPage } from './export-page';
import { saveAs } from '../core/save';
import { chooseOverlay } from './overlay-file';
import { CommandIDs, EXTENSION, IViews, NO_ARGUMENTS } from './tokens';
import type { IListedView, IViewRegistry } from './views';

interface IViewCommand {
  id: string;
  label: string;
  caption: string;
  run: (view: IListedView) => unknown;
  isEnabled?: (view: IListedView) => boolean;
  isToggled?: (view: IListedView) => boolean;
}

export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:commands`,
  description: 'Commands that act on the graph view the user is in.',
  autoStart: true,
  requires: [IViews],
  optional: [ITranslator, ICommandPalette, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    views: IViewRegistry,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    notebooks: INotebookTracker | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('maxlab');
    const list: IViewCommand[] = [
      {
        id: CommandIDs.foldAll,
        label: trans.__('Fold every module'),
        caption: trans.__('Fold all scopes of the graph view to boxes'),
        run: view => view.execute('fold-all')
      },
      {
        id: CommandIDs.unfoldAll,
        label: trans.__('Unfold every module'),
        caption: trans.__('Open all scopes of the graph view'),
        run: view => view.execute('unfold-all')
      },
      {
        id: CommandIDs.profile,
        label: trans.__('Profile the graph'),
        caption: trans.__('Run the model behind the graph view and time its kernels'),
        isEnabled: view => view.canProfile,
        run: view => view.execute('profile')
      },
      {
        id: CommandIDs.toggleDirection,
        label: trans.__('Lay the graph out from left to right'),
        caption: trans.__('Let the graph run to the right, or down again; remembered for each graph'),
        isToggled: view => view.direction === 'right',
        run: view => view.execute('toggle-direction')
      },
      {
        id: CommandIDs.toggleHeat,
        label: trans.__('Colour the graph by its time'),
        caption: trans.__('Switch the heat of the last profile on or off'),
        isEnabled: view => view.colouring.canHeat,
        isToggled: view => view.stage.isHeat,
        run: view => view.execute('toggle-heat')
      },
      {
        id: CommandIDs.search,
        label: trans.__('Search in the graph'),
        caption: trans.__('Find operations, modules and values by name, kind or shape'),
        run: view => view.execute('search')
      },
      {
        id: CommandIDs.nextColouring,
        label: trans.__('Colour the graph by the next overlay'),
        caption: trans.__('Time, and the overlays of your own, one after the other'),
        isEnabled: view => view.colouring.chooser !== null,
        run: view => view.execute('next-colouring')
      },
      {
        id: CommandIDs.loadOverlay,
        label: trans.__('Load overlay…'),
        caption: trans.__('Colour the graph by the numbers in a JSON file'),
        isEnabled: view => view.canProfile,
        run: view => {
          const beside = notebooks?.currentWidget?.context.path ?? '';
          return chooseOverlay(view, app.serviceManager.contents, beside, trans);
        }
      },
      {
        id: CommandIDs.exportHtml,
        label: trans.__('Export the graph as HTML'),
        caption: trans.__('One file that shows this graph in any browser, with no server'),
        run: async view => {
          const { document } = view.model;
          const page = await exportPage(document, app.serviceManager.serverSettings);
          saveAs(`${document.name || 'graph'}.html`, 'text/html', page);
        }
      },
      {
        id: CommandIDs.exportSvg,
        label: trans.__('Export the graph as SVG'),
        caption: trans.__('A picture of the whole graph, whose text can be selected'),
        run: view => view.execute('export-svg')
      },
      {
        id: CommandIDs.exportPng,
        label: trans.__('Export the graph as PNG'),
        caption: trans.__('A picture of the whole graph in pixels'),
        run: view => view.execute('export-png')
      },
      {
        id: CommandIDs.exportSvgView,
        label: trans.__('Export what the view shows as SVG'),
        caption: trans.__('A picture of what is in the window, whose text can be selected'),
        run: view => view.execute('export-svg-view')
      },
      {
        id: CommandIDs.exportPngView,
        label: trans.__('Export what the view shows as PNG'),
        caption: trans.__('A picture of what is in the window in pixels'),
        run: view => view.execute('export-png-view')
      },
      {
        id: CommandIDs.copyPython,
        label: trans.__('Copy as Python'),
        caption: trans.__('The program that builds this graph, on the clipboard'),
        run: view => view.execute('copy-python')
      }
    ];
    for (const { id, label, caption, run, isEnabled, isToggled } of list) {
      app.commands.addCommand(id, {
        label,
        caption,
        describedBy: NO_ARGUMENTS,
        isEnabled: () => views.active !== null && (isEnabled?.(views.active) ?? true),
        ...(isToggled && {
          isToggleable: true,
          isToggled: () => views.active !== null && isToggled(views.active)
        }),
        execute: async () => {
          if (views.active) {
            await run(views.active);
          }
        }
      });
      palette?.addItem({ command: id, category: 'maxlab' });
    }
    views.changed.connect(() => {
      list.forEach(({ id }) => app.commands.notifyCommandChanged(id));
    });
  }
};
