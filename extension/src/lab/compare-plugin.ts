/**
 * The plugin `compare`: opens what differs between two documents as a tab, from the file browser and from
 * the editor of a document, without a kernel.
 */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, MainAreaWidget, showDialog } from '@jupyterlab/apputils';
import { PathExt, URLExt } from '@jupyterlab/coreutils';
import { FileDialog, IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { ServerConnection } from '@jupyterlab/services';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { problemText } from '../core';
import { isCompared, type IComparedSide, type ICompareQuestion } from '../proto/files';
import { read } from '../proto/shape';
import { addTab, showTab } from './beside';
import { GraphDocument } from './editor/factory';
import { refusedBy } from './file-server';
import { GraphView } from './graph-view';
import { graphIcon } from './icons';
import { CommandIDs, EXTENSION, NO_ARGUMENTS } from './tokens';
import { unpack } from './unpack';
import { viewRegistry } from './views';

const EXT = '.mlgraph';

/** What differs between two documents, as the server reads them. */
async function askServer(settings: ServerConnection.ISettings, question: ICompareQuestion): Promise<unknown> {
  const url = URLExt.join(settings.baseUrl, 'maxlab/graphs/compare');
  const init: RequestInit = { method: 'POST', body: JSON.stringify(question), cache: 'no-store' };
  const response = await ServerConnection.makeRequest(url, init, settings);
  if (!response.ok) {
    throw refusedBy(response.status, (await response.text()).slice(0, 4000));
  }
  const answer: unknown = await response.json();
  const old = 'the Jupyter server runs another version of maxlab than this page';
  return unpack(read(isCompared, answer, old).document);
}

/** The content of the tab of a comparison: both graphs in one picture, and the list of differences. */
class Comparison extends Widget {
  constructor(
    private readonly _ask: () => Promise<unknown>,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-MaxLab-file');
    this.addClass('jp-MaxLab-mainTab');
    this.node.tabIndex = -1;
    this._note.className = 'jp-MaxLab-unreadable';
    this._note.setAttribute('role', 'alert');
  }

  override dispose(): void {
    if (!this.isDisposed) {
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

  protected override onActivateRequest(): void {
    if (this._view?.execute('focus-graph') !== true) {
      this.node.focus();
    }
  }

  private async _open(): Promise<void> {
    try {
      const document = await this._ask();
      if (!this.isDisposed) {
        this._view = new GraphView(this.node, {
          height: 'fill',
          noProfile: this._trans.__('two graphs are compared here; open one of them to run it')
        });
        this._view.setDocument(document);
      }
    } catch (error) {
      if (!this.isDisposed) {
        this._note.textContent = this._trans.__('These cannot be compared: %1', problemText(error));
        this.node.prepend(this._note);
      }
    }
  }

  private readonly _note = document.createElement('div');
  private _isAsked = false;
  private _view: GraphView | null = null;
}

export const comparePlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:compare`,
  description: 'Opens what differs between two documents of graphs as a tab.',
  autoStart: true,
  optional: [ITranslator, ICommandPalette, IDefaultFileBrowser, IDocumentManager],
  activate: (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    browser: IDefaultFileBrowser | null,
    documents: IDocumentManager | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('maxlab');
    const { commands, serviceManager, shell } = app;
    const { contents, serverSettings } = serviceManager;
    let tabs = 0;

    const show = (before: IComparedSide, after: IComparedSide, title: string): void =>
      showDocument(() => askServer(serverSettings, { before, after }), title);
    const showDocument = (ask: () => Promise<unknown>, title: string): void => {
      const content = new Comparison(ask, trans);
      const tab = new MainAreaWidget({ content });
      tab.id = `maxlab-comparison-${(tabs += 1)}`;
      tab.title.label = title;
      tab.title.caption = title;
      tab.title.icon = graphIcon;
      tab.title.closable = true;
      tab.toolbar.hide();
      addTab(shell, tab);
      showTab(shell, tab);
    };
    const side = (path: string): IComparedSide => ({ path: contents.localPath(path) });
    const selected = (): string[] =>
      [...(browser?.selectedItems() ?? [])].map(({ path }) => path).filter(path => path.endsWith(EXT));
    const current = (): GraphDocument | null =>
      shell.currentWidget instanceof GraphDocument ? shell.currentWidget : null;

    commands.addCommand(CommandIDs.compareGraphs, {
      label: () => (selected().length === 2 ? trans.__('Compare Graphs') : trans.__('Compare Graph With…')),
      caption: trans.__('Show what differs between two documents of graphs (maxlab)'),
      icon: graphIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            before: { type: 'string', description: trans.__('The path of the first document') },
            after: { type: 'string', description: trans.__('The path of the second one') }
          }
        }
      },
      isVisible: () => selected().length === 1 || selected().length === 2,
      execute: async args => {
        const [first, second] = selected();
        const before = typeof args.before === 'string' ? args.before : first;
        let after = typeof args.after === 'string' ? args.after : second;
        if (before !== undefined && after === undefined && documents !== null) {
          const result = await FileDialog.getOpenFiles({
            manager: documents,
            title: trans.__('Compare %1 with', PathExt.basename(before)),
            filter: ({ type, path }) => (type === 'directory' || path.endsWith(EXT) ? {} : null)
          });
          after = result.button.accept ? result.value?.[0]?.path : undefined;
        }
        if (before !== undefined && after !== undefined) {
          const names = [before, after].map(path => PathExt.basename(path));
          show(side(before), side(after), names.join(' → '));
        }
      }
    });
    const withPast = (id: string, label: string, past: (path: string) => IComparedSide): void => {
      commands.addCommand(id, {
        label,
        describedBy: NO_ARGUMENTS,
        isEnabled: () => current() !== null,
        execute: async () => {
          const document = current();
          if (document === null) {
            return;
          }
          const { path, model } = document.context;
          const text = model.toString();
          if (text.trim() === '') {
            await showDialog({
              title: trans.__('There is nothing to compare'),
              body: trans.__('The document is empty.'),
              buttons: [Dialog.okButton()]
            });
            return;
          }
          const local = contents.localPath(path);
          show(past(local), { path: local, text }, trans.__('%1: %2', PathExt.basename(path), label));
        }
      });
      palette?.addItem({ command: id, category: 'maxlab' });
    };
    withPast(CommandIDs.compareWithSaved, trans.__('Compare the graph with what is saved'), path => ({ path }));
    withPast(CommandIDs.compareWithHead, trans.__('Compare the graph with the last commit of Git'), path => ({
      path,
      revision: 'HEAD'
    }));
    const runBefore = trans.__('Compare the graph with the run before of its cell');
    commands.addCommand(CommandIDs.compareWithRunBefore, {
      label: runBefore,
      describedBy: NO_ARGUMENTS,
      isEnabled: () => viewRegistry.active !== null && current() === null,
      execute: () => {
        const view = viewRegistry.active;
        if (view !== null) {
          const ask = async (): Promise<unknown> => unpack((await view.docking.ask('rerun', {})).data.document);
          showDocument(ask, trans.__('%1: two runs', view.model.document.name));
        }
      }
    });
    palette?.addItem({ command: CommandIDs.compareWithRunBefore, category: 'maxlab' });
    viewRegistry.changed.connect(() => commands.notifyCommandChanged(CommandIDs.compareWithRunBefore));
    shell.currentChanged?.connect(() => {
      commands.notifyCommandChanged(CommandIDs.compareWithSaved);
      commands.notifyCommandChanged(CommandIDs.compareWithRunBefore);
      commands.notifyCommandChanged(CommandIDs.compareWithHead);
    });
  }
};
