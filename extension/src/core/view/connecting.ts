/**
 * Connecting by hand: ports come up on what is pointed at or selected, an edge is dragged from one to
 * another, and what fits is marked before the drop. What fits is known by the kernel, which is asked once
 * when a drag begins; the drag goes on meanwhile.
 */

import type { IReachAnswer, IReachEnd } from '../../proto/changes';
import { turnedPoint, type Direction } from '../model/flow';
import type { GraphModel } from '../model/graph';
import { portAt, portName, portsOf, PORT_REACH, type IPort } from '../model/ports';
import type { IEdge, IItem, IScene } from '../model/scene';
import type { IPortMark, PortState } from '../render/ports';
import type { Carrying } from './carrying';
import { el } from './dom';
import type { IGrip } from './input';
import type { Stage } from './stage';

/** One end of an edge: a value, or an operand. */
export interface IEnd {
  value: string;
  op: string;
  operand: number;
}

export interface IConnectingHost {
  readonly isOn: boolean;
  readonly model: GraphModel;
  readonly scene: IScene | null;
  readonly stage: Stage;
  readonly selected: readonly IItem[];
  say(text: string): void;
  reach(end: IEnd): Promise<IReachAnswer>;
  /** The names of the operands of an operation, as far as they are known. */
  names(op: string): readonly string[];
  /** Lets an operand read a value; why not, where it is refused. */
  connect(end: IEnd): Promise<string | null>;
  /** Puts what makes a value on the edge to an operand; why not, where it is refused. */
  splice(end: IEnd): Promise<string | null>;
  /** Offers what fits on a value, or on the edge to an operand, at a point of the stage. */
  offer(from: IEnd, x: number, y: number): void;
}

/** From this far away a port draws the drop, in pixels. */
export const DRAW_PX = 26;
/** From this far away a finger takes hold of a port. */
const TOUCH_REACH = 18;
/** Of the end of an edge within which the edge is taken hold of there. */
const EDGE_END_PX = 14;

interface IDrag {
  from: IPort;
  end: IEnd;
  x: number;
  y: number;
  /** By operand or value; null until the kernel has answered. */
  found: ReadonlyMap<string, IReachEnd> | null;
  near: IPort | null;
  /** What a drop would put the value's operation on. */
  edge: IEdge | null;
}

/** What is said at a port until something else is pointed at. */
interface IRefused {
  key: string;
  isResult: boolean;
  number: number;
  name: string;
  text: string;
  /** It is of the whole item, and said too where that is pointed at. */
  isTold: boolean;
}

/** How an operand is known in what the kernel has answered. */
export const keyOf = (op: string, operand: number): string => `${op}.${operand}`;

export class Connecting {
  /** What is said at a port: its name and type, or why a connection was refused. */
  readonly label = el('div', 'jp-MaxLab-portLabel');
  /** An entry of the palette that is dragged over the drawing. */
  carried: Carrying | null = null;
  private _hovered: IItem | null = null;
  /** The port that is pointed at. */
  private _pointed: IPort | null = null;
  private _drag: IDrag | null = null;
  private _shown: IPort[] = [];
  private _refused: IRefused | null = null;

  constructor(private readonly _host: IConnectingHost) {
    this.label.hidden = true;
  }

  get isDragging(): boolean {
    return this._drag !== null;
  }

  /** What is pointed at; true while the pointer is on a port, which then has the pointer's words. */
  hovered(item: IItem | null, x: number, y: number): boolean {
    if (!this._host.isOn || this._drag !== null || this.carried !== null) {
      return false;
    }
    // Half of a port lies outside of its item: there the item is still pointed at.
    const on = portAt(this._shown, x, y);
    const now = on?.item ?? item;
    if (now !== this._hovered) {
      this._hovered = now;
      this.update();
    }
    const port = on ?? portAt(this._shown, x, y);
    this._pointed = port;
    if (port === null) {
      if (this._refused === null) {
        this.label.hidden = true;
      } else if (this._refused.isTold) {
        this.label.hidden = item?.key === this._refused.key;
      }
      return false;
    }
    this._refused = null;
    this.write(port, this._words(port), false);
    this._host.stage.element.style.cursor = 'crosshair';
    return true;
  }

  /** The names of operands are known now: what is said at a port says them. */
  renamed(): void {
    const port = this._pointed;
    if (port !== null && this._drag === null && this._refused === null && !this.label.hidden) {
      this.write(port, this._words(port), false);
    }
  }

