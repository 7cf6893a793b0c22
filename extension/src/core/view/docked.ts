/**
 * What a view has for its panels: the dock they stand in, the questions they ask, and the overlay with
 * which they paint the graph. `GraphView` has the graph.
 */

import type { GraphModel } from '../model/graph';
import type { IScene } from '../model/scene';
import type { Timing } from '../model/timing';
import { makePicture, type IPicture } from '../render/picture';
import type { Overlay } from '../render/tones';
import { Questions } from './ask';
import { Dock } from './dock';
import type { Emitter } from './dom';
import type { IAnswer, IPanelView } from './panel';
import { PANELS } from './panels';
import { ViewShell } from './shell';
import type { IGraphViewEvents, IGraphViewOptions } from './types';

/** What a view in a page grows by when its panels open, so that the graph keeps most of its room. */
const DOCK_ROOM_PX = 160;

export abstract class DockedView extends ViewShell implements IPanelView {
  abstract readonly events: Emitter<IGraphViewEvents>;
  abstract model: GraphModel;
  abstract timing: Timing;
  abstract scene: IScene | null;
  abstract get selection(): string[];
  readonly dock: Dock;
  private readonly _questions = new Questions(
    asked => {
      this.events.emit('asked', asked);
      return this._options.canAsk;
    },
    () => this.model.document,
    () => this.notLive
  );
  private _overlay: Overlay | null = null;
  private _overlayLegend = '';

  constructor(host: HTMLElement, options: IGraphViewOptions) {
    super(host, options);
    this.dock = new Dock({
      view: this,
      panels: PANELS,
      makeRoom: isOpen => this._grow(isOpen ? DOCK_ROOM_PX : 0),
      changed: () => this._refresh()
    });
    this._disposables.add(() => {
      this._questions.drop('the view was closed');
      this.dock.dispose();
    });
  }

  abstract select(ids: readonly string[]): void;
  abstract reveal(id: string): boolean;
  abstract execute(command: string): boolean;
  abstract rebuild(anchor: string | null): Promise<void>;
  protected abstract _refresh(): void;
  protected abstract _middleKey(): string | null;

  // --- panels ------------------------------------------------------------------------------------

  showDock(id?: string): boolean {
    return this.dock.open(id);
  }

  toggleDock(): void {
    if (this.dock.isOpen) {
      this.dock.close();
    } else {
      this.dock.open();
    }
  }

  /** Why nobody answers questions beyond what was saved; null while a kernel does. */
  get notLive(): string | null {
    return this._options.noProfile ?? (this._options.canAsk ? null : 'nothing stands behind this view');
  }

  get reducedMotion(): boolean {
    return this.stage.reducedMotion;
  }

  say(text: string): void {
    this.announcer.say(text);
  }

  protected _themed(): void {
    // The first theme is read while the view is made.
    (this.dock as Dock | undefined)?.themed();
  }

  // --- questions ---------------------------------------------------------------------------------

  ask<T>(what: string, args: Readonly<Record<string, unknown>> = {}): Promise<IAnswer<T>> {
    return this._questions.ask<T>(what, args);
  }

  /** Hands in the answer of the kernel to the question `id`. */
  setAnswer(
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
    this._options.noProfile = reason;
    if (reason !== null) {
      this._questions.drop(`Nobody answers: ${reason}.`);
    }
    this._refresh();
  }

  // --- the overlay -------------------------------------------------------------------------------

  setOverlay(overlay: Overlay | null, legend = ''): void {
    const hadRoom = this._overlay !== null;
    this._overlay = overlay;
    this._overlayLegend = legend;
    const { scene } = this;
    if (scene === null || hadRoom !== (overlay !== null)) {
      // Items get, or lose, the line that the overlay writes on them.
      void this.rebuild(null);
    } else {
      this.stage.setPicture(this._pictureOf(scene), this._middleKey());
    }
    this._showLegend();
  }

  protected get _hasOverlay(): boolean {
    return this._overlay !== null;
  }

  /** A new document: what was painted on the old one says nothing of it. */
  protected _dropOverlay(): void {
    this._overlay = null;
  }

  protected _pictureOf(scene: IScene): IPicture {
    return makePicture(this.model, scene, this.timing, this._overlay);
  }

  protected _showLegend(): void {
    if (this._overlay !== null) {
      this._legend.note(this._overlayLegend);
      return;
    }
    const ns = this.stage.picture?.hottestNs ?? 0;
    this._legend.show(this.theme, this.timing, ns, this.stage.isHeat);
  }
}
