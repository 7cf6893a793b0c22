/** The tabs of files: a weight file, and a graph that was saved with a run. Each watches whether its file is still there. */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { messageOf, SourceError, WeightView } from '../core';
import type { FileServer } from './file-server';
import { GraphView } from './graph-view';
import { unpack } from './unpack';

/** Between two looks at whether the file is what it was, while its tab is seen. */
const LOOK_MS = 4000;

/** Calls `gone` when the file of a tab that can be seen is no longer what was opened; returns how to stop. */
function watch(widget: Widget, server: FileServer, gone: (error: unknown) => void): () => void {
  const timer = window.setInterval(() => {
    if (server.isOpen && widget.isVisible && document.visibilityState === 'visible') {
      server.state().catch((error: unknown) => {
        window.clearInterval(timer);
        if (!widget.isDisposed) {
          gone(error);
        }
      });
    }
  }, LOOK_MS);
  return () => window.clearInterval(timer);
}

/** Tensors of a weight file. */
export class WeightTab extends Widget {
  constructor(server: FileServer, name: string) {
    super();
    this.addClass('jp-MaxLab-file');
    this._view = new WeightView(this.node, name, server);
    this._stop = watch(this, server, error => this._view.failed(error));
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._stop();
      this._view.dispose();
      super.dispose();
    }
  }

  private readonly _view: WeightView;
  private readonly _stop: () => void;
}

/** The graph of a saved run, with its times. */
export class SavedGraphTab extends Widget {
  constructor(
    private readonly _server: FileServer,
    private readonly _name: string,
    private readonly _trans: TranslationBundle,
    /** Why nothing can be run here, and what to do instead. */
    private readonly _noProfile: string
  ) {
    super();
    this.addClass('jp-MaxLab-file');
    this.addClass('jp-MaxLab-mainTab');
    this._note.className = 'jp-MaxLab-unreadable';
    this._note.setAttribute('role', 'alert');
    this._stop = watch(this, _server, error => this._say(error));
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._stop();
      this._view?.dispose();
      super.dispose();
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    // A view is made where it has a size and a theme.
    if (!this._isAsked) {
      this._isAsked = true;
      void this._open();
    }
  }

  private async _open(): Promise<void> {
    try {
      const document = await unpack((await this._server.graph()).document);
      if (!this.isDisposed) {
        this._view = new GraphView(this.node, {
          height: 'fill',
          noProfile: this._noProfile
        });
        this._view.setDocument(document);
      }
    } catch (error) {
      this._say(error);
    }
  }

  private _say(error: unknown): void {
    if (this.isDisposed) {
      return;
    }
    const isTold = error instanceof SourceError;
    const code = isTold && error.code !== '' ? ` [${error.code}]` : '';
    const fix = isTold && error.fix !== '' ? `\n${error.fix}` : '';
    this._note.textContent = this._view
      ? `${messageOf(error)}${code}${fix}`
      : this._trans.__('%1 cannot be shown: %2', this._name, `${messageOf(error)}${code}${fix}`);
    this.node.prepend(this._note);
  }

  private readonly _note = document.createElement('div');
  private readonly _stop: () => void;
  private _isAsked = false;
  private _view: GraphView | null = null;
}