  /** The pointer has left the drawing. */
  left(): void {
    this._pointed = null;
    if (this._drag === null && this._hovered !== null) {
      this._hovered = null;
      this.update();
    }
  }

  /** What a press at a point would drag: an edge from a port, or the end of an edge that is there. */
  grip(x: number, y: number, isTouch = false): IGrip | null {
    if (!this._host.isOn) {
      return null;
    }
    const port = portAt(this._shown, x, y, isTouch ? TOUCH_REACH : PORT_REACH) ?? this._edgeEnd(x, y);
    if (port === null) {
      return null;
    }
    return {
      moved: (px, py) => this._moved(port, px, py),
      dropped: (px, py) => void this._dropped(px, py),
      cancelled: () => this._end('nothing is connected')
    };
  }

  /** The camera, the scene or the selection is another: the ports are where it is now. */
  update(): void {
    const { stage, scene, isOn, selected } = this._host;
    if (!isOn || scene === null) {
      this._shown = [];
      this.label.hidden = true;
      if (stage.marks.ports !== null) {
        stage.marks.ports = null;
        stage.redrawMarks();
      }
      return;
    }
    if (this.carried !== null) {
      this._shown = [];
      stage.marks.ports = this.carried.marks();
      stage.redrawMarks();
      return;
    }
    const drag = this._drag;
    const items = drag === null ? this._pointedAt(scene, selected) : this.inView();
    this._shown = items.flatMap(item => this.portsOf(item));
    stage.marks.ports =
      drag === null
        ? { ports: this._shown.map(port => markOf(port, 'idle', false)), line: null, dimmed: [], edge: null }
        : this._marksOf(drag, items);
    this._placeRefused();
    stage.redrawMarks();
  }

  private _pointedAt(scene: IScene, selected: readonly IItem[]): IItem[] {
    const all = new Set(selected);
    if (this._hovered !== null && scene.byKey.get(this._hovered.key) === this._hovered) {
      all.add(this._hovered);
    } else {
      this._hovered = null;
    }
    return [...all].filter(item => item.box === null);
  }

  /** Operations, inputs and outputs that can be seen. */
  inView(): IItem[] {
    const { camera, picture, width, height } = this._host.stage;
    const margin = 40;
    const found = picture?.items.query(
      camera.worldX(-margin),
      camera.worldY(-margin),
      camera.worldX(width + margin),
      camera.worldY(height + margin)
    );
    return (found ?? []).filter(item => item.box === null);
  }

  /** The ports of an item, where the camera has them. */
  portsOf(item: IItem): IPort[] {
    const { model, scene, stage } = this._host;
    const { k, tx, ty } = stage.camera;
    const direction: Direction = scene?.direction ?? 'down';
    return portsOf(model, item, direction, { k, tx, ty });
  }

  // --- a drag -----------------------------------------------------------------------------------

  private _moved(port: IPort, x: number, y: number): void {
    let drag = this._drag;
    if (drag === null) {
      this._refused = null;
      const end = port.isResult
        ? { value: port.value, op: '', operand: 0 }
        : { value: '', op: port.op, operand: port.number };
      drag = { from: port, end, x, y, found: null, near: null, edge: null };
      this._drag = drag;
      void this._ask(drag);
    }
    drag.x = x;
    drag.y = y;
    const near = this._near(drag, x, y);
    if (near !== drag.near) {
      drag.near = near;
      this._sayNear(drag, near);
    }
    const edge = near === null && port.isResult ? this._host.stage.hitEdge(x, y) : null;
    drag.edge = edge === null || this.endOf(edge) === null ? null : edge;
    if (near === null) {
      this.label.hidden = drag.edge === null;
      if (drag.edge !== null) {
        this.write({ x, y, isResult: true }, [port.item.label, 'put on this edge'], false);
      }
    }
    this.update();
  }

  private async _ask(drag: IDrag): Promise<void> {
    try {
      const { ends } = await this._host.reach(drag.end);
      drag.found = new Map(
        ends.map(end => [drag.end.value === '' ? end.value : keyOf(end.op, end.operand), end])
      );
    } catch {
      return; // the drop says what is wrong
    }
    if (this._drag === drag) {
      drag.near = this._near(drag, drag.x, drag.y);
      this._sayNear(drag, drag.near);
      this.update();
    }
  }

  /** What the kernel says of the drop on a port. */
  private _foundOf(drag: IDrag, port: IPort): IReachEnd | undefined {
    return drag.found?.get(drag.end.value === '' ? port.value : keyOf(port.op, port.number));
  }

