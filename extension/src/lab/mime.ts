/**
 * Draws graphs saved in outputs.
 *
 * An output carries both the live widget and a snapshot of the graph. JupyterLab would always pick the
 * widget, and where no kernel holds its model (a notebook opened on another day or another machine) show
 * "model not found". This renderer stands before the widget's: it lets the widget draw when it can, and
 * draws the snapshot when it cannot. Other outputs with a widget have their HTML in place of a snapshot.
 */

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { Message } from '@lumino/messaging';
import { Panel, Widget } from '@lumino/widgets';

import { messageOf, TokenButtons } from '../core';
import { GraphView } from './graph-view';
import { GRAPH_MIME, WIDGET_MIME } from './tokens';
import { unpack } from './unpack';

/** How long the widget may stay without content before the snapshot is drawn in its place. */
const PATIENCE_MS = 400;

/** Below the tokens of a saved answer, when one is chosen. */
const NO_STEP =
  'This answer was saved: its tokens, probabilities and times are here. The graph of a step needs the ' +
  'model, so run this cell again, and then choose a token.';

/** What the widget's renderer shows while it has no view, and when there will be none. */
const NOT_DRAWN = /^(Loading widget\.\.\.|Error displaying widget.*)?$/;

/** The view of a saved document. It is mounted in the page only: there it has a size and a theme. */
class Snapshot extends Widget {
  /** Show what `data` holds, packed or not, as soon as this widget is in the page. */
  async draw(data: unknown): Promise<void> {
    try {
      this._document = await unpack(data);
    } catch (error) {
      this.addClass('jp-MaxLab-unreadable');
      this.node.textContent = messageOf(error);
      return;
    }
    if (this.isAttached) {
      this._mount();
    }
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._view?.dispose();
      super.dispose();
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._mount();
  }

  private _mount(): void {
    if (this._document === undefined || this._view || this.isDisposed) {
      return;
    }
    this._view = new GraphView(this.node, {
      noProfile: 'this view was saved in the notebook; run its cell to profile'
    });
    this._view.setDocument(this._document);
  }

  private _document: unknown = undefined;
  private _view: GraphView | null = null;
}

/** A widget, and what lets it draw once it has its place. */
interface ISnapshot {
  widget: Widget;
  draw: () => Promise<void>;
}

export interface IGraphOutputOptions {
  /** The registry that holds the widget's renderer; null where there are no widgets. */
  widgets: IRenderMimeRegistry | null;
}

export class GraphOutput extends Panel implements IRenderMime.IRenderer {
  constructor(private readonly _options: IGraphOutputOptions) {
    super();
    this.addClass('jp-MaxLab-output');
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._clear();
    this._model = model;
    if (model.trusted && this._options.widgets && WIDGET_MIME in model.data) {
      await this._renderWidget(this._options.widgets, model);
    } else {
      await this._renderSnapshot();
    }
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._clear();
      super.dispose();
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    // The widget's renderer of a notebook that has just been opened waits for its kernel: once more now.
    if (this._live && !this._isDrawn()) {
      this._watch();
    }
  }

  /** Let the widget try again; called when a kernel has connected. */
  retry(): void {
    if (this._model && this._snapshot && this._options.widgets) {
      void this.renderModel(this._model);
    }
  }

  private async _renderWidget(
    widgets: IRenderMimeRegistry,
    model: IRenderMime.IMimeModel
  ): Promise<void> {
    let live: IRenderMime.IRenderer;
    try {
      live = widgets.createRenderer(WIDGET_MIME);
    } catch {
      // No widget manager in this JupyterLab.
      await this._renderSnapshot();
      return;
    }
    this._live = live;
    this.addWidget(live);
    this._observer = new MutationObserver(() => this._watch());
    this._observer.observe(live.node, { childList: true, characterData: true, subtree: true });
    this._watch();
    // Not awaited: without a kernel this promise never settles, and the output would count as not rendered.
    void live.renderModel(model).catch(() => this._renderSnapshot());
  }

  private _isDrawn(): boolean {
    return this._live !== null && !NOT_DRAWN.test(this._live.node.textContent ?? '');
  }

  /** Give the place to the widget when it has drawn, to the snapshot when it has not for a while. */
  private _watch(): void {
    window.clearTimeout(this._timer);
    const live = this._live;
    if (!live) {
      return;
    }
    // A view may hold no text, so that any child element counts as drawn too.
    if (this._isDrawn() || live.node.childElementCount > 0) {
      live.show();
      this._dropSnapshot();
      return;
    }
    this._timer = window.setTimeout(() => {
      if (!this._snapshot) {
        live.hide();
        void this._renderSnapshot();
      }
    }, PATIENCE_MS);
  }

  private async _renderSnapshot(): Promise<void> {
    const model = this._model;
    if (!model || this._snapshot || this.isDisposed) {
      return;
    }
    const { widget, draw } = this.makeSnapshot(model);
    this._snapshot = widget;
    this.addWidget(widget);
    await draw();
  }

  /** What is drawn in place of the widget of `model`. */
  protected makeSnapshot(model: IRenderMime.IMimeModel): ISnapshot {
    const widget = new Snapshot();
    return { widget, draw: () => widget.draw(model.data[GRAPH_MIME]) };
  }

  private _dropSnapshot(): void {
    this._snapshot?.dispose();
    this._snapshot = null;
  }

  private _clear(): void {
    window.clearTimeout(this._timer);
    this._observer?.disconnect();
    this._observer = null;
    this._dropSnapshot();
    this._live?.dispose();
    this._live = null;
  }

  private _model: IRenderMime.IMimeModel | null = null;
  private _live: IRenderMime.IRenderer | null = null;
  private _snapshot: Widget | null = null;
  private _observer: MutationObserver | null = null;
  private _timer = 0;
}

/** Lets the tokens of a saved answer say what their graphs need, and scrolled parts be reached by keys. */
function explainTokens(place: HTMLElement): void {
  // Cleaned HTML has lost this.
  place.querySelectorAll<HTMLElement>('.mx-rq-scroll').forEach(part => (part.tabIndex = 0));
  const said = document.createElement('p');
  said.className = 'mx-rq-said';
  said.setAttribute('role', 'status');
  const tokens = new TokenButtons(place, token => {
    said.textContent = token < 0 ? '' : NO_STEP;
    tokens.mark(token);
  });
  if (tokens.count > 0) {
    place.querySelector('.mx-rq-tokens')?.after(said);
  }
}

/** An output with a widget, whose HTML is drawn where the widget cannot be. */
export class StillOutput extends GraphOutput {
  constructor(private readonly _registry: IRenderMimeRegistry) {
    super({ widgets: _registry });
  }

  protected override makeSnapshot(model: IRenderMime.IMimeModel): ISnapshot {
    // As with any other HTML, that of a notebook which is not trusted is cleaned by its renderer.
    // What is saved without HTML, as what is compared from run to run, has a text.
    const kind = 'text/html' in model.data ? 'text/html' : 'text/plain';
    const widget = this._registry.createRenderer(kind);
    const draw = async (): Promise<void> => {
      await widget.renderModel(model);
      explainTokens(widget.node);
    };
    return { widget, draw };
  }
}
