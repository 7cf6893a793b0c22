/**
 * A document that is open in a kernel: the graph is there, the text of the document here, in the shared
 * model of JupyterLab's context. One for each context, however many views there are of it.
 */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Kernel } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import type { JSONObject } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

import { fits, messageOf } from '../../core';
import { readMessage } from '../../proto/border';
import {
  type EditorClientMessage,
  type IEditorGoal,
  type IEditorLines,
  type IEditorOpen,
  type IEditorTrusted,
  type ILessonText,
  isEditorServerMessage,
  isLessonText
} from '../../proto/editor';
import type { IChangeAnswer, IChangeArgs } from '../../proto/changes';
import { PROTOCOL, type IFault } from '../../proto/messages';
import { isAnything, isText, optional, record, type Told } from '../../proto/shape';
import { openEditor } from '../probe';
import { NotesDesk } from './desk';
import { KernelText, replacements } from './kernel-text';

export type Context = DocumentRegistry.IContext<DocumentRegistry.ICodeModel>;

/**
 * `none` there is no kernel; `other` it speaks another language; `starting`; `opening` it reads the
 * document; `open`; `failed` it could not; `ended` it is gone, and what was edited is here.
 */
export type EditorState = 'none' | 'other' | 'starting' | 'opening' | 'open' | 'failed' | 'ended';

/** How long a kernel that is to be there may take before the graph of the file is shown. */
const PATIENCE_MS = 6000;

/** What a kernel says that closes the channel. */
const isRefusal = record({ error: isText });

/** The lines of a text that have what it teaches: of each of its fields the file has one. */
function taughtLines(text: string): string {
  return ['\n "goal": ', '\n "lesson": ']
    .map(mark => {
      const start = text.indexOf(mark);
      return start < 0 ? '' : text.slice(start, text.indexOf('\n', start + 1));
    })
    .join('');
}

/** What a document says of itself beside its graph. */
const isTaught = record({ lesson: optional(isLessonText), goal: optional(isAnything) });
type Taught = Told<typeof isTaught>;

/** What a document teaches, read without a kernel; nothing where its text cannot be read. */
function lessonOf(text: string): Taught {
  if (!text.includes('"lesson"') && !text.includes('"goal"')) {
    return {};
  }
  try {
    const data: unknown = JSON.parse(text);
    return fits(isTaught, data) ? data : {};
  } catch {
    return {};
  }
}

const plain = (message: string, fix = ''): IFault => ({ code: '', message, why: [], fix, where: '' });

export class DocumentSession implements IDisposable {
  /** The session of `context`, made when there is none yet. */
  static of(context: Context): DocumentSession {
    let found = DocumentSession._all.get(context);
    if (found === undefined) {
      found = new DocumentSession(context);
      DocumentSession._all.set(context, found);
    }
    return found;
  }

  private constructor(readonly context: Context) {
    const { sessionContext } = context;
    sessionContext.statusChanged.connect(this._onStatus, this);
    sessionContext.kernelChanged.connect(this._onKernel, this);
    context.pathChanged.connect(this._onPath, this);
    context.saveState.connect(this._onSaved, this);
    context.disposed.connect(() => this.dispose());
    void context.ready.then(() => {
      if (!this.isDisposed) {
        this._saved = this._source;
        this._lesson = lessonOf(this._source);
        context.model.contentChanged.connect(this._onContent, this);
        this._isReady = true;
        this._changed.emit();
        void this._open();
        // Whether there is to be no kernel is known then; a question that nobody answers is an answer.
        const settle = (): void => {
          this._isSettled = true;
          void this._open();
        };
        void sessionContext.ready.then(settle);
        window.setTimeout(settle, PATIENCE_MS);
      }
    });
  }

  get sessionContext(): ISessionContext {
    return this.context.sessionContext;
  }

  get state(): EditorState {
    return this._state;
  }

  /** Why the kernel could not open the document, or no longer write it; null when it can. */
  get fault(): IFault | null {
    return this._fault;
  }

  /** The kernel that has the graph; null unless the document is open. */
  get kernel(): Kernel.IKernelConnection | null {
    return this._state === 'open' ? (this.sessionContext.session?.kernel ?? null) : null;
  }

  /** Id of the graph in its kernel. */
  get graph(): string {
    return this._graph;
  }

  /** Names of operations with custom kernels, and whether these are compiled. */
  get trust(): Pick<IEditorTrusted, 'trusted' | 'kernels' | 'sources'> {
    return this._trust;
  }

  /** What the document teaches; null where it is no lesson. */
  get lesson(): ILessonText | null {
    return this._lesson.lesson ?? null;
  }

  /** Whether the document asks for something. */
  get hasGoal(): boolean {
    return this._lesson.goal !== undefined;
  }

  /** How far the goal is, as the kernel has last said; null before that. */
  get goal(): IEditorGoal | null {
    return this._goal;
  }

  /** Whether the text of the document was read. */
  get isReady(): boolean {
    return this._isReady;
  }

