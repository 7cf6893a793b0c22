/** The plugin `panels`: panels of graph views, moved out of them into tabs, several at once. */

import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, WidgetTracker } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { fits, PANELS } from '../core';
import { isText, record } from '../proto/shape';
import { addTab, showTab } from './beside';
import { PanelTab, titleOf } from './panel-tab';
import { CommandIDs, EXTENSION, GRAPH_TAB, IViews, NO_ARGUMENTS } from './tokens';
import type { IListedView, IViewRegistry } from './views';

/** Which panel is meant, and of which view, when that is not the one the user is in. */
const isPlace = record({ panel: isText, home: isText, label: isText });

/** Id of the tab that `view` stands in; empty in a notebook. */
function homeOf(view: IListedView): string {
  return view.element.closest(`.${GRAPH_TAB}`)?.id ?? '';
}

export const panelsPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:panels`,
  description: 'Moves panels of a graph view into tabs of their own, and back.',
  autoStart: true,
  requires: [IViews],
  optional: [ITranslator, ICommandPalette, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    views: IViewRegistry,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('maxlab');
    const { commands, shell } = app;
    const tracker = new WidgetTracker<PanelTab>({ namespace: 'maxlab-panels' });

    const add = (tab: PanelTab): void => {
      // Panels stand below each other, so that the graph beside them keeps its room.
      const above = tracker.find(other => other.isVisible);
      addTab(
        shell,
        tab,
        above === undefined ? { mode: 'split-right' } : { mode: 'split-bottom', ref: above.id }
      );
      void tracker.add(tab);
    };
    const open = (view: IListedView, panel: string): PanelTab => {
      let tab = tracker.find(other => other.view === view && other.panel === panel);
      if (tab === undefined) {
        tab = new PanelTab(panel, homeOf(view), titleOf(panel), trans);
        add(tab);
        tab.fill(view);
        void tracker.save(tab);
      }
      showTab(shell, tab);
      return tab;
    };
    const tabsOf = (view: IListedView): PanelTab[] => tracker.filter(tab => tab.view === view);
    const close = (tabs: readonly PanelTab[]): void => tabs.forEach(tab => tab.dispose());
    /** The view is gone: another may come where it stood, as when its kernel has started again. */
    const left = (tabs: readonly PanelTab[]): void => {
      for (const tab of tabs) {
        tab.wait();
        if (document.getElementById(tab.home) === null) {
          tab.dispose();
        }
      }
    };
    const fill = (view: IListedView): void => {
      const home = homeOf(view);
      if (home !== '') {
        tracker
          .filter(tab => tab.view === null && tab.home === home)
          .forEach(tab => tab.fill(view));
      }
    };

    views.each(view => {
      const { events } = view;
      events.on('moveOutRequested', panel => void open(view, panel));
      events.on('putBackRequested', panel => {
        close(tabsOf(view).filter(tab => tab.panel === panel));
        view.showDock(panel);
      });
      events.on('layoutDone', () => fill(view));
      events.on('disposed', () => {
        const tabs = tabsOf(view);
        // Who disposes of the view may be taking its tab away, too, which is known a moment later.
        window.setTimeout(() => left(tabs.filter(tab => !tab.isDisposed && tab.view === view)));
      });
    });

    commands.addCommand(CommandIDs.movePanel, {
      label: trans.__('Move the open panel into a tab of its own'),
      caption: trans.__('Timeline, roofline and the others beside the graph, several at once'),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            panel: { type: 'string', enum: PANELS.map(({ id }) => id) },
            home: { type: 'string', description: trans.__('The tab of its graph, where it is put back') },
            label: { type: 'string', description: trans.__('Its label, where it is put back') }
          }
        }
      },
      isEnabled: args =>
        typeof args.home === 'string' ||
        typeof args.panel === 'string' ||
        (views.active?.docking.dock.current ?? null) !== null,
      execute: args => {
        if (fits(isPlace, args)) {
          // A tab of an earlier page: it is filled when its graph is drawn, which nothing waits for.
          const tab = new PanelTab(args.panel, args.home, args.label, trans);
          add(tab);
          views.views.forEach(fill);
          return tab;
        }
        const panel = typeof args.panel === 'string' ? args.panel : undefined;
        views.active?.docking.dock.askOut(panel);
        return undefined;
      }
    });
    /** The tab of a panel that the user is in. */
    const current = (): PanelTab | null =>
      tracker.find(tab => tab === shell.currentWidget) ?? tracker.currentWidget;
    commands.addCommand(CommandIDs.putPanelBack, {
      label: trans.__('Put the panel back below its graph'),
      describedBy: NO_ARGUMENTS,
      isEnabled: () => current() !== null,
      execute: () => {
        const tab = current();
        const view = tab?.view ?? null;
        tab?.dispose();
        view?.showDock(tab?.panel);
      }
    });
    void restorer?.restore(tracker, {
      command: CommandIDs.movePanel,
      args: ({ panel, home, title }) => ({ panel, home, label: title.label }),
      // What stands in a notebook has no place that a later page would know.
      name: ({ panel, home }) => (home === '' ? '' : `${home}:${panel}`)
    });
    void app.restored.then(() => left(tracker.filter(tab => tab.view === null)));
    for (const command of [CommandIDs.movePanel, CommandIDs.putPanelBack]) {
      palette?.addItem({ command, category: 'maxlab' });
    }
  }
};
