/** Tabs of the main area, each with the view of one graph that lives in a kernel. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { messageOf } from '../core';
import { GraphView } from './graph-view';
import { graphIcon } from './icons';
import { type ILiveGraph, type ILiveGraphs, nameOf } from './live';
import { fetchDocument } from './probe';
import { unpack } from './unpack';

/** The view of one graph of a kernel; follows it as cells change it. */
class GraphTab extends Widget {
  constructor(
    private _graph: ILiveGraph,
    readonly kernel: Kernel.IKernelConnection,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-MaxLab-mainTab');
    this.title.icon = graphIcon;
    this.title.closable = true;
  }

  get graph(): ILiveGraph {
    return this._graph;
  }

  /** Draw `graph` as it is now, when that is not what is drawn already. */
  async follow(graph: ILiveGraph): Promise<void> {
    this._graph = graph;
    this.title.label = nameOf(graph);
    if (graph.stamp === this._stamp) {
      return;
    }
    this._stamp = graph.stamp;
    try {
      const document = await unpack(await fetchDocument(this.kernel, graph.id));
      if (this.isDisposed) {
        return;
      }
      this.removeClass('jp-MaxLab-unreadable');
      if (this._view) {
        this._view.setDocument(document);
      } else {
        this.node.textContent = '';
        this._view = new GraphView(this.node, {
          height: 'fill',
          noProfile: this._trans.__('a tab shows the graph; profile the model in a cell')
        });
        this._view.setDocument(document);
        if (this._isWanted) {
          await this._view.layoutDone();
          this._view.execute('focus-graph');
        }
      }
    } catch (error) {
      this._stamp = '';
      this._fail(messageOf(error));
    }
  }

  /** Say that the graph is gone; what was drawn of it stays. */
  orphan(): void {
    this._stamp = '';
    this.title.label = this._trans.__('%1 (gone)', nameOf(this._graph));
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._view?.dispose();
      super.dispose();
    }
  }

  /** Gives the keyboard to the graph, now or when it is drawn. */
  protected override onActivateRequest(): void {
    this._isWanted = true;
    this._view?.execute('focus-graph');
  }

  private _fail(message: string): void {
    if (!this.isDisposed && !this._view) {
      this.addClass('jp-MaxLab-unreadable');
      this.node.textContent = this._trans.__('%1 cannot be shown: %2', nameOf(this._graph), message);
    }
  }

  private _isWanted = false;
  private _stamp = '';
  private _view: GraphView | null = null;
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

export class GraphTabs {
  constructor(
    private readonly _shell: JupyterFrontEnd.IShell,
    private readonly _live: ILiveGraphs,
    private readonly _trans: TranslationBundle
  ) {
    _live.stateChanged.connect(this._follow, this);
  }

  /** Show the tab of the graph with this id, made when there is none yet. */
  async open(id: string): Promise<void> {
    const kernel = this._live.kernel;
    const graph = this._live.graphs.find(candidate => candidate.id === id);
    if (!kernel || !graph) {
      throw new Error(this._trans.__('No graph with the id %1 lives in this kernel.', id));
    }
    let tab = this._tabs.find(
      ({ content }) => content.graph.id === id && content.kernel.id === kernel.id
    );
    if (!tab) {
      const content = new GraphTab(graph, kernel, this._trans);
      tab = new MainAreaWidget({ content });
      tab.id = `maxlab-graph-${kernel.id}-${id}`;
      const made = tab;
      tab.disposed.connect(() => {
        this._tabs = this._tabs.filter(other => other !== made);
      });
      this._tabs.push(tab);
      this._shell.add(tab, 'main', { mode: 'split-right' });
    }
    this._shell.activateById(tab.id);
    await tab.content.follow(graph);
  }

  private _follow(): void {
    const { kernel, state, graphs } = this._live;
    if (state !== 'ready' || !kernel) {
      return;
    }
    for (const { content } of this._tabs) {
      if (content.kernel.id !== kernel.id) {
        continue;
      }
      const graph = successor(content.graph, graphs);
      if (graph) {
        void content.follow(graph);
      } else {
        content.orphan();
      }
    }
  }

  private _tabs: MainAreaWidget<GraphTab>[] = [];
}
