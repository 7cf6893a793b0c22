/** Parts of a graph on their own: what leads to an operation, what follows from it, or all but it. */

import { plural } from '../model/format';
import type { GraphModel } from '../model/graph';
import { buildScene, type IItem, type IScene } from '../model/scene';
import { neighbours } from '../model/trace';
import { Camera } from '../render/camera';
import { button, el } from './dom';
import type { Drawing } from './drawing';
import type { Shell } from './shell';

export interface IApartHost {
  readonly model: GraphModel;
  readonly expanded: ReadonlySet<string>;
  readonly hasChips: boolean;
  /** Ids of the selected operations. */
  readonly selection: readonly string[];
  clearSelection(): void;
}

/** From which operations a part was followed, which way, and how many levels. */
interface IWalk {
  from: readonly string[];
  direction: 'up' | 'down';
  levels: number;
}

/** What was shown, for the way back. */
interface IShown {
  only: ReadonlySet<string> | null;
  walk: IWalk | null;
  title: string;
  camera: Camera;
}

export class Apart {
  /** Says what is shown, how much is not, and has the ways back. */
  readonly element = el('div', 'jp-MaxLab-apart');
  private _only: ReadonlySet<string> | null = null;
  private _walk: IWalk | null = null;
  private _title = '';
  private readonly _before: IShown[] = [];

  constructor(
    private readonly _shell: Shell,
    private readonly _drawing: Drawing,
    private readonly _host: IApartHost
  ) {
    this.element.hidden = true;
    this.element.setAttribute('role', 'group');
    this.element.setAttribute('aria-label', 'Part of the graph that is shown');
  }

  /** Ids of the operations, and keys of the inputs and outputs, that are shown; null for all. */
  get only(): ReadonlySet<string> | null {
    return this._only;
  }

  get canStepBack(): boolean {
    return this._before.length > 0;
  }

  get canFollow(): boolean {
    return this._host.selection.length > 0;
  }

  get isWalk(): boolean {
    return this._walk !== null;
  }

  /** Forgets what a new document no longer has; all is shown when nothing is left. */
  follow(): void {
    if (this._only === null) {
      return;
    }
    const { model } = this._host;
    const kept = [...this._only].filter(
      key => model.node(key) !== undefined || model.value(key.replace(/^(in|out):/, '')) !== undefined
    );
    if (kept.length === 0) {
      this._before.length = 0;
      this._set(null, null, '');
    } else {
      this._only = new Set(kept);
    }
  }

  /** Shows the selection with what it reads (`up`) or what reads it (`down`). */
  trace(direction: 'up' | 'down'): void {
    this._follow({ from: [...this._host.selection], direction, levels: 1 });
  }

  /** Goes so many levels further, or fewer. */
  step(levels: number): void {
    if (this._walk !== null && this._walk.levels + levels >= 1) {
      this._follow({ ...this._walk, levels: this._walk.levels + levels }, false);
    }
  }

  isolate(): void {
    this._change(new Set(this._host.selection), null, 'The selection alone');
  }

  /** Leaves the selected operations out. */
  hide(): void {
    const left = new Set(this._only ?? this._all());
    this._host.selection.forEach(id => left.delete(id));
    if (left.size === 0) {
      this._shell.announcer.hint('Nothing would be left to show');
      return;
    }
    this._change(left, null, 'A part of the graph');
    this._host.clearSelection();
  }

  showAll(): void {
    const [first] = this._before;
    this._before.length = 0;
    void this._show(null, null, '', first?.camera ?? null);
  }

  /** What was shown before, as it was. */
  back(): void {
    const last = this._before.pop();
    if (last !== undefined) {
      void this._show(last.only, last.walk, last.title, last.camera);
    }
  }

  /** The scene is drawn: says how much of all is not in it. */
  drawn(scene: IScene): void {
    const { element } = this;
    element.hidden = this._only === null;
    if (this._only === null) {
      return;
    }
    const hidden = this._whole().items.length - scene.items.length;
    const text = `${this._title} · ${hidden} hidden`;
    const walk = this._walk;
    const steps =
      walk === null
        ? []
        : [
            button('jp-MaxLab-apartStep', 'One level less', () => this.step(-1), '−'),
            button('jp-MaxLab-apartStep', 'One level more', () => this.step(1), '+')
          ];
    steps[0]?.setAttribute('aria-disabled', String(walk?.levels === 1));
    const back =
      this._before.length > 1 ? [button('jp-MaxLab-link', 'Back to the part before', () => this.back(), 'Back')] : [];
    const all = button('jp-MaxLab-link', 'Show all', () => this.showAll(), 'Show all');
    element.replaceChildren(el('span', '', text), ...steps, ...back, all);
    this._shell.announcer.say(text);
  }

  private _follow(walk: IWalk, isNew = true): void {
    const { model } = this._host;
    const whole = this._whole();
    const found = new Set<IItem>();
    for (const id of walk.from) {
      const item = whole.ofNode[model.node(id)?.index ?? -1];
      if (item !== null && item !== undefined) {
        found.add(item);
      }
    }
    let last = [...found];
    for (let level = 0; level < walk.levels; level += 1) {
      const next = last.flatMap(item => neighbours(model, whole, item, walk.direction));
      last = [...new Set(next)].filter(item => !found.has(item));
      last.forEach(item => found.add(item));
    }
    const only = new Set([...found].flatMap(item => this._keysOf(item)));
    const from = walk.from.length === 1 ? (model.node(walk.from[0] ?? '')?.node.op ?? '') : 'the selection';
    const what = walk.direction === 'up' ? 'Producers' : 'Consumers';
    const title = `${what} of ${from}, ${plural(walk.levels, 'level')}`;
    if (isNew) {
      this._change(only, walk, title);
    } else {
      void this._show(only, walk, title, null);
    }
  }

  private _keysOf(item: IItem): string[] {
    const { model } = this._host;
    if (item.box === null) {
      return [item.key];
    }
    return model.nodesIn(item.box).flatMap(index => model.nodes[index]?.node.id ?? []);
  }

  private _all(): string[] {
    const { document } = this._host.model;
    return [
      ...document.nodes.map(node => node.id),
      ...document.inputs.map(id => `in:${id}`),
      ...document.outputs.map(id => `out:${id}`)
    ];
  }

  /** Everything, under the same folds; not laid out. */
  private _whole(): IScene {
    const { model, expanded, hasChips } = this._host;
    return buildScene(model, { expanded, chips: hasChips });
  }

  private _change(only: ReadonlySet<string>, walk: IWalk | null, title: string): void {
    const { camera } = this._shell.stage;
    const kept = new Camera();
    kept.set(camera.k, camera.tx, camera.ty);
    this._before.push({ only: this._only, walk: this._walk, title: this._title, camera: kept });
    void this._show(only, walk, title, null);
  }

  private _set(only: ReadonlySet<string> | null, walk: IWalk | null, title: string): void {
    this._only = only;
    this._walk = walk;
    this._title = title;
  }

  /** Draws a part, where the camera was when it was left, or fitted into the window. */
  private async _show(
    only: ReadonlySet<string> | null,
    walk: IWalk | null,
    title: string,
    camera: Camera | null
  ): Promise<void> {
    this._set(only, walk, title);
    if (camera === null) {
      this._drawing.startAnew();
    }
    await this._drawing.rebuild(null);
    if (camera !== null && this._only === only) {
      this._shell.stage.flyTo(camera, false);
    }
  }
}
