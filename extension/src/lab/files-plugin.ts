/** The plugin `files`: opens weights, kept models, saved runs and recordings by double click, without a kernel. */

import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { WidgetTracker } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import {
  ABCWidgetFactory,
  DocumentModel,
  type DocumentRegistry,
  DocumentWidget,
  TextModelFactory
} from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { Widget } from '@lumino/widgets';

import { ReplayTab } from './dashboard-tab';
import { FileKinds, type IFileKind, type IFileKinds } from './file-kinds';
import { FileServer } from './file-server';
import { ModelTab, SavedGraphTab, WeightTab } from './file-tabs';
import { dashboardIcon, graphIcon, modelIcon, weightsIcon } from './icons';
import { EXTENSION, IKinds } from './tokens';

const MODEL = 'maxlab-file';

/** A model that never asks for the content of its file: our server reads the parts that are looked at. */
class NoContentFactory extends TextModelFactory {
  override get name(): string {
    return MODEL;
  }

  override get contentType(): Contents.ContentType {
    return 'file';
  }

  override get fileFormat(): Contents.FileFormat {
    return null;
  }

  /** A model that this page may not save: else JupyterLab copied each file that opens to a checkpoint. */
  override createNew(
    options: Parameters<TextModelFactory['createNew']>[0] = {}
  ): DocumentRegistry.ICodeModel {
    return new DocumentModel({ ...options, collaborationEnabled: true });
  }
}

class FileFactory extends ABCWidgetFactory<DocumentWidget> {
  constructor(
    options: DocumentRegistry.IWidgetFactoryOptions<DocumentWidget>,
    private readonly _open: (context: DocumentRegistry.Context) => Widget
  ) {
    super(options);
  }

  protected override createNewWidget(context: DocumentRegistry.Context): DocumentWidget {
    return new DocumentWidget({ content: this._open(context), context });
  }
}

export const filesPlugin: JupyterFrontEndPlugin<IFileKinds> = {
  id: `${EXTENSION}:files`,
  description: 'Opens weight files, models, saved runs and recordings by double click, without a kernel.',
  autoStart: true,
  provides: IKinds,
  optional: [ITranslator, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null
  ): IFileKinds => {
    const trans = (translator ?? nullTranslator).load('maxlab');
    const { docRegistry, serviceManager } = app;
    const kinds = new FileKinds();
    const tracker = new WidgetTracker<DocumentWidget>({ namespace: 'maxlab-files' });
    docRegistry.addModelFactory(new NoContentFactory(false));

    kinds.added.connect((_, kind: IFileKind) => {
      const factoryName = trans.__('%1 (maxlab)', kind.label);
      docRegistry.addFileType({
        name: kind.name,
        displayName: kind.label,
        extensions: [...kind.extensions],
        mimeTypes: [],
        contentType: 'file',
        fileFormat: 'base64',
        icon: kind.icon
      });
      const factory = new FileFactory(
        {
          name: kind.name,
          label: factoryName,
          modelName: MODEL,
          fileTypes: [kind.name],
          defaultFor: [kind.name],
          readOnly: true
        },
        context => {
          const path = serviceManager.contents.localPath(context.path);
          const server = new FileServer(serviceManager.serverSettings, path);
          return kind.open(server, PathExt.basename(path));
        }
      );
      factory.widgetCreated.connect((_factory, widget) => {
        widget.title.icon = kind.icon;
        widget.toolbar.hide();
        void tracker.add(widget);
        widget.context.pathChanged.connect(() => void tracker.save(widget));
      });
      docRegistry.addWidgetFactory(factory);
    });
    kinds.add({
      name: 'maxlab-safetensors',
      label: trans.__('Weights (safetensors)'),
      extensions: ['.safetensors'],
      icon: weightsIcon,
      open: (server, name) => new WeightTab(server, name)
    });
    kinds.add({
      name: 'maxlab-gguf',
      label: trans.__('Weights (GGUF)'),
      extensions: ['.gguf'],
      icon: weightsIcon,
      open: (server, name) => new WeightTab(server, name)
    });
    kinds.add({
      name: 'maxlab-run',
      label: trans.__('Saved run'),
      extensions: ['.mlprof'],
      icon: graphIcon,
      open: (server, name) =>
        new SavedGraphTab(
          server,
          name,
          trans,
          trans.__('this run was saved; load it in a notebook to compare it')
        )
    });
    kinds.add({
      name: 'maxlab-model',
      label: trans.__('Model'),
      extensions: ['.mlmodel'],
      icon: modelIcon,
      open: (server, name) => new ModelTab(server, name, trans)
    });
    kinds.add({
      name: 'maxlab-recording',
      label: trans.__('Recording of a machine'),
      extensions: ['.mlrec'],
      icon: dashboardIcon,
      open: server => new ReplayTab(server)
    });
    void restorer?.restore(tracker, {
      command: 'docmanager:open',
      args: widget => ({ path: widget.context.path }),
      name: widget => widget.context.path
    });
    return kinds;
  }
};
