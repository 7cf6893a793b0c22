/** How JupyterLab opens a document of a graph: its model, its widget with the toolbar, and its icon. */

import type { ISessionContextDialogs } from '@jupyterlab/apputils';
import {
  ABCWidgetFactory,
  type DocumentRegistry,
  DocumentWidget,
  TextModelFactory
} from '@jupyterlab/docregistry';
import { CommandToolbarButton, refreshIcon, Toolbar, ToolbarButton } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';

import { graphIcon } from '../icons';
import { GraphEditor, type IEditorOptions } from './editor';
import { type Context, DocumentSession } from './session';
import { KernelItem, TrustIndicator } from './toolbar-items';

export const MODEL = 'maxlab-graph';

/** The text of a document, whose kernel speaks Python. */
export class GraphModelFactory extends TextModelFactory {
  override get name(): string {
    return MODEL;
  }

  override preferredLanguage(): string {
    return 'python';
  }
}

export class GraphDocument extends DocumentWidget<GraphEditor, DocumentRegistry.ICodeModel> {
  get session(): DocumentSession {
    return this.content.session;
  }
}

export interface IFactoryOptions
  extends DocumentRegistry.IWidgetFactoryOptions<GraphDocument>,
    Omit<IEditorOptions, 'session' | 'server' | 'save' | 'saveAs'> {
  commands: CommandRegistry;
  serverOf: (context: Context) => ReturnType<IEditorOptions['server']>;
  dialogs: ISessionContextDialogs;
}

export class GraphFactory extends ABCWidgetFactory<GraphDocument, DocumentRegistry.ICodeModel> {
  constructor(private readonly _given: IFactoryOptions) {
    super(_given);
  }

  protected override createNewWidget(context: Context): GraphDocument {
    const { commands, serverOf, dialogs, askForTrust, trans } = this._given;
    const session = DocumentSession.of(context);
    // JupyterLab says in a dialog why it could not be saved, and then rejects.
    const tried = (command: string): void => void commands.execute(command).catch(() => undefined);
    const content = new GraphEditor({
      session,
      server: () => serverOf(context),
      dialogs,
      askForTrust,
      save: () => tried('docmanager:save'),
      saveAs: () => tried('docmanager:save-as'),
      trans
    });
    const widget = new GraphDocument({ content, context });
    widget.addClass('jp-MaxLab-document');
    widget.title.icon = graphIcon;
    const { sessionContext } = context;
    for (const [name, item] of [
      ['save', new CommandToolbarButton({ commands, id: 'docmanager:save', args: { toolbar: true }, label: '' })],
      [
        'restart',
        new ToolbarButton({
          icon: refreshIcon,
          tooltip: trans.__('Restart the kernel; what was edited is kept'),
          onClick: () => void dialogs.restart(sessionContext)
        })
      ],
      ['spacer', Toolbar.createSpacerItem()],
      ['trust', new TrustIndicator(session, () => askForTrust(session), trans)],
      ['kernel', new KernelItem(sessionContext, dialogs, trans)]
    ] as const) {
      widget.toolbar.addItem(name, item);
    }
    return widget;
  }
}
