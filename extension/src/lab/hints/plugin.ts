/** The plugin `hints`: what stands beside the code of graphs in cells and files. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { CodeMirrorEditor, EditorExtensionRegistry, IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import type { CodeEditor } from '@jupyterlab/codeeditor';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { PageConfig } from '@jupyterlab/coreutils';
import { IEditorTracker } from '@jupyterlab/fileeditor';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { EditorView } from '@codemirror/view';

import { fits, messageOf } from '../../core';
import type { IHintCall, ISourceHints } from '../../proto/hints';
import { isFlag, record } from '../../proto/shape';
import { serverPath } from '../places';
import { CommandIDs, EXTENSION, ILive, IViews, NO_ARGUMENTS } from '../tokens';
import type { ILiveGraphs } from '../live';
import type { IViewRegistry } from '../views';
import { openCard } from './card';
import { HintChannel } from './channel';
import { OpsCompletion } from './completion';
import { HintedEditors } from './editors';

const ID = `${EXTENSION}:hints`;

const isSettings = record({ enabled: isFlag });

/** The view of an editor of JupyterLab; null where that is another one, or has none yet. */
function viewOf(editor: CodeEditor.IEditor | null | undefined): EditorView | null {
  return editor instanceof CodeMirrorEditor ? editor.editor : null;
}

/** The hints of all notebooks, and of the files that their kernels have imported. */
class Hints {
  readonly editors: HintedEditors;

  constructor(
    private readonly _notebooks: INotebookTracker,
    private readonly _files: IEditorTracker | null,
    show: (panel: NotebookPanel | null, call: IHintCall, ids: readonly string[], withSource: boolean) => void
  ) {
    this.editors = new HintedEditors(
      { show: (view, call, ids, withSource) => show(this._panelOf(view), call, ids, withSource) },
      (view, model) => this._hintsOf(view, model)
    );
  }

  get isOn(): boolean {
    return this.editors.isOn;
  }

  /** Switches everything on or off: nothing is listened to, and no kernel told anything, while it is off. */
  set isOn(isOn: boolean) {
    if (isOn === this.editors.isOn) {
      return;
    }
    this.editors.isOn = isOn;
    if (isOn) {
      this._notebooks.widgetAdded.connect(this._addPanel, this);
      this._notebooks.forEach(panel => this._addPanel(this._notebooks, panel));
      this._files?.widgetAdded.connect(this._addFile, this);
      this._files?.forEach(file => this._addFile(this._files, file));
    } else {
      this._notebooks.widgetAdded.disconnect(this._addPanel, this);
      this._files?.widgetAdded.disconnect(this._addFile, this);
      [...this._channels.keys()].forEach(panel => this._drop(panel));
    }
  }

  private _addPanel(_: unknown, panel: NotebookPanel): void {
    void panel.context.ready.then(() => {
      if (this.isOn && !panel.isDisposed && !this._channels.has(panel)) {
        const channel = new HintChannel(panel.sessionContext);
        this._channels.set(panel, channel);
        channel.changed.connect((_sender, sources) => this._told(panel, sources));
        panel.disposed.connect(this._drop, this);
      }
    });
  }

  private _drop(panel: NotebookPanel): void {
    panel.disposed.disconnect(this._drop, this);
    const channel = this._channels.get(panel);
    this._channels.delete(panel);
    channel?.dispose();
  }

  private _addFile(_: unknown, file: { context: { ready: Promise<void> } }): void {
    void file.context.ready.then(() => this._refreshFiles());
  }

  /** The kernel of `panel` has other hints for these. */
  private _told(panel: NotebookPanel, sources: readonly ISourceHints[]): void {
    const cells = new Map(sources.map(source => [source.cell, source]));
    if (!panel.isDisposed) {
      for (const cell of panel.content.widgets) {
        const source = cells.get(cell.model.id);
        const view = source === undefined ? null : viewOf(cell.editor);
        if (source !== undefined && view !== null) {
          this.editors.give(view, source);
        }
      }
    }
    if (sources.some(({ path }) => path !== '')) {
      this._refreshFiles();
    }
  }

  private _refreshFiles(): void {
    this._files?.forEach(({ content, context }) => {
      const view = viewOf(content.editor);
      if (view !== null) {
        this.editors.give(view, this._ofFile(context.path)?.source ?? null);
      }
    });
  }

  /** The hints of a file: of several kernels that imported it, those of the notebook that is current. */
  private _ofFile(path: string): { panel: NotebookPanel; source: ISourceHints } | null {
    const root = PageConfig.getOption('serverRoot');
    const current = this._notebooks.currentWidget;
    const panels = [...this._channels.keys()].sort((a, b) => Number(b === current) - Number(a === current));
    for (const panel of panels) {
      const source = this._channels.get(panel)?.files.find(file => serverPath(file.path, root) === path);
      if (source !== undefined) {
        return { panel, source };
      }
    }
    return null;
  }