  /** Whether there is nothing in the document. */
  get isBlank(): boolean {
    return this._source.trim() === '';
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Whether the last try to save the document failed: what was edited is here alone. */
  get isUnsaved(): boolean {
    return this._isUnsaved;
  }

  /** Something was laid beside the graph on this page, without a kernel. */
  get noted(): ISignal<this, void> {
    return this._noted;
  }

  /** Counts the texts that came from elsewhere: from the file, or from a checkpoint. */
  get version(): number {
    return this._version;
  }

  /** The text of the document as it is here. */
  get text(): string {
    return this._source;
  }

  /**
   * The answer to a step that is done without a kernel; null where only a kernel can do it. What is laid
   * beside the graph is changed in the text here, and goes to the kernel that comes next.
   */
  changeNotes(args: IChangeArgs): IChangeAnswer | null {
    if (this._state === 'opening' || this._state === 'open') {
      throw new Error('A kernel is opening the document: do it again in a moment.');
    }
    return this._desk.change(args);
  }

  /** Trust the custom kernels of the document. */
  giveTrust(): void {
    this._tell({ type: 'trust', protocol: PROTOCOL });
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._close();
      Signal.clearData(this);
    }
  }

  private get _source(): string {
    return this.context.model.sharedModel.getSource();
  }

  // ---------------------------------------------------------------- the kernel comes and goes
  private _onKernel(): void {
    this._close();
    void this._open();
  }

  private _onStatus(_: ISessionContext, status: Kernel.Status): void {
    switch (status) {
      case 'restarting':
      case 'autorestarting':
      case 'dead':
      case 'terminating':
        if (this._comm !== null) {
          this._close();
          this._set('ended');
        }
        break;
      case 'idle':
        if (this._comm === null && this._state !== 'failed' && this._state !== 'other') {
          void this._open();
        }
        break;
      default:
        break;
    }
  }

  /** Opens the document as it is here in the kernel that there is. */
  private async _open(): Promise<void> {
    const kernel = this.sessionContext.session?.kernel ?? null;
    if (!this._isReady || this._comm !== null || this._isOpening || this._isDisposed) {
      return;
    }
    if (kernel === null) {
      // What was edited in a kernel that is gone stays on the page.
      const isNone = this._isSettled && this.sessionContext.hasNoKernel;
      this._set(this._state === 'ended' ? 'ended' : isNone ? 'none' : 'starting');
      return;
    }
    const turn = ++this._turn;
    // What is asked of the kernel makes it busy and idle again.
    this._isOpening = true;
    this._set(this._state === 'ended' ? 'ended' : 'starting');
    try {
      const info = await kernel.info;
      if (turn !== this._turn) {
        return;
      }
      if (info.language_info.name !== 'python') {
        this._set('other');
        return;
      }
      const comm = await openEditor(kernel);
      if (turn !== this._turn) {
        comm.dispose();
        return;
      }
      this._start(comm);
    } catch (error) {
      if (turn === this._turn && !kernel.isDisposed && kernel.status !== 'restarting') {
        const fix = 'Choose a kernel in whose environment maxlab is installed.';
        this._fail(plain(messageOf(error), fix));
      }
    } finally {
      if (turn === this._turn) {
        this._isOpening = false;
      }
    }
  }

  private _start(comm: Kernel.IComm): void {
    const text = this._source;
    this._comm = comm;
    this._text = new KernelText(text);
    this._fault = null;
    this._set('opening');
    comm.onMsg = message => this._received(message.content.data);
    comm.onClose = message => {
      if (this._comm === comm) {
        this._comm = null;
        const { data } = message.content;
        if (this._state === 'opening') {
          this._fail(this._fault ?? plain(fits(isRefusal, data) ? data.error : 'The kernel closed it.'));
        } else {
          this._set('ended');
        }
      }
    };
    const saved = text === this._saved ? null : this._saved;
    const asked: IEditorOpen = { protocol: PROTOCOL, path: this.context.path, text, saved };
    void comm.open({ ...asked });
  }

  private _close(): void {
    this._turn += 1;
    this._isOpening = false;
    const comm = this._comm;
    this._comm = null;
    if (comm !== null && !comm.isDisposed) {
      try {
        comm.close();
      } catch {
        // Its kernel is gone, and the channel with it.
      }
    }
    this._trust = { trusted: true, kernels: [], sources: [] };
    if (this._state === 'open' || this._state === 'opening') {
      this._set('ended');
    }
  }

  // ---------------------------------------------------------------- what the kernel says
  private _received(content: unknown): void {
    const text = this._text;
    try {
      const message = readMessage(isEditorServerMessage, content);
      switch (message.type) {
        case 'opened':
          text.opened(message);
          this._graph = message.id;
          this._fault = null;
          this._take();
          this._set('open');
          break;
        case 'text':
          if (text.revise(message)) {
            this._fault = null;
            this._take(message.parts);
          } else {
            this._tell({ type: 'need', protocol: PROTOCOL });
          }
          break;
        case 'trusted':
          this._trust = message;
          this._changed.emit();
          break;
        case 'goal':
          this._goal = message;
          this._changed.emit();
          break;
        case 'failed':
          this._fault = message.fault;
          this._changed.emit();
          break;
      }
    } catch (error) {
      this._fail(plain(messageOf(error)));
    }
  }

