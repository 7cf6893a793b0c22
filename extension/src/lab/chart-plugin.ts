/** The plugin `charts`: each chart of the dashboard as a panel that stands where the user puts it. */

import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, WidgetTracker } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { CHARTS } from '../core';
import { addTab, showTab } from './beside';
import { type Area, ChartPanel, titleOf } from './dashboard-tab';
import { dashboardIcon } from './icons';
import { CommandIDs, EXTENSION, IMonitor, NO_ARGUMENTS } from './tokens';
import type { MonitorFeed } from './dashboard-feed';

const AREAS: readonly Area[] = ['main', 'left', 'right'];

function areaOf(given: unknown): Area | null {
  return AREAS.find(area => area === given) ?? null;
}

/** The chart that is asked for; the CPU's when there is no such. */
function chartOf(given: unknown): string {
  return CHARTS.find(([quantity]) => quantity === given)?.[0] ?? 'cpu';
}

export const chartsPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:charts`,
  description: 'Each chart of the diagnostics as a panel of its own.',
  autoStart: true,
  requires: [IMonitor],
  optional: [ITranslator, ICommandPalette, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    feed: MonitorFeed,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('maxlab');
    const { commands, shell } = app;
    const tracker = new WidgetTracker<ChartPanel>({ namespace: 'maxlab-charts' });
    const place = (panel: ChartPanel): void => {
      // Charts stand below each other, so that the notebook beside them keeps its room.
      const above = tracker.find(one => one !== panel && one.area === 'main');
      if (panel.area !== 'main') {
        shell.add(panel, panel.area, { rank: 900 });
      } else if (above === undefined) {
        addTab(shell, panel, { mode: 'split-right' });
      } else {
        addTab(shell, panel, { mode: 'split-bottom', ref: above.id });
      }
      showTab(shell, panel);
    };

    commands.addCommand(CommandIDs.openChart, {
      label: args => trans.__('Diagnostics: %1', titleOf(chartOf(args.chart))),
      caption: trans.__('One chart of the diagnostics, beside your work'),
      icon: dashboardIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            chart: { type: 'string', enum: CHARTS.map(([quantity]) => quantity) },
            area: { type: 'string', enum: [...AREAS] }
          }
        }
      },
      execute: args => {
        const chart = chartOf(args.chart);
        const area = areaOf(args.area);
        let panel = tracker.find(one => one.chart === chart);
        if (panel === undefined) {
          panel = new ChartPanel(feed, trans, chart, area ?? 'main');
          place(panel);
          // The page that puts its panels back waits for this: not until it is stored where.
          void tracker.add(panel);
        } else if (area !== null && area !== panel.area) {
          panel.area = area;
          place(panel);
          void tracker.save(panel);
        }
        showTab(shell, panel);
        return panel;
      }
    });

    /** The panel that a context menu was opened on, or the one that was used last. */
    const meant = (): ChartPanel | null => {
      const node = app.contextMenuHitTest(one => one.classList.contains('jp-MaxLab-chartPanel'));
      return tracker.find(one => one.node === node) ?? tracker.currentWidget;
    };
    const WORDS: Record<Area, string> = {
      main: trans.__('Move to the main area'),
      left: trans.__('Move to the left side'),
      right: trans.__('Move to the right side')
    };
    commands.addCommand(CommandIDs.moveChart, {
      label: args => WORDS[areaOf(args.area) ?? 'main'],
      describedBy: {
        args: { type: 'object', properties: { area: { type: 'string', enum: [...AREAS] } } }
      },
      isEnabled: args => meant() !== null && meant()?.area !== areaOf(args.area),
      execute: async args => {
        const [panel, area] = [meant(), areaOf(args.area)];
        if (panel !== null && area !== null) {
          panel.area = area;
          place(panel);
          await tracker.save(panel);
        }
      }
    });
    commands.addCommand(CommandIDs.closeCharts, {
      label: trans.__('Close all charts of the diagnostics'),
      describedBy: NO_ARGUMENTS,
      isEnabled: () => tracker.size > 0,
      execute: () => tracker.forEach(panel => panel.dispose())
    });
    for (const area of AREAS) {
      app.contextMenu.addItem({
        command: CommandIDs.moveChart,
        args: { area },
        selector: '.jp-MaxLab-chartPanel',
        rank: 0
      });
    }

    void restorer?.restore(tracker, {
      command: CommandIDs.openChart,
      args: ({ chart, area }) => ({ chart, area }),
      name: ({ chart }) => chart
    });
    for (const [chart] of CHARTS) {
      palette?.addItem({ command: CommandIDs.openChart, args: { chart }, category: 'maxlab' });
    }
    palette?.addItem({ command: CommandIDs.closeCharts, category: 'maxlab' });
  }
};