  private _hintsOf(view: EditorView, model: CodeEditor.IModel): ISourceHints | null {
    for (const [panel, channel] of this._channels) {
      if (panel.node.contains(view.dom)) {
        const cell = panel.content.widgets.find(widget => widget.model === model);
        return cell === undefined ? null : channel.ofCell(cell.model.id);
      }
    }
    const file = this._files?.find(({ content }) => content.model === model);
    return file === undefined ? null : (this._ofFile(file.context.path)?.source ?? null);
  }

  /** The notebook in whose kernel the graph of a call lives. */
  private _panelOf(view: EditorView): NotebookPanel | null {
    for (const panel of this._channels.keys()) {
      if (panel.node.contains(view.dom)) {
        return panel;
      }
    }
    const file = this._files?.find(({ content }) => viewOf(content.editor) === view);
    return file === undefined ? null : (this._ofFile(file.context.path)?.panel ?? null);
  }

  private readonly _channels = new Map<NotebookPanel, HintChannel>();
}

export const hintsPlugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Shapes, times and marks beside the code of graphs, and completion of operations.',
  autoStart: true,
  requires: [IEditorExtensionRegistry, INotebookTracker, ILive, IViews],
  optional: [IEditorTracker, ICompletionProviderManager, ISettingRegistry, ITranslator, ICommandPalette],
  activate: async (
    app: JupyterFrontEnd,
    extensions: IEditorExtensionRegistry,
    notebooks: INotebookTracker,
    live: ILiveGraphs,
    views: IViewRegistry,
    files: IEditorTracker | null,
    completer: ICompletionProviderManager | null,
    registry: ISettingRegistry | null,
    translator: ITranslator | null,
    palette: ICommandPalette | null
  ): Promise<void> => {
    const trans = (translator ?? nullTranslator).load('maxlab');
    const { commands, shell } = app;

    /** Opens the graph of a call beside its notebook, and selects what the line made. */
    const show = async (
      panel: NotebookPanel,
      id: string,
      ids: readonly string[],
      withSource: boolean
    ): Promise<void> => {
      shell.activateById(panel.id);
      await live.refresh();
      const before = new Set(views.views);
      await commands.execute(CommandIDs.openGraph, { id });
      const tab = shell.currentWidget;
      const view =
        views.views.find(({ element }) => tab?.node.contains(element)) ??
        views.views.find(one => !before.has(one));
      if (view === undefined) {
        return;
      }
      if (view.scene === null) {
        await new Promise<void>(resolve => {
          const stop = view.events.on('layoutDone', () => {
            stop();
            resolve();
          });
        });
      }
      view.select(ids);
      if (withSource) {
        view.execute('show-inspector');
      }
    };
    const hints = new Hints(notebooks, files, (panel, { graph }, ids, withSource) => {
      if (panel !== null) {
        void show(panel, graph, ids, withSource).catch((error: unknown) => {
          console.warn(`maxlab: ${messageOf(error)}`);
        });
      }
    });
    extensions.addExtension({
      name: 'maxlab-hints',
      factory: ({ model }) =>
        'type' in model && model.type !== 'code'
          ? null
          : EditorExtensionRegistry.createImmutableExtension(hints.editors.extensionFor(model))
    });
    completer?.registerProvider(new OpsCompletion(() => hints.isOn));

    /** The editor that has the keyboard, or had it last. */
    const current = (): CodeEditor.IEditor | null => {
      const widget = shell.currentWidget;
      const file = files?.find(one => one === widget);
      return file?.content.editor ?? notebooks.activeCell?.editor ?? null;
    };
    commands.addCommand(CommandIDs.toggleHints, {
      label: trans.__('Hints in cells'),
      caption: trans.__('Shapes, times and marks beside the code of graphs'),
      describedBy: NO_ARGUMENTS,
      isToggleable: true,
      isToggled: () => hints.isOn,
      execute: async () => {
        const isOn = !hints.isOn;
        hints.isOn = isOn;
        commands.notifyCommandChanged(CommandIDs.toggleHints);
        await registry?.set(ID, 'enabled', isOn);
      }
    });
    commands.addCommand(CommandIDs.showLine, {
      label: trans.__('Show what this line made'),
      caption: trans.__('The operations of the line with the cursor, their types and times'),
      describedBy: NO_ARGUMENTS,
      isEnabled: () => hints.isOn && current() !== null,
      execute: () => {
        const editor = current();
        const view = viewOf(editor);
        if (editor !== null && view !== null) {
          openCard(view, editor.getCursorPosition().line + 1);
        }
      }
    });
    for (const command of [CommandIDs.toggleHints, CommandIDs.showLine]) {
      palette?.addItem({ command, category: 'maxlab' });
    }

    const settings = await registry?.load(ID);
    const apply = (): void => {
      const composite = settings?.composite;
      hints.isOn = fits(isSettings, composite) ? composite.enabled : true;
      commands.notifyCommandChanged(CommandIDs.toggleHints);
    };
    settings?.changed.connect(apply);
    apply();
  }
};
