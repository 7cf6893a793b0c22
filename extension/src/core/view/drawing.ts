/**
 * What is on the stage of a view: the scene of what is unfolded, its layout, the overlay that a panel
 * painted over it, and the legend.
 */

import { anchorIn } from '../layout/anchor';
import { applyLayout, makeRequest } from '../layout/apply';
import { LayoutClient, type ILayoutAnswer } from '../layout/client';
import type { ILayoutRequest } from '../layout/hierarchy';
import { heldIn, placesOf } from '../layout/places';
import { seedsOf, type ILaidOut } from '../layout/seeds';
import type { IRoom } from '../layout/wrap';
import type { Direction } from '../model/flow';
import type { GraphModel } from '../model/graph';
import { scaleOfNumbers, scaleOfTimes, scaleOfTones, type IScale } from '../model/scale';
import { buildScene, type IScene } from '../model/scene';
import type { Timing } from '../model/timing';
import { headerWidth } from '../render/labels';
import type { Camera } from '../render/camera';
import { makePicture, type IPicture } from '../render/picture';
import type { Overlay } from '../render/tones';
import type { Colouring } from './colouring';
import type { IPreferences } from './preferences';
import type { Shell } from './shell';
import { firstView } from './viewpoint';

/** Time that refinement of a layout may take. */
const LAYOUT_BUDGET_MS = 700;

/** The window that a layout is made for when the real one is not known yet. */
const ROOM: IRoom = { w: 1000, h: 500 };

export interface IDrawingHost {
  readonly model: GraphModel;
  readonly timing: Timing;
  /** Keys of the unfolded boxes. */
  readonly expanded: ReadonlySet<string>;
  readonly hasChips: boolean;
  /** Whether edges end at ports. */
  readonly hasPorts: boolean;
  readonly preferences: IPreferences;
  /** What the graph is coloured by. */
  readonly colouring: Colouring;
  /** Ids of the operations, and keys of the inputs and outputs, that are shown; null for all. */
  readonly only: ReadonlySet<string> | null;
  /** The scene is another one; it is not on the stage yet. */
  sceneChanged(): void;
  /** The scene is on the stage. */
  drawn(scene: IScene, answer: ILayoutAnswer): void;
}

export class Drawing {
  private readonly _layout = new LayoutClient();
  private _direction: Direction = 'down';
  private _scene: IScene | null = null;
  private _overlay: Overlay | null = null;
  private _legend = '';
  private _layoutMs = 0;
  private _room: IRoom | null = null;
  private _needsFit = true;
  /** The first view, for as long as nobody has moved. */
  private _fitted: Camera | null = null;
  private _pending: Promise<void> = Promise.resolve();
  private _generation = 0;
  /** The generation that is on the stage. */
  private _drawn = -1;

  constructor(
    private readonly _shell: Shell,
    private readonly _host: IDrawingHost
  ) {
    _shell.stage.onResize = () => {
      if (this._scene !== null) {
        this.fitFirst();
        this._fitAgain();
      }
    };
  }

  /** What is drawn, or about to be; null before the first layout. */
  get scene(): IScene | null {
    return this._scene;
  }

  /** Which way the graph runs over the screen. */
  get direction(): Direction {
    return this._direction;
  }

  /** Lets the next scene run another way: it is another picture, which is looked at anew. */
  turn(direction: Direction): void {
    if (direction !== this._direction) {
      this._direction = direction;
      this.startAnew();
    }
  }

  get layoutMs(): number {
    return this._layoutMs;
  }

  /** The next scene is fitted into the stage, or its beginning is. */
  startAnew(): void {
    this._needsFit = true;
  }

  /** Resolves when the newest layout is on the stage. */
  async layoutDone(): Promise<void> {
    for (let seen = -1; seen !== this._generation; ) {
      seen = this._generation;
      await this._pending;
    }
  }

  /** Builds the scene for the current fold state and lays it out; `anchor` keeps its place. */
  rebuild(anchor: string | null): Promise<void> {
    this._generation += 1;
    this._pending = this._rebuild(anchor);
    return this._pending;
  }

  private async _rebuild(anchor: string | null): Promise<void> {
    const scene = this._newScene();
    const generation = this._generation;
    const answer = await this._layout.layout(this._requestOf(scene));
    if (answer !== null && generation === this._generation && !this._shell.isDisposed) {
      this._show(scene, answer, () => anchor ?? this.middleKey());
    }
  }

  /**
   * Draws what became of the document that was drawn from the model `before`: what is still there keeps
   * its columns, and its place on the screen. Draws at once, unless too much is new.
   */
  revise(before: GraphModel): void {
    const old = this._scene;
    if (old === null || this._needsFit || this._drawn !== this._generation) {
      void this.rebuild(null);
      return;
    }
    this._shell.stage.finishMotion();
    const { model } = this._host;
    const scene = this._newScene();
    const seeds = seedsOf({ scene: old, model: before }, { scene, model });
    if (seeds === null) {
      void this.rebuild(null);
      return;
    }
    this._generation += 1;
    this._pending = Promise.resolve();
    const answer = this._layout.layoutSeeded(this._requestOf(scene, { scene: old, model: before }), seeds);
    this._show(scene, answer, () => this._anchorIn(old, scene));
  }

