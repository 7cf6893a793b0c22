/**
 * The content of a document's tab: a view of the graph, in its kernel and with editing on, or the saved
 * graph where there is no kernel; and a line above it that says which, and what can be done.
 */

import type { ISessionContextDialogs } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { messageOf, SourceError } from '../../core';
import type { IAlone } from '../../core/view/alone';
import type { ILessonText } from '../../proto/editor';
import { render } from '../../widget';
import { CommModel } from '../comm-model';
import type { FileServer } from '../file-server';
import { GraphView } from '../graph-view';
import { openView, showInView } from '../probe';
import { unpack } from '../unpack';
import { type IListedView, viewRegistry } from '../views';
import { noteDifference } from './desk';
import { chooseKernel, restartKernel } from './ending';
import { LessonPanel } from './lesson';
import type { DocumentSession } from './session';

export interface IEditorOptions {
  session: DocumentSession;
  /** Reads the saved graph where there is no kernel. */
  server: () => FileServer;
  dialogs: ISessionContextDialogs;
  /** Saves the document. */
  save: () => void;
  /** Saves it under a path that is asked for. */
  saveAs: () => void;
  /** Asks the user whether the kernels of the document are trusted. */
  askForTrust: (session: DocumentSession) => Promise<void>;
  trans: TranslationBundle;
}

/** A button of the line above the graph. */
interface IAction {
  label: string;
  run: () => unknown;
}

export class GraphEditor extends Widget {
  readonly session: DocumentSession;
  private _isWanted = false;

