/** The session's dashboard as a widget of JupyterLab: whole, or one chart of it alone. */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { CHARTS, type IDashboardOptions } from '../core';
import { type IDashboardSource, MonitorFeed } from './dashboard-feed';
import { Dashboard } from './graph-view';
import { dashboardIcon } from './icons';

/** The dashboard, fed by the server, so that no kernel is needed. */
class FedDashboard extends Widget {
  constructor(
    private readonly _feed: MonitorFeed<IDashboardSource>,
    options: IDashboardOptions
  ) {
    super();
    this.title.icon = dashboardIcon;
    this.title.closable = true;
    this._dashboard = new Dashboard(this.node, { ...options, shared: _feed.shared });
    this._leave = _feed.add(() => this.isVisible);
    const { events } = this._dashboard;
    const { server } = _feed;
    events.on('startRequested', period => void _feed.try(() => server.start(period)));
    events.on('stopRequested', () => void _feed.try(() => server.stop()));
    events.on('recordingRequested', () =>
      void _feed.try(async () => this._dashboard.saveRecording(await server.recording()))
    );
    events.on('detailRequested', ({ start, end }) =>
      void _feed.try(async () => this._dashboard.applyDetail(await server.detail(start, end)))
    );
    events.on('restartRequested', () => _feed.restart());
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._dashboard.refresh();
    this._feed.wake();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._feed.wake();
  }

  protected override onResize(message: Widget.ResizeMessage): void {
    super.onResize(message);
    this._dashboard.refresh();
  }

  protected override onCloseRequest(message: Message): void {
    super.onCloseRequest(message);
    this.dispose();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._leave();
      this._dashboard.dispose();
      super.dispose();
    }
  }

  private readonly _dashboard: Dashboard;
  private readonly _leave: () => void;
}

/** The tab with all charts. */
export class DashboardTab extends FedDashboard {
  constructor(feed: MonitorFeed, trans: TranslationBundle) {
    super(feed, { height: 'fill' });
    this.id = 'maxlab-diagnostics';
    this.addClass('jp-MaxLab-mainTab');
    this.title.label = trans.__('Diagnostics');
    this.title.caption = trans.__('CPU, memory and GPUs of this session (maxlab)');
  }
}

/** A saved recording, replayed. */
export class ReplayTab extends FedDashboard {
  constructor(source: IDashboardSource) {
    super(new MonitorFeed(source), { height: 'fill' });
    this.addClass('jp-MaxLab-mainTab');
    this.addClass('jp-MaxLab-file');
  }
}

/** Where a chart may stand. */
export type Area = 'main' | 'left' | 'right';

/** One chart, to stand wherever the user puts it. */
export class ChartPanel extends FedDashboard {
  constructor(
    feed: MonitorFeed,
    trans: TranslationBundle,
    readonly chart: string,
    public area: Area
  ) {
    super(feed, { height: 'fill', only: chart });
    this.id = `maxlab-chart-${chart}`;
    this.addClass('jp-MaxLab-mainTab');
    this.addClass('jp-MaxLab-chartPanel');
    this.title.label = titleOf(chart);
    this.title.caption = trans.__('%1 of this machine over time (maxlab)', titleOf(chart));
  }
}

/** What a person calls the chart `chart`. */
export function titleOf(chart: string): string {
  return CHARTS.find(([quantity]) => quantity === chart)?.[1] ?? chart;
}
