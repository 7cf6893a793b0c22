/** Tabs of the main area, each with a live view of one graph of a kernel, as able as the view of a cell. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { type ILook, lookOf, messageOf, takeLook } from '../core';
import { render } from '../widget';
import { addTab, showTab } from './beside';
import { CommModel } from './comm-model';
import { graphIcon } from './icons';
import { type ILiveGraph, type ILiveGraphs, nameOf } from './live';
import { listGraphs, openView, showInView } from './probe';
import { GRAPH_TAB } from './tokens';
import { type IListedView, viewRegistry } from './views';

/** How long somebody has looked at something before it is remembered. */
const QUIET_MS = 300;

/** Where the graph of a tab lives, for a page that is loaded again. */
interface IHome {
  /** Path of the notebook whose kernel holds the graph. */
  path: string;
  /** Id of the kernel: the graph's own id means something in it alone. */
  kernel: string;
  /** Id of the graph that the tab was made for: what the page knows the tab by, whatever it shows. */
  first: string;
}

/** The view of one graph of a kernel; follows it as cells change it. */
class GraphTab extends Widget {
  /** The kernel that the graph is asked for; null until the notebook of a restored tab has one. */
  kernel: Kernel.IKernelConnection | null = null;

  constructor(
    private _graph: ILiveGraph,
    readonly home: IHome,
    /** How the graph was looked at in an earlier page, or before its kernel started again. */
    private _look: ILook | null,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-MaxLab-mainTab');
    this.title.icon = graphIcon;
    this.title.closable = true;
    this.title.label = nameOf(_graph);
  }

  get graph(): ILiveGraph {
    return this._graph;
  }

  /** How the graph is looked at; null when it was not drawn yet. */
  get look(): ILook | null {
    return this._look;
  }

  /** Somebody looks at the graph in another way. */
  readonly lookChanged = new Signal<this, void>(this);

  /** Show `graph`, when it is not what is shown already; what changes in it comes by itself. */
  async follow(graph: ILiveGraph): Promise<void> {
    const { kernel } = this;
    const hasShown = this._graph.id === graph.id && this._model?.isOpen === true;
    this._graph = graph;
    this.title.label = nameOf(graph);
    if (kernel === null || hasShown) {
      return;
    }
    try {
      if (this._model?.isOpen === true) {
        await showInView(kernel, this._model.id, graph.id);
      } else {
        await this._open(kernel, graph.id);
      }
    } catch (error) {
      this.say(messageOf(error));
    }
  }

  /** Say that the graph is gone; what was drawn of it stays. */
  orphan(): void {
    this.title.label = this._trans.__('%1 (gone)', nameOf(this._graph));
  }

  /** Say why nothing is drawn yet. */
  say(message: string): void {
    if (!this.isDisposed && !this._unmount) {
      this.addClass('jp-MaxLab-unreadable');
      this.node.textContent = this._trans.__('%1 cannot be shown: %2', nameOf(this._graph), message);
    }
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._close();
      super.dispose();
    }
  }

  /** Gives the keyboard to the graph, now or when it is drawn. */
  protected override onActivateRequest(): void {
    this._isWanted = true;
    this._view()?.execute('focus-graph');
  }

  /** The view that is mounted here, which JupyterLab lists as it lists all. */
  private _view(): IListedView | undefined {
    return viewRegistry.views.find(({ element }) => this.node.contains(element));
  }

  private async _open(kernel: Kernel.IKernelConnection, id: string): Promise<void> {
    const turn = ++this._turn;
    const gone = this._trans.__('the kernel of this graph was restarted; run its cell again');
    const model = new CommModel(await openView(kernel), id, gone);
    await model.ready;
    if (this.isDisposed || turn !== this._turn) {
      model.close();
      return;
    }
    this._close();
    this.removeClass('jp-MaxLab-unreadable');
    this.node.textContent = '';
    this._model = model;
    this._unmount = render({ model, el: this.node, isFilling: true });
    const view = this._view();
    const drawn = view?.events.on('layoutDone', () => {
      drawn?.();
      if (this._isWanted) {
        view.execute('focus-graph');
      }
      void this._watch(view);
    });
    const ended = (_: unknown, status: Kernel.Status): void => {
      if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
        model.end();
      }
    };
    kernel.statusChanged.connect(ended);
    this._forget = () => kernel.statusChanged.disconnect(ended);
  }

  /** Lets `view` look as it did before, and remembers how it looks from then on. */
  private async _watch(view: IListedView): Promise<void> {
    const { _look: look } = this;
    if (look !== null) {
      // A tab that is behind another has no size yet, in which the camera could have a place.
      await new Promise<void>(resolve => {
        const stop = view.events.on('lookChanged', () => {
          if (view.stage.width > 0) {
            stop();
            resolve();
          }
        });
      });
      await takeLook(view, look);
    }
    const keep = (): void => {
      if (!view.isDisposed) {
        this._look = lookOf(view);
        this.lookChanged.emit();
      }
    };
    view.events.on('lookChanged', () => {
      window.clearTimeout(this._timer);
      this._timer = window.setTimeout(keep, QUIET_MS);
    });
  }

  private _close(): void {
    window.clearTimeout(this._timer);
    this._forget();
    this._unmount?.();
    this._unmount = null;
    this._model?.close();
    this._model = null;
  }

  private _model: CommModel | null = null;
  private _unmount: (() => void) | null = null;
  private _forget: () => void = () => undefined;
  private _turn = 0;
  private _timer = 0;
  private _isWanted = false;
}