  private _stateOf(drag: IDrag, port: IPort): PortState {
    const end = this._foundOf(drag, port);
    if (end === undefined) {
      return 'idle';
    }
    return end.state === 'untried' ? 'idle' : end.state;
  }

  /** The port that would be dropped on: one nearby, or that of the item under the pointer. */
  private _near(drag: IDrag, x: number, y: number): IPort | null {
    const ends = this._shown.filter(port => port.isResult !== drag.from.isResult && port.item !== drag.from.item);
    const best = portAt(ends, x, y, DRAW_PX);
    if (best !== null) {
      return best;
    }
    const hit = this._host.stage.hit(x, y);
    if (hit === null || !hit.isSolid || hit.item.box !== null || hit.item === drag.from.item) {
      return null;
    }
    const own = this.portsOf(hit.item).filter(port => port.isResult !== drag.from.isResult);
    const rank = (port: IPort): number =>
      ({ fits: 0, idle: 1, same: 2, refused: 3, held: 3 })[this._stateOf(drag, port)] * 1e6 +
      Math.hypot(port.x - x, port.y - y);
    return own.sort((a, b) => rank(a) - rank(b))[0] ?? null;
  }

  private _marksOf(drag: IDrag, items: readonly IItem[]) {
    const dimmed: IItem[] = [];
    const ports: IPortMark[] = [];
    for (const item of items) {
      const own = this.portsOf(item).filter(port => port.isResult !== drag.from.isResult && item !== drag.from.item);
      const states = own.map(port => this._stateOf(drag, port));
      own.forEach((port, at) => {
        const near = drag.near;
        const isNear = near !== null && near.item === item && near.number === port.number;
        ports.push(markOf(port, states[at] ?? 'idle', isNear));
      });
      const isOpen = states.some(state => state !== 'refused');
      if (drag.found !== null && !isOpen && item !== drag.from.item && item.container === null) {
        dimmed.push(item);
      }
    }
    const [from] = this.portsOf(drag.from.item).filter(
      port => port.isResult === drag.from.isResult && port.number === drag.from.number
    );
    const at = from ?? drag.from;
    ports.push(markOf(at, 'held', false));
    const to = drag.near ?? drag;
    const [a, b] = drag.from.isResult ? [at, to] as const : [to, at] as const;
    const line = { x0: a.x, y0: a.y, x1: b.x, y1: b.y };
    return { ports, line, dimmed, edge: drag.edge };
  }

  private _sayNear(drag: IDrag, near: IPort | null): void {
    if (near === null) {
      this.label.hidden = true;
      return;
    }
    const end = this._foundOf(drag, near);
    const name = this._nameOf(near);
    const words =
      end === undefined || end.state === 'untried'
        ? [name, this._typeOf(near)]
        : end.state === 'refused'
          ? [name, end.says]
          : end.state === 'same'
            ? [name, 'it is connected here']
            : [name, drag.end.value === '' ? this._typeOf(near) : `gives ${end.says}`];
    this.write(near, words, end?.state === 'refused');
  }

  private async _dropped(x: number, y: number): Promise<void> {
    const drag = this._drag;
    if (drag === null) {
      return;
    }
    const near = this._near(drag, x, y);
    const edge = near === null && drag.from.isResult ? this._host.stage.hitEdge(x, y) : null;
    const found = near === null ? undefined : this._foundOf(drag, near);
    this._end();
    if (near !== null) {
      if (found?.state === 'same') {
        return;
      }
      const end = near.isResult
        ? { ...drag.end, value: near.value }
        : { value: drag.end.value, op: near.op, operand: near.number };
      // What does not fit is asked for all the same: the kernel says whether it can be a draft.
      const wrong = await this._host.connect(end);
      if (wrong !== null) {
        this.refuse(near, found?.state === 'refused' ? found.says : wrong);
      }
      return;
    }
    const end = edge === null ? null : this.endOf(edge);
    if (end !== null) {
      const wrong = await this._host.splice({ ...end, value: drag.end.value });
      if (wrong !== null) {
        this.refuse(drag.from, wrong);
      }
      return;
    }
    this._host.offer(drag.end, x, y);
  }

  private _end(said = ''): void {
    this._drag = null;
    this.label.hidden = true;
    if (said !== '') {
      this._host.say(said);
    }
    this.update();
  }

  // --- edges ------------------------------------------------------------------------------------

