/**
 * An entry that is dragged out of the palette, over the drawing: what it fits is marked as for an edge that
 * is dragged, and a drop on a port connects it, one on an edge puts it there, one elsewhere puts it down.
 */

import type { IOfferedOp, IReachAnswer, IReachEnd } from '../../proto/changes';
import type { GraphModel } from '../model/graph';
import { portAt, type IPort } from '../model/ports';
import type { IEdge, IItem } from '../model/scene';
import type { IPortMarks, PortState } from '../render/ports';
import { DRAW_PX, keyOf, markOf, type Connecting } from './connecting';
import type { Place } from './editing';
import type { ICarried } from './palette';
import type { Stage } from './stage';

export interface ICarryingHost {
  readonly model: GraphModel;
  readonly stage: Stage;
  readonly connecting: Connecting;
  say(text: string): void;
  carry(name: string): Promise<IReachAnswer>;
  /** Adds the entry at a place, or where nothing is, at a point of the stage. */
  drop(offer: IOfferedOp, place: Place | null, x: number, y: number): void;
}

/** Nearer than this a port is meant, and not the edge that ends there. */
const ON_PORT_PX = 11;

interface IOver {
  port: IPort | null;
  edge: IEdge | null;
  end: IReachEnd | null;
}

const NOWHERE: IOver = { port: null, edge: null, end: null };

export class Carrying implements ICarried {
  private _found: ReadonlyMap<string, IReachEnd> | null = null;
  private _over: IOver = NOWHERE;
  private _isOutside = true;
  private _x = 0;
  private _y = 0;

  constructor(
    private readonly _host: ICarryingHost,
    private readonly _offer: IOfferedOp
  ) {
    _host.connecting.carried = this;
    _host.say(`dragging ${_offer.name}`);
    void this._ask();
  }

  private async _ask(): Promise<void> {
    try {
      const { ends } = await this._host.carry(this._offer.name);
      this._found = new Map(ends.map(end => [end.op === '' ? end.value : keyOf(end.op, end.operand), end]));
    } catch {
      return; // the drop says what is wrong
    }
    if (this._host.connecting.carried === this) {
      this._follow();
    }
  }

  moved(clientX: number, clientY: number): void {
    const { element } = this._host.stage;
    const box = element.getBoundingClientRect();
    this._x = clientX - box.left;
    this._y = clientY - box.top;
    this._isOutside = clientX < box.left || clientY < box.top || clientX > box.right || clientY > box.bottom;
    this._follow();
  }

  private _follow(): void {
    const { connecting } = this._host;
    this._over = this._isOutside ? NOWHERE : this._overAt(this._x, this._y);
    this._say();
    connecting.update();
  }

  dropped(clientX: number, clientY: number): void {
    this.moved(clientX, clientY);
    const { port, end } = this._over;
    const { _isOutside: isOutside } = this;
    this._end();
    if (isOutside) {
      this._host.say('nothing is added');
      return;
    }
    if (end?.state === 'refused') {
      if (port !== null) {
        this._host.connecting.refuse(port, end.says);
      }
      this._host.say(`${this._offer.name} is not put there: ${end.says}`);
      return;
    }
    this._host.drop(this._offer, this._placeOf(this._over), this._x, this._y);
  }

  cancelled(): void {
    this._end();
    this._host.say('nothing is added');
  }

  private _end(): void {
    const { connecting } = this._host;
    connecting.carried = null;
    connecting.label.hidden = true;
    connecting.update();
  }

  // --- what it is over --------------------------------------------------------------------------

  private _overAt(x: number, y: number): IOver {
    const { connecting, stage } = this._host;
    const ports = connecting.inView().flatMap(item => connecting.portsOf(item));
    const onPort = portAt(ports, x, y, ON_PORT_PX);
    if (onPort !== null) {
      return this._at(onPort);
    }
    const edge = stage.hitEdge(x, y);
    const to = edge === null ? null : connecting.endOf(edge);
    if (edge !== null && to !== null) {
      const port = edge.to === null ? null : connecting.portsOf(edge.to).find(
        one => !one.isResult && one.op === to.op && one.number === to.operand
      ) ?? null;
      return { port, edge, end: this._found?.get(keyOf(to.op, to.operand)) ?? null };
    }
    const near = portAt(ports, x, y, DRAW_PX) ?? this._ofItem(x, y);
    return near === null ? NOWHERE : this._at(near);
  }

  private _at(port: IPort): IOver {
    return { port, edge: null, end: this._endOf(port) };
  }

  /** The port of the item below a point that takes what is dragged, before those that do not. */
  private _ofItem(x: number, y: number): IPort | null {
    const { connecting, stage } = this._host;
    const hit = stage.hit(x, y);
    if (hit === null || !hit.isSolid || hit.item.box !== null) {
      return null;
    }
    const rank = (port: IPort): number =>
      (this._stateOf(port) === 'refused' ? 1e6 : 0) + Math.hypot(port.x - x, port.y - y);
    return [...connecting.portsOf(hit.item)].sort((a, b) => rank(a) - rank(b))[0] ?? null;
  }

  private _endOf(port: IPort): IReachEnd | null {
    return this._found?.get(port.isResult ? port.value : keyOf(port.op, port.number)) ?? null;
  }

  private _stateOf(port: IPort): PortState {
    const state = this._endOf(port)?.state ?? 'untried';
    return state === 'untried' ? 'idle' : state;
  }

  private _placeOf({ port, edge }: IOver): Place | null {
    if (port === null) {
      return null;
    }
    return port.isResult && edge === null
      ? { way: 'add', on: [port.value], op: '', operand: 0 }
      : { way: 'insert', on: [], op: port.op, operand: port.number };
  }

  // --- how it is shown --------------------------------------------------------------------------

  /** What the layer above the scene shows of it. */
  marks(): IPortMarks {
    const { connecting } = this._host;
    const dimmed: IItem[] = [];
    const { port: near, edge } = this._over;
    const ports = connecting.inView().flatMap(item => {
      const own = connecting.portsOf(item);
      const states = own.map(port => this._stateOf(port));
      if (this._found !== null && item.container === null && states.every(state => state === 'refused')) {
        dimmed.push(item);
      }
      return own.map((port, at) => {
        const isNear =
          edge === null && near?.item === item && near.isResult === port.isResult && near.number === port.number;
        return markOf(port, states[at] ?? 'idle', isNear);
      });
    });
    return { ports, line: null, dimmed, edge };
  }

  private _say(): void {
    const { connecting } = this._host;
    const { port, edge, end } = this._over;
    const { name } = this._offer;
    if (this._isOutside) {
      connecting.label.hidden = true;
      return;
    }
    const at = { x: this._x + 8, y: this._y + 8, isResult: true };
    const isWrong = end?.state === 'refused';
    if (port === null) {
      connecting.write(at, [name, 'put down here'], false);
    } else if (isWrong) {
      connecting.write(at, [name, end.says], true);
    } else {
      const gives = end === null || end.state === 'untried' ? '' : end.says.startsWith('asks') ? `, ${end.says}` : `, gives ${end.says}`;
      const what = edge !== null || !port.isResult ? 'put on this edge' : `reads ${port.item.label}`;
      connecting.write(at, [name, `${what}${gives}`], false);
    }
  }
}