  constructor(private readonly _options: IEditorOptions) {
    super();
    this.session = _options.session;
    this.addClass('jp-MaxLab-mainTab');
    this.addClass('jp-MaxLab-editor');
    this._notice.className = 'jp-MaxLab-editor-notice';
    this._notice.setAttribute('role', 'status');
    this._notice.hidden = true;
    this._room.className = 'jp-MaxLab-editor-room';
    this._lesson = new LessonPanel(_options.trans);
    const body = document.createElement('div');
    body.className = 'jp-MaxLab-editor-body';
    body.append(this._room, this._lesson.element);
    this.node.append(this._notice, body);
    this.session.changed.connect(this._update, this);
    this.session.noted.connect(this._note, this);
    this._alone = {
      change: args => this.session.changeNotes(args),
      choose: () => void chooseKernel(this.session.sessionContext, _options.dialogs)
    };
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.session.changed.disconnect(this._update, this);
      this.session.noted.disconnect(this._note, this);
      this._drop();
      super.dispose();
    }
  }

  /** The view that is mounted here, which JupyterLab lists as it lists all. */
  get view(): IListedView | undefined {
    return viewRegistry.views.find(({ element }) => this._room.contains(element));
  }

  /** The view, when its graph is in a kernel and can be edited; null where that does not come to be. */
  whenLive(): Promise<IListedView | null> {
    return new Promise(resolve => {
      const look = (): void => {
        const { view, session } = this;
        const isLive = session.state === 'open' && view?.editing.isOn === true && !view.editing.isAlone;
        const isOver = ['none', 'other', 'failed'].includes(session.state);
        if (isLive || isOver || this.isDisposed) {
          this._live.disconnect(look);
          session.changed.disconnect(look);
          resolve(isLive ? view : null);
        }
      };
      this._live.connect(look);
      this.session.changed.connect(look);
      look();
    });
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    // A view is made where it has a size and a theme.
    this._update();
  }

  /** Gives the keyboard to the graph, now or when it is drawn. */
  protected override onActivateRequest(): void {
    this._isWanted = this.view?.execute('focus-graph') !== true;
  }

  private _update(): void {
    if (this.isDisposed || !this.isAttached || !this.session.isReady) {
      return;
    }
    this._explain();
    this._teach();
    const { state, kernel, graph, fault } = this.session;
    // What the kernel cannot read, the server cannot either.
    const isBroken = state === 'failed' && fault !== null && fault.code !== '';
    if (state === 'open' && kernel !== null) {
      const isThere = this._model === null ? this._isOpening : this._model.isOpen;
      if (this._shown !== graph || !isThere) {
        void this._showLive(graph);
      }
      return;
    }
    if (this._version !== this.session.version) {
      // What is drawn is of a text that the document does not have any more.
      this._drop();
    }
    if (this._model !== null) {
      if (state === 'ended') {
        this._model.end();
        this._shown = '';
        this._layOut();
      }
    } else if (state !== 'starting' && state !== 'opening' && !isBroken) {
      void this._showSaved();
    }
  }

  /** Lets the user lay out what is drawn, where there is no kernel. */
  private _layOut(): void {
    const { view } = this;
    if (view !== undefined) {
      view.editing.saves = this._options.save;
      void view.editing.setAlone(this._alone);
    }
  }

  /** Draws what was laid beside the graph in the text of the document. */
  private _note(): void {
    const { view } = this;
    const difference = view === undefined ? null : noteDifference(view.model.document, this.session.text);
    if (difference !== null) {
      view?.setDifference(difference);
    }
  }

  // ---------------------------------------------------------------- what is drawn
  private async _showLive(graph: string): Promise<void> {
    const { kernel } = this.session;
    const { trans } = this._options;
    if (kernel === null) {
      return;
    }
    this._shown = graph;
    this._isOpening = true;
    const turn = ++this._turn;
    try {
      if (this._model?.isOpen === true) {
        this._version = this.session.version;
        await showInView(kernel, this._model.id, graph);
        return;
      }
      const gone = trans.__('its kernel ended; what was edited is kept here');
      const model = new CommModel(await openView(kernel), graph, gone, true);
      await model.ready;
      if (this.isDisposed || turn !== this._turn) {
        model.close();
        return;
      }
      this._drop();
      this._shown = graph;
      this._model = model;
      this._version = this.session.version;
      this._unmount = render({ model, el: this._room, isFilling: true });
      const { view } = this;
      if (view !== undefined) {
        view.editing.saves = this._options.save;
        view.editing.switched = () => this._live.emit();
        const drawn = view.events.on('layoutDone', () => {
          drawn();
          if (this._isWanted) {
            this._isWanted = false;
            view.execute('focus-graph');
          }
        });
      }
    } catch (error) {
      if (turn === this._turn) {
        this._shown = '';
        this._say('alert', messageOf(error), []);
      }
    } finally {
      if (turn === this._turn) {
        this._isOpening = false;
      }
    }
  }

  /** Draws the graph of the file, as the server reads it. */
  private async _showSaved(): Promise<void> {
    const { trans } = this._options;
    const { version } = this.session;
    if (this.session.isBlank || this._isAsking || (this._version === version && this.view !== undefined)) {
      return;
    }
    this._isAsking = true;
    const turn = ++this._turn;
    try {
      const { document } = await this._options.server().graph();
      const unpacked = await unpack(document);
      if (!this.isDisposed && turn === this._turn && this._model === null) {
        this._drop();
        const view = new GraphView(this._room, {
          height: 'fill',
          noProfile: trans.__('this document has no kernel; choose one above')
        });
        this._unmount = () => view.dispose();
        this._version = version;
        view.setDocument(unpacked);
        this._note();
        this._layOut();
      }
    } catch (error) {
      if (!this.isDisposed && turn === this._turn) {
        const isTold = error instanceof SourceError;
        const code = isTold && error.code !== '' ? ` [${error.code}]` : '';
        const fix = isTold && error.fix !== '' ? `\n${error.fix}` : '';
        this._say('alert', `${messageOf(error)}${code}${fix}`, []);
      }
    } finally {
      this._isAsking = false;
    }
  }

  private _drop(): void {
    this._unmount?.();
    this._unmount = null;
    this._model?.close();
    this._model = null;
    this._shown = '';
  }

  // ---------------------------------------------------------------- what is said
  private _teach(): void {
    const { lesson, hasGoal, goal } = this.session;
    if (lesson !== this._taught) {
      this._taught = lesson;
      this._lesson.show(lesson, hasGoal);
    }
    this._lesson.showGoal(goal, hasGoal);
  }

  private _explain(): void {
    const { session } = this;
    const { trans, dialogs, askForTrust } = this._options;
    const { sessionContext, fault, trust } = session;
    const select: IAction = {
      label: trans.__('Select kernel'),
      run: () => chooseKernel(sessionContext, dialogs)
    };
    const restart: IAction = {
      label: trans.__('Restart kernel'),
      run: () => restartKernel(sessionContext)
    };
    if (session.isUnsaved) {
      this._say(
        'alert',
        trans.__('This document could not be saved. All that was edited is kept here: save it again, or elsewhere.'),
        [
          { label: trans.__('Save again'), run: this._options.save },
          { label: trans.__('Save as…'), run: this._options.saveAs }
        ]
      );
      return;
    }
    switch (session.state) {
      case 'none':
        this._say(
          'status',
          session.isBlank
            ? trans.__('This document is empty, and has no kernel: choose one to build a graph in it.')
            : trans.__('No kernel: you can look at the graph and lay it out. Building and running it needs one.'),
          [select]
        );
        break;
      case 'other':
        this._say('status', trans.__('This kernel is not Python: you can look at the graph and lay it out. Building it needs a Python kernel with maxlab.'), [
          select
        ]);
        break;
      case 'ended':
        this._say(
          'status',
          trans.__(
            'The kernel ended. Every edit that the view shows is kept here, can be saved, and can be laid out; only the steps for Undo are gone. A kernel opens it again.'
          ),
          sessionContext.hasNoKernel ? [select] : [restart, select]
        );
        break;
      case 'failed':
        if (fault !== null) {
          const code = fault.code === '' ? '' : ` [${fault.code}]`;
          const fix = fault.fix === '' ? '' : `\n${fault.fix}`;
          this._say('alert', `${fault.message}${code}${fix}`, [select]);
        }
        break;
      default:
        if (session.state === 'open' && fault !== null) {
          this._say('alert', trans.__('This document cannot be written: %1', `${fault.message}\n${fault.fix}`), []);
        } else if (session.state === 'open' && !trust.trusted) {
          this._say(
            'status',
            trans.__(
              'Not trusted: the kernels of %1 came with this document and are not compiled.',
              trust.kernels.join(', ')
            ),
            [{ label: trans.__('Trust…'), run: () => askForTrust(session) }]
          );
        } else if (session.state !== 'open' && this.view?.editing.isAlone === true) {
          this._say('status', trans.__('A kernel is starting: it gets all that was laid out.'), []);
        } else {
          this._say('status', '', []);
        }
    }
  }

  private _say(role: 'status' | 'alert', text: string, actions: readonly IAction[]): void {
    const notice = this._notice;
    notice.setAttribute('role', role);
    notice.classList.toggle('jp-mod-alert', role === 'alert');
    notice.hidden = text === '';
    const words = document.createElement('span');
    words.textContent = text;
    notice.replaceChildren(
      words,
      ...actions.map(({ label, run }) => {
        const button = document.createElement('button');
        button.type = 'button';
        button.className = 'jp-MaxLab-editor-action';
        button.textContent = label;
        button.onclick = () => void run();
        return button;
      })
    );
  }

  private readonly _lesson: LessonPanel;
  private readonly _alone: IAlone;
  private readonly _live = new Signal<this, void>(this);
  /** Of the session's texts, the one that is drawn. */
  private _version = -1;
  private _taught: ILessonText | null = null;
  private readonly _notice = document.createElement('div');
  private readonly _room = document.createElement('div');
  private _model: CommModel | null = null;
  private _unmount: (() => void) | null = null;
  private _shown = '';
  private _turn = 0;
  private _isAsking = false;
  private _isOpening = false;
}
