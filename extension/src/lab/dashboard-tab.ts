/** The tab with the dashboard of the session: fed by the server, so that no kernel is needed. */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { Dashboard } from '../core';
import { messageOf } from '../core';
import type { MonitorServer } from './dashboard-server';
import { dashboardIcon } from './icons';

/** Between two requests while something is recorded, and while nothing is. */
const FAST_MS = 500;
const SLOW_MS = 1000;
const IDLE_MS = 3000;

export class DashboardTab extends Widget {
  constructor(
    private readonly _server: MonitorServer,
    trans: TranslationBundle
  ) {
    super();
    this.id = 'maxlab-diagnostics';
    this.addClass('jp-MaxLab-mainTab');
    this.title.label = trans.__('Diagnostics');
    this.title.caption = trans.__('CPU, memory and GPUs of this session (maxlab)');
    this.title.icon = dashboardIcon;
    this.title.closable = true;
    const { events } = (this._dashboard = new Dashboard(this.node, { height: 'fill' }));
    events.on('startRequested', period => void this._do(() => this._server.start(period)));
    events.on('stopRequested', () => void this._do(() => this._server.stop()));
    events.on('recordingRequested', () =>
      void this._do(async () => this._dashboard.saveRecording(await this._server.recording()))
    );
    events.on('detailRequested', ({ start, end }) =>
      void this._do(async () => this._dashboard.applyDetail(await this._server.detail(start, end)))
    );
    events.on('restartRequested', () => {
      this._fromStart = true;
    });
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._wake();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._wake();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      window.clearTimeout(this._timer);
      this._dashboard.dispose();
      super.dispose();
    }
  }

  private async _do(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this._wake();
    } catch (error) {
      this._dashboard.fail(messageOf(error));
    }
  }

  private _wake(): void {
    window.clearTimeout(this._timer);
    void this._ask();
  }

  /** Asks for what is new, and again after a while: one request at a time, none for a hidden tab. */
  private async _ask(): Promise<void> {
    if (this._isAsking) {
      return;
    }
    let pause = IDLE_MS;
    if (this.isVisible && document.visibilityState === 'visible') {
      this._isAsking = true;
      try {
        const frame = await this._server.frame(this._fromStart ? '' : this._dashboard.data.cursor);
        this._fromStart = false;
        if (!this.isDisposed) {
          this._dashboard.apply(frame);
          const { running, period } = frame.state;
          pause = running ? (period < 1 ? FAST_MS : SLOW_MS) : IDLE_MS;
        }
      } catch (error) {
        if (!this.isDisposed) {
          this._dashboard.fail(messageOf(error));
        }
      } finally {
        this._isAsking = false;
      }
    }
    if (!this.isDisposed) {
      this._timer = window.setTimeout(() => void this._ask(), pause);
    }
  }

  private readonly _dashboard: Dashboard;
  private _fromStart = false;
  private _isAsking = false;
  private _timer = 0;
}