  /** Puts the text of the kernel into the model. */
  private _take(parts: readonly IEditorLines[] = []): void {
    this._desk.clear();
    const { text } = this._text;
    const taught = taughtLines(text);
    if (taught !== taughtLines(this._source)) {
      this._lesson = lessonOf(text);
      this._goal = null;
      this._write(text, parts);
      this._changed.emit();
      return;
    }
    this._write(text, parts);
  }

  /** Puts a text that was changed here, without a kernel, into the model. */
  private _put(text: string): void {
    this._text = new KernelText(text);
    this._write(text);
    this._noted.emit();
  }

  /** Lets the model have the text `now`, where it has another; `parts` of it, as far as is known. */
  private _write(now: string, parts: readonly IEditorLines[] = []): void {
    const { sharedModel } = this.context.model;
    const before = sharedModel.getSource();
    if (before !== now) {
      const made = replacements(before, now, parts).reverse();
      this._isTaking = true;
      try {
        // Steps are taken back in Python: the model keeps no list of its own.
        sharedModel.transact(() => {
          for (const { start, end, value } of made) {
            sharedModel.updateSource(start, end, value);
          }
        }, false);
      } finally {
        this._isTaking = false;
      }
    }
    // An edit that was taken back leaves the bytes that were there.
    this.context.model.dirty = now !== this._saved;
  }

  /** The model has another text: by hand of JupyterLab, which read the file again, or of a checkpoint. */
  private _onContent(): void {
    if (this._isTaking || this._isChecking) {
      return;
    }
    this._isChecking = true;
    // What is being saved is not what the file will hold: a person chose the text of the file.
    this._saving = null;
    // The text is replaced in steps: it is looked at when all are done.
    void Promise.resolve().then(() => {
      this._isChecking = false;
      if (this._isDisposed || this._source === this._text.text) {
        return;
      }
      this._saved = this._source;
      this._lesson = lessonOf(this._source);
      this._goal = null;
      this._version += 1;
      this._isUnsaved = false;
      this._desk.clear();
      if (this._comm === null) {
        this._changed.emit();
        void this._open();
        return;
      }
      this._text = new KernelText(this._source);
      this._tell({ type: 'reopen', protocol: PROTOCOL, text: this._source });
    });
  }

  private _onSaved(_: Context, state: DocumentRegistry.SaveState): void {
    if (state === 'failed') {
      this._isUnsaved = true;
      this._changed.emit();
    } else if (state === 'started') {
      this._saving = { text: this._source, number: this._text.number };
    } else if (this._saving !== null && !this.context.model.dirty) {
      // A copy elsewhere, which *Save As* makes, leaves the file as it was, and the document dirty.
      const { text, number } = this._saving;
      this._saved = text;
      if (this._isUnsaved) {
        this._isUnsaved = false;
        this._changed.emit();
      }
      if (number >= 0) {
        this._tell({ type: 'saved', protocol: PROTOCOL, number });
      }
      if (this._source !== text) {
        this.context.model.dirty = true;
      }
    }
  }

  private _onPath(_: Context, path: string): void {
    this._tell({ type: 'moved', protocol: PROTOCOL, path });
  }

  private _tell(message: EditorClientMessage): void {
    if (this._comm !== null && !this._comm.isDisposed) {
      const data: JSONObject = { ...message };
      this._comm.send(data);
    }
  }

  private _fail(fault: IFault): void {
    this._fault = fault;
    this._set('failed');
  }

  private _set(state: EditorState): void {
    this._state = state;
    this._changed.emit();
  }

  private static readonly _all = new WeakMap<Context, DocumentSession>();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _noted = new Signal<this, void>(this);
  private readonly _desk = new NotesDesk(
    (session => ({
      get text() {
        return session._source;
      },
      put: text => session._put(text)
    }))(this)
  );
  private _version = 0;
  private _isUnsaved = false;
  private _state: EditorState = 'starting';
  private _fault: IFault | null = null;
  private _lesson: Taught = {};
  private _goal: IEditorGoal | null = null;
  private _comm: Kernel.IComm | null = null;
  private _text = new KernelText('');
  private _graph = '';
  private _trust: Pick<IEditorTrusted, 'trusted' | 'kernels' | 'sources'> = { trusted: true, kernels: [], sources: [] };
  private _saved = '';
  private _saving: { text: string; number: number } | null = null;
  private _isReady = false;
  private _isSettled = false;
  private _isOpening = false;
  private _isTaking = false;
  private _isChecking = false;
  private _isDisposed = false;
  private _turn = 0;
}