  /** The operand that an edge leads to; null where it is no operation's. */
  endOf(edge: IEdge): { op: string; operand: number } | null {
    const { model } = this._host;
    const { to } = edge;
    const value = model.values[edge.values[0] ?? -1]?.value.id;
    if (to === null || to.box !== null || value === undefined) {
      return null;
    }
    const port = this.portsOf(to).find(one => !one.isResult && one.value === value);
    return port === undefined ? null : { op: port.op, operand: port.number };
  }

  /** The port at the end of an edge whose end is at a point. */
  private _edgeEnd(x: number, y: number): IPort | null {
    const { stage, scene } = this._host;
    const edge = stage.hitEdge(x, y);
    if (edge === null || edge.to === null || this.endOf(edge) === null || edge.points.length < 2) {
      return null;
    }
    const { k, tx, ty } = stage.camera;
    const isNear = stage.linesOf(edge).some(points => {
      const end = { x: points[points.length - 2] ?? 0, y: points[points.length - 1] ?? 0 };
      const world = turnedPoint(scene?.direction ?? 'down', end);
      return Math.hypot(world.x * k + tx - x, world.y * k + ty - y) <= EDGE_END_PX;
    });
    const values = edge.values.map(index => this._host.model.values[index]?.value.id);
    const ends = this.portsOf(edge.to).filter(port => !port.isResult && values.includes(port.value));
    return isNear ? portAt(ends, x, y, 2 * EDGE_END_PX) : null;
  }

  // --- words ------------------------------------------------------------------------------------

  /** Says at a port why it was not connected, until something else is pointed at. */
  refuse(port: IPort, text: string): void {
    const [first = text] = text.split('\n');
    const { item, isResult, number } = port;
    this._refused = { key: item.key, isResult, number, name: this._nameOf(port), text: first, isTold: false };
    this._placeRefused();
    this._host.say(`${this._nameOf(port)} of ${port.item.label} is not connected: ${first}`);
  }

  /** Says at an operation what is wrong with it, until one of its ports is pointed at. */
  tell(op: string, text: string): void {
    const [first = text] = text.split('\n');
    const name = this._host.scene?.byKey.get(op)?.label ?? op;
    const own = first.startsWith(`${name}: `) ? first.slice(name.length + 2) : first;
    this._refused = { key: op, isResult: true, number: 0, name, text: own, isTold: true };
    this._placeRefused();
  }

  /** What was told of an operation is no longer so. */
  untell(): void {
    this._refused = null;
    this.label.hidden = true;
  }

  private _placeRefused(): void {
    const refused = this._refused;
    const item = refused === null ? undefined : this._host.scene?.byKey.get(refused.key);
    if (refused === null) {
      return;
    }
    const port = item === undefined ? undefined : this.portsOf(item).find(
      one => one.isResult === refused.isResult && one.number === refused.number
    );
    if (port === undefined) {
      this._refused = null;
      this.label.hidden = true;
    } else {
      this.write(port, [refused.name, refused.text], true);
    }
  }

  private _words(port: IPort): string[] {
    const { model } = this._host;
    const name = model.value(port.value)?.value.name ?? '';
    return [this._nameOf(port), [this._typeOf(port), port.isResult ? '' : name].filter(Boolean).join('  ')];
  }

  private _typeOf(port: IPort): string {
    return this._host.model.value(port.value)?.value.type ?? 'missing';
  }

  private _nameOf(port: IPort): string {
    return portName(port, this._host.names(port.item.node?.node.op ?? ''));
  }

  /** Says something beside a point of the stage. */
  write(port: Pick<IPort, 'x' | 'y' | 'isResult'>, [name = '', text = '']: readonly string[], isWrong: boolean): void {
    const { label } = this;
    label.replaceChildren(el('strong', '', name), ' ', el('span', '', text));
    label.classList.toggle('jp-mod-wrong', isWrong);
    label.hidden = false;
    const { width, height } = this._host.stage;
    const { offsetWidth, offsetHeight } = label;
    const gap = PORT_REACH + 6;
    const isDown = this._host.scene?.direction !== 'right';
    let left = isDown ? port.x + gap : port.x - offsetWidth / 2;
    let top = port.isResult === isDown ? port.y + gap / 2 : port.y - gap / 2 - offsetHeight;
    if (!isDown) {
      top = port.y + gap;
    }
    left = Math.max(4, Math.min(left, width - offsetWidth - 4));
    top = Math.max(4, Math.min(top, height - offsetHeight - 4));
    label.style.transform = `translate(${left}px, ${top}px)`;
  }
}

export function markOf({ x, y, isResult }: IPort, state: PortState, isNear: boolean): IPortMark {
  return { x, y, isResult, state, isNear };
}
