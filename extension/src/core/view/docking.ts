/**
 * What a view has for its panels: the dock they stand in, the questions they ask, and what they may see
 * and do of the view.
 */

import type { IQuestions, QuestionName } from '../../proto/questions';
import type { GraphModel } from '../model/graph';
import type { Timing } from '../model/timing';
import type { ITheme } from '../render/theme';
import type { Overlay } from '../render/tones';
import { Questions, type IAsked } from './ask';
import { Dock } from './dock';
import type { Emitter } from './dom';
import type { Drawing } from './drawing';
import type { IAnswer, IPanelView } from './panel';
import { PANELS } from './panels';
import type { Shell } from './shell';
import type { IGraphViewEvents } from './types';

/** What a view in a page grows by when its panels open, so that the graph keeps most of its room. */
const DOCK_ROOM_PX = 160;

export interface IDockingHost {
  readonly model: GraphModel;
  readonly timing: Timing;
  readonly events: Emitter<IGraphViewEvents>;
  /** Ids of the selected operations. */
  readonly selection: readonly string[];
  select(ids: readonly string[]): void;
  reveal(id: string): boolean;
  execute(command: string): boolean;
  /** Hands a question to the kernel. */
  send(asked: IAsked): void;
  /** The dock was opened, closed or moved, or the kernel came or went. */
  refresh(): void;
}

export class Docking implements IPanelView {
  readonly dock: Dock;
  private readonly _questions: Questions;

  constructor(
    private readonly _shell: Shell,
    private readonly _drawing: Drawing,
    private readonly _host: IDockingHost
  ) {
    this._questions = new Questions(
      asked => {
        _host.send(asked);
        return _shell.options.canAsk;
      },
      () => _host.model.document,
      () => this.notLive
    );
    this.dock = new Dock({
      view: this,
      panels: PANELS,
      makeRoom: isOpen => _shell.grow(isOpen ? DOCK_ROOM_PX : 0),
      changed: () => {
        _host.refresh();
        _host.events.emit('lookChanged', undefined);
      },
      moveOut: _shell.options.canMoveOut ? id => _host.events.emit('moveOutRequested', id) : null,
      putBack: id => _host.events.emit('putBackRequested', id)
    });
    _shell.disposables.add(() => {
      this._questions.drop('the view was closed');
      this.dock.dispose();
    });
  }

  toggle(): void {
    if (this.dock.isOpen) {
      this.dock.close();
    } else {
      this.dock.open();
    }
  }

  /** Hands in the answer of the kernel to the question `id`. */
  answered(
    id: number,
    isGood: boolean,
    data: unknown,
    error: string,
    buffers: readonly ArrayBuffer[]
  ): void {
    this._questions.answered(id, isGood, data, error, buffers);
  }

  /** Why Profile is not possible, and nobody answers; null when somebody does. */
  setNoProfile(reason: string | null): void {
    this._shell.options.noProfile = reason;
    if (reason !== null) {
      this._questions.drop(`Nobody answers: ${reason}.`);
    }
    this.dock.liveChanged();
    this._host.refresh();
  }

  // --- what panels see of the view ----------------------------------------------------------------

  get model(): GraphModel {
    return this._host.model;
  }

  get timing(): Timing {
    return this._host.timing;
  }

  get theme(): ITheme {
    return this._shell.theme;
  }

  get selection(): readonly string[] {
    return this._host.selection;
  }

  /** Why nobody answers questions beyond what was saved; null while a kernel does. */
  get notLive(): string | null {
    const { noProfile, canAsk } = this._shell.options;
    return noProfile ?? (canAsk ? null : 'nothing stands behind this view');
  }

  get reducedMotion(): boolean {
    return this._shell.stage.reducedMotion;
  }

  select(ids: readonly string[]): void {
    this._host.select(ids);
  }

  ask<K extends QuestionName>(
    what: K,
    args?: IQuestions[K]['args']
  ): Promise<IAnswer<IQuestions[K]['answer']>> {
    return this._questions.ask(what, args);
  }

  setOverlay(overlay: Overlay | null, legend = ''): void {
    this._drawing.setOverlay(overlay, legend);
  }

  reveal(id: string): boolean {
    return this._host.reveal(id);
  }

  say(text: string): void {
    this._shell.announcer.say(text);
  }

  execute(command: string): boolean {
    return this._host.execute(command);
  }
}