/**
 * What a tab of `graph` shows now: what its variable holds, so that running a cell again shows the new
 * graph in the old tab; without a variable, the graph itself.
 */
function successor(graph: ILiveGraph, graphs: readonly ILiveGraph[]): ILiveGraph | undefined {
  const [name] = graph.names;
  return name === undefined
    ? graphs.find(candidate => candidate.id === graph.id)
    : graphs.find(candidate => candidate.names.includes(name));
}

/** What is asked for, of which a restored tab knows the notebook, too. */
export interface IGraphPlace {
  id: string;
  name?: string;
  path?: string;
  kernel?: string;
  first?: string;
  look?: ILook;
}

export class GraphTabs {
  readonly tracker = new WidgetTracker<MainAreaWidget<GraphTab>>({ namespace: 'maxlab-graphs' });

  constructor(
    private readonly _shell: JupyterFrontEnd.IShell,
    private readonly _live: ILiveGraphs,
    private readonly _notebooks: INotebookTracker,
    private readonly _trans: TranslationBundle
  ) {
    _live.stateChanged.connect(this._follow, this);
    _notebooks.widgetAdded.connect((_, panel) => void this._connect(panel));
  }

  /** Show the tab of the graph with this id, made when there is none yet. */
  async open(place: IGraphPlace): Promise<void> {
    const { id, path, kernel: home, first } = place;
    if (path !== undefined && home !== undefined && first !== undefined) {
      this._restore(place, { path, kernel: home, first });
      return;
    }
    const kernel = this._live.kernel;
    const graph = this._live.graphs.find(candidate => candidate.id === id);
    if (!kernel || !graph) {
      throw new Error(this._trans.__('No graph with the id %1 lives in this kernel.', id));
    }
    let tab = this._tabs.find(
      ({ content }) => content.graph.id === id && content.home.kernel === kernel.id
    );
    if (!tab) {
      const notebook = this._notebooks.currentWidget?.context.path ?? '';
      tab = this._add(graph, { path: notebook, kernel: kernel.id, first: id });
      tab.content.kernel = kernel;
    }
    showTab(this._shell, tab);
    await tab.content.follow(graph);
    await this.tracker.save(tab);
  }

  /** How a tab is opened again when the page is loaded again. */
  placeOf(tab: MainAreaWidget<GraphTab>): ReadonlyPartialJSONObject {
    const { graph, home, look } = tab.content;
    const place = { id: graph.id, name: nameOf(graph), ...home };
    return look === null ? place : { ...place, look: { ...look } };
  }

  /** Put back a tab of an earlier page: it is filled when its notebook has its kernel. */
  private _restore({ id, name = '', look }: IGraphPlace, home: IHome): void {
    const graph: ILiveGraph = { id, kind: 'Graph', title: name, names: [name], stamp: '', ops: 0 };
    const { content } = this._add(graph, home, look);
    content.say(this._trans.__('%1 is not open', home.path));
    this._notebooks.forEach(panel => void this._connect(panel));
  }

  /** Fill the restored tabs whose graphs live in the kernel of `panel`. */
  private async _connect(panel: NotebookPanel): Promise<void> {
    await panel.context.ready;
    await panel.sessionContext.ready;
    const kernel = panel.sessionContext.session?.kernel;
    const waiting = this._tabs.filter(
      ({ content }) => content.kernel === null && content.home.path === panel.context.path
    );
    if (!kernel || waiting.length === 0) {
      return;
    }
    const graphs = await listGraphs(kernel).catch(() => []);
    for (const { content } of waiting) {
      content.kernel = kernel;
      const graph =
        graphs.find(({ id }) => kernel.id === content.home.kernel && id === content.graph.id) ??
        successor(content.graph, graphs);
      if (graph) {
        void content.follow(graph);
      } else {
        content.say(this._trans.__('it is gone from the kernel; run its cell again'));
      }
    }
  }

  private _add(graph: ILiveGraph, home: IHome, look: ILook | null = null): MainAreaWidget<GraphTab> {
    const content = new GraphTab(graph, home, look, this._trans);
    const tab = new MainAreaWidget({ content });
    tab.addClass(GRAPH_TAB);
    content.lookChanged.connect(() => void this.tracker.save(tab));
    tab.id = `maxlab-graph-${home.kernel}-${home.first}`;
    tab.disposed.connect(() => {
      this._tabs = this._tabs.filter(other => other !== tab);
    });
    this._tabs.push(tab);
    addTab(this._shell, tab, { mode: 'split-right' });
    void this.tracker.add(tab);
    return tab;
  }

  private _follow(): void {
    const { kernel, state, graphs } = this._live;
    if (state !== 'ready' || !kernel) {
      return;
    }
    for (const tab of this._tabs) {
      const { content } = tab;
      if (content.kernel?.id !== kernel.id) {
        continue;
      }
      const graph = successor(content.graph, graphs);
      if (graph) {
        void content.follow(graph).then(() => this.tracker.save(tab));
      } else {
        content.orphan();
      }
    }
  }

  private _tabs: MainAreaWidget<GraphTab>[] = [];
}
