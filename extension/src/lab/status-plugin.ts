/** The plugin `status`: how busy the machine is, in the status bar. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { IMachineNow } from '../proto/dashboard';
import type { MonitorFeed } from './dashboard-feed';
import { hintOf, wordsOf } from './status-words';
import { CommandIDs, EXTENSION, IMonitor } from './tokens';

const FIRST_MS = 1000;
const EVERY_MS = 5000;

class MachineStatus extends Widget {
  constructor(
    private readonly _feed: MonitorFeed,
    private readonly _click: string,
    open: () => void
  ) {
    super({ node: document.createElement('button') });
    this.addClass('jp-MaxLab-status');
    this.node.setAttribute('type', 'button');
    this.node.addEventListener('click', open);
    this.hide();
    this._wait(0);
  }

  override dispose(): void {
    window.clearTimeout(this._timer);
    super.dispose();
  }

  private _wait(pause: number): void {
    this._timer = window.setTimeout(() => void this._ask(), pause);
  }

  private async _ask(): Promise<void> {
    if (document.visibilityState === 'visible') {
      let now: IMachineNow;
      try {
        now = await this._feed.server.now();
      } catch {
        // A server without the extension: it would not come by asking again.
        this.hide();
        return;
      }
      if (this.isDisposed) {
        return;
      }
      const words = wordsOf(now);
      this.node.textContent = words;
      this.node.title = hintOf(now, this._click);
      this.node.setAttribute('aria-label', `${words}. ${this._click}`);
      this.show();
      // The first answer knows no share yet.
      this._wait(now.cpu === null ? FIRST_MS : EVERY_MS);
      return;
    }
    this._wait(EVERY_MS);
  }

  private _timer = 0;
}

export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:status`,
  description: 'CPU, memory and GPUs of the machine in the status bar.',
  autoStart: true,
  requires: [IMonitor],
  // Notebook 7 has none.
  optional: [IStatusBar, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    feed: MonitorFeed,
    bar: IStatusBar | null,
    translator: ITranslator | null
  ): void => {
    if (bar === null) {
      return;
    }
    const trans = (translator ?? nullTranslator).load('maxlab');
    const item = new MachineStatus(feed, trans.__('Click for the diagnostics.'), () => {
      void app.commands.execute(CommandIDs.openDiagnostics);
    });
    bar.registerStatusItem(`${EXTENSION}:status`, { item, align: 'left', rank: 50, priority: 1 });
  }
};
