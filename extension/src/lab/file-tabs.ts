/** The tabs of files: a weight file, a graph that was saved with a run, a kept model. Each watches whether its file is still there. */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { ModelView, problemText, WeightView } from '../core';
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
    protected readonly _server: FileServer,
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

  /** Where the graph is drawn. */
  protected get _room(): HTMLElement {
    return this.node;
  }

  protected async _open(): Promise<void> {
    try {
      const document = await unpack((await this._server.graph()).document);
      if (!this.isDisposed) {
        this._view = new GraphView(this._room, {
          height: 'fill',
          noProfile: this._noProfile
        });
        this._view.setDocument(document);
      }
    } catch (error) {
      this._say(error);
    }
  }

  protected _say(error: unknown): void {
    if (this.isDisposed) {
      return;
    }
    const text = problemText(error);
    this._note.textContent = this._view
      ? text
      : this._trans.__('%1 cannot be shown: %2', this._name, text);
    this._room.prepend(this._note);
  }

  private readonly _note = document.createElement('div');
  private readonly _stop: () => void;
  private _isAsked = false;
  private _view: GraphView | null = null;
}

/** A kept model: what it says of itself, and the graph in it. */
export class ModelTab extends SavedGraphTab {
  constructor(server: FileServer, name: string, trans: TranslationBundle) {
    super(server, name, trans, trans.__('nothing of a file is run by looking at it; load it in a notebook'));
    this._model = new ModelView(this.node, name, () => server.model());
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._model.dispose();
      super.dispose();
    }
  }

  protected override get _room(): HTMLElement {
    return this._model.room;
  }

  protected override async _open(): Promise<void> {
    if ((await this._model.open()) && !this.isDisposed) {
      await super._open();
    }
  }

  private readonly _model: ModelView;
}