  private _newScene(): IScene {
    const { measure } = this._shell;
    const { model, expanded, hasChips, only, preferences } = this._host;
    const fullNames = preferences.names === 'full';
    return buildScene(model, { expanded, chips: hasChips, direction: this._direction, fullNames, only, measure });
  }

  /** The layout that `scene` needs; `before` is the picture that it follows, null for one laid out anew. */
  private _requestOf(scene: IScene, before: ILaidOut | null = null): ILayoutRequest {
    const { measure } = this._shell;
    const { width, height } = this._shell.stage;
    // The window is that of the first layout: another size of it moves nothing.
    this._room ??= width > 0 ? { w: width, h: height } : null;
    const { model } = this._host;
    const places = placesOf(model);
    return makeRequest(
      scene,
      item => headerWidth(item, measure),
      LAYOUT_BUDGET_MS,
      this._room ?? ROOM,
      container => heldIn(container, places, scene.direction, model, before)
    );
  }

  /** Draws `scene`; `anchor` finds in it, once it is laid out, what keeps its place on the screen. */
  private _show(scene: IScene, answer: ILayoutAnswer, anchor: () => string | null): void {
    this._drawn = this._generation;
    this._layoutMs = answer.ms;
    applyLayout(scene, answer.results);
    const kept = anchor();
    this._scene = scene;
    this._host.sceneChanged();
    this._shell.stage.setPicture(this._pictureOf(scene), kept);
    this._host.drawn(scene, answer);
  }

  /** Key of the item that keeps its place as `before` becomes `scene`. */
  private _anchorIn(before: IScene, scene: IScene): string | null {
    const { camera, width, height } = this._shell.stage;
    return anchorIn(before, scene, {
      x0: camera.worldX(0),
      y0: camera.worldY(0),
      x1: camera.worldX(width),
      y1: camera.worldY(height)
    });
  }

  /** Moves the camera to the first view of a scene, once, as soon as the stage has a size. */
  fitFirst(): void {
    const { stage } = this._shell;
    const { picture } = stage;
    if (!this._needsFit || stage.width === 0 || picture === null) {
      return;
    }
    this._needsFit = false;
    // The legend takes its room before the picture is fitted into the rest.
    this.showLegend();
    stage.measure();
    this._firstView(picture);
  }

  private _firstView(picture: IPicture): void {
    const { stage, measure } = this._shell;
    this._fitted = firstView(stage, picture, measure);
    stage.flyTo(this._fitted, false);
  }

  /** The window has another size: the first view, if it is still that, is fitted into it again. */
  private _fitAgain(): void {
    const { camera, picture, marks } = this._shell.stage;
    const isFirst = camera.k === this._fitted?.k && camera.ty === this._fitted.ty;
    if (picture !== null && isFirst && marks.selected.length === 0) {
      this._firstView(picture);
    }
  }

  /** Key of an item near the middle of the window: it keeps its place when a document changes. */
  middleKey(): string | null {
    if (this._needsFit || this._scene === null) {
      return null;
    }
    const { stage } = this._shell;
    return stage.hit(stage.width / 2, stage.height / 2)?.item.key ?? null;
  }

  /** The items of the scene were moved. */
  redrawScene(): void {
    if (this._scene !== null) {
      this._shell.stage.setPicture(this._pictureOf(this._scene), null);
    }
  }

  /** Paints operations in tones instead of heat, until null is set; `legend` says what they mean. */
  setOverlay(overlay: Overlay | null, legend = ''): void {
    this._overlay = overlay;
    this._legend = legend;
    // Every item keeps a line free for what is written on it: nothing moves.
    this.recolour();
  }

  /** The graph is coloured by something else. */
  recolour(): void {
    if (this._scene !== null) {
      this._shell.stage.setPicture(this._pictureOf(this._scene), null);
    }
    this.showLegend();
  }

  /** A new document: what was painted on the old one says nothing of it. */
  dropOverlay(): void {
    this._overlay = null;
  }

  /** What the colours mean now; null where nothing is coloured. */
  get scale(): IScale | null {
    return this._shell.legend.scale;
  }

  showLegend(): void {
    const { legend, stage, theme } = this._shell;
    if (this._overlay !== null) {
      legend.show(scaleOfTones(this._legend));
      return;
    }
    const { timing, colouring } = this._host;
    const { own, chooser } = colouring;
    const scale = own === null ? scaleOfTimes(theme, timing) : scaleOfNumbers(theme, own);
    legend.show(stage.isHeat ? scale : null, chooser);
  }

  dispose(): void {
    this._layout.dispose();
    this._scene = null;
  }

  private _pictureOf(scene: IScene): IPicture {
    const { model, timing, colouring } = this._host;
    return makePicture(model, scene, timing, this._overlay, colouring.own, this._host.hasPorts);
  }
}
