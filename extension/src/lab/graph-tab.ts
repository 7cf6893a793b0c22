/** Tabs of the main area, each with the view of one graph that lives in a kernel. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { GraphView } from './graph-view';
import { graphIcon } from './icons';
import type { ILiveGraphs } from './live';
import { fetchDocument } from './probe';
import { unpack } from './unpack';

/** The view of the graph in the variable `name` of one kernel; follows the graph as cells change it. */
class GraphTab extends Widget {
  constructor(
    readonly name: string,
    readonly kernel: Kernel.IKernelConnection,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-MaxLab-mainTab');
    this.title.label = name;
    this.title.icon = graphIcon;
    this.title.closable = true;
  }

  /** Draw what the variable holds now, when it is not what is drawn already. */
  async showRevision(stamp: string): Promise<void> {
    if (stamp === this._stamp) {
      return;
    }
    this._stamp = stamp;
    try {
      const document = await unpack(await fetchDocument(this.kernel, this.name));
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
      }
    } catch (error) {
      this._stamp = '';
      this._fail((error as Error).message);
    }
  }

  /** Say that the graph is gone; what was drawn of it stays. */
  orphan(): void {
    this._stamp = '';
    this.title.label = this._trans.__('%1 (gone)', this.name);
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._view?.dispose();
      super.dispose();
    }
  }

  private _fail(message: string): void {
    if (!this.isDisposed && !this._view) {
      this.addClass('jp-MaxLab-unreadable');
      this.node.textContent = this._trans.__('%1 cannot be shown: %2', this.name, message);
    }
  }

  private _stamp = '';
  private _view: GraphView | null = null;
}

export class GraphTabs {
  constructor(
    private readonly _shell: JupyterFrontEnd.IShell,
    private readonly _live: ILiveGraphs,
    private readonly _trans: TranslationBundle
  ) {
    _live.stateChanged.connect(this._follow, this);
  }

  /** Show the tab of the graph in `name`, made when there is none yet. */
  async open(name: string): Promise<void> {
    const kernel = this._live.kernel;
    const graph = this._live.graphs.find(candidate => candidate.name === name);
    if (!kernel || !graph) {
      throw new Error(this._trans.__('No variable %1 holds a graph in this kernel.', name));
    }
    let tab = this._tabs.find(other => other.content.name === name && other.content.kernel.id === kernel.id);
    if (!tab) {
      const content = new GraphTab(name, kernel, this._trans);
      tab = new MainAreaWidget({ content });
      tab.id = `maxlab-graph-${kernel.id}-${name}`;
      const made = tab;
      tab.disposed.connect(() => {
        this._tabs = this._tabs.filter(other => other !== made);
      });
      this._tabs.push(tab);
      this._shell.add(tab, 'main', { mode: 'split-right' });
    }
    this._shell.activateById(tab.id);
    await tab.content.showRevision(graph.stamp);
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
      const graph = graphs.find(candidate => candidate.name === content.name);
      if (graph) {
        content.title.label = content.name;
        void content.showRevision(graph.stamp);
      } else {
        content.orphan();
      }
    }
  }

  private _tabs: MainAreaWidget<GraphTab>[] = [];
}
