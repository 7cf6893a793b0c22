/** The side panel: the graphs and models in the kernel of the current notebook. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal, refreshIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { ReactElement } from 'react';

import { graphIcon } from './icons';
import { type ILiveGraph, type ILiveGraphs, nameOf } from './live';
import { CommandIDs } from './tokens';

export class GraphsPanel extends ReactWidget {
  constructor(
    private readonly _live: ILiveGraphs,
    private readonly _commands: CommandRegistry,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.id = 'maxlab-graphs';
    this.addClass('jp-MaxLab-graphs');
    this.title.icon = graphIcon;
    this.title.caption = _trans.__('Graphs in the kernel (maxlab)');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', this.title.caption);
  }

  protected render(): ReactElement {
    return (
      <UseSignal signal={this._live.stateChanged} initialSender={this._live}>
        {() => <Graphs live={this._live} commands={this._commands} trans={this._trans} />}
      </UseSignal>
    );
  }
}

interface IGraphsProps {
  live: ILiveGraphs;
  commands: CommandRegistry;
  trans: TranslationBundle;
}

function Graphs({ live, commands, trans }: IGraphsProps): ReactElement {
  const busy = live.state === 'busy' || live.state === 'starting';
  const named = live.graphs.filter(graph => graph.names.length > 0);
  const unnamed = live.graphs.filter(graph => graph.names.length === 0);
  const canTutorial = live.graphs.length === 0 && commands.isVisible(CommandIDs.openTutorial);
  return (
    <>
      <header className="jp-MaxLab-graphs-header">
        <h2>{trans.__('Graphs')}</h2>
        <button
          className="jp-MaxLab-graphs-refresh"
          title={trans.__('Ask the kernel again')}
          aria-label={trans.__('Ask the kernel again')}
          disabled={live.kernel === null}
          onClick={() => void commands.execute(CommandIDs.refreshGraphs)}
        >
          <refreshIcon.react tag="span" height="16px" width="16px" />
        </button>
      </header>
      {live.notebook !== '' && <p className="jp-MaxLab-graphs-notebook">{live.notebook}</p>}
      <GraphList graphs={named} busy={busy} commands={commands} trans={trans} />
      {unnamed.length > 0 && (
        <details className="jp-MaxLab-graphs-more">
          <summary>
            {trans._n('%1 without a variable', '%1 without a variable', unnamed.length)}
          </summary>
          <GraphList graphs={unnamed} busy={busy} commands={commands} trans={trans} />
        </details>
      )}
      <p className="jp-MaxLab-graphs-note" role="status">
        {describe(live, trans)}
      </p>
      {canTutorial && (
        <button
          className="jp-MaxLab-graphs-tutorial"
          onClick={() => void commands.execute(CommandIDs.openTutorial)}
        >
          {trans.__('Open the first tutorial')}
        </button>
      )}
    </>
  );
}

interface IGraphListProps {
  graphs: readonly ILiveGraph[];
  busy: boolean;
  commands: CommandRegistry;
  trans: TranslationBundle;
}

function GraphList({ graphs, busy, commands, trans }: IGraphListProps): ReactElement {
  return (
    <ul className="jp-MaxLab-graphs-list" aria-busy={busy}>
      {graphs.map(graph => (
        <GraphItem key={graph.id} graph={graph} commands={commands} trans={trans} />
      ))}
    </ul>
  );
}

interface IGraphItemProps {
  graph: ILiveGraph;
  commands: CommandRegistry;
  trans: TranslationBundle;
}

function GraphItem({ graph, commands, trans }: IGraphItemProps): ReactElement {
  const kind = graph.kind === 'Model' ? trans.__('model') : trans.__('graph');
  const isNamed = graph.names.length > 0;
  return (
    <li>
      <button
        className="jp-MaxLab-graphs-item"
        title={trans.__('Open a view of %1 in a tab', nameOf(graph))}
        onClick={() => void commands.execute(CommandIDs.openGraph, { id: graph.id })}
      >
        <graphIcon.react tag="span" height="16px" width="16px" />
        <span className={isNamed ? 'jp-MaxLab-graphs-name' : 'jp-MaxLab-graphs-unnamed'}>
          {isNamed ? graph.names.join(', ') : graph.title || trans.__('no name')}
        </span>
        <span className="jp-MaxLab-graphs-kind">
          {trans._n('%2, %1 op', '%2, %1 ops', graph.ops, kind)}
        </span>
      </button>
    </li>
  );
}

function describe(live: ILiveGraphs, trans: TranslationBundle): string {
  switch (live.state) {
    case 'none':
      return trans.__('Open a notebook to see the graphs that live in its kernel.');
    case 'no-kernel':
      return trans.__('This notebook has no kernel. Views saved in its outputs can still be explored.');
    case 'other':
      return trans.__('The kernel of this notebook is not Python.');
    case 'starting':
      return trans.__('The kernel is starting.');
    case 'busy':
      return trans.__('A cell is running; the list is refreshed when it ends.');
    case 'failed':
      return trans.__('The kernel could not be asked: %1', live.reason);
    case 'ready':
      return live.graphs.length === 0
        ? trans.__('No graph yet. Graphs and models of this kernel appear here.')
        : '';
  }
}
