/** Connecting in a view that is edited: by dragging from ports, and by a list of them for the keyboard. */

import type { IOfferedOp, IReachAnswer } from '../../proto/changes';
import { portName, portsOf } from '../model/ports';
import type { IEdge, IItem, IScene } from '../model/scene';
import type { GraphModel } from '../model/graph';
import { messageOf } from '../narrow';
import { Carrying } from './carrying';
import { Connecting, type IEnd } from './connecting';
import type { Ask, Editing } from './editing';
import type { Announcer } from './hud';
import type { IGrip, IPress } from './input';
import type { ICarried } from './palette';
import { Picker, type IChoice } from './picker';
import type { Stage } from './stage';

export interface IWiringHost {
  readonly model: GraphModel;
  readonly scene: IScene | null;
  readonly stage: Stage;
  readonly editing: Editing;
  readonly announcer: Announcer;
  readonly tree: { readonly active: IItem | null; focus(): void };
}

/** How the list names what an operand reads, or a result is read by. */
interface INamed {
  name: string;
  end: IEnd;
}

export class Wiring {
  readonly connecting: Connecting;
  readonly picker: Picker;
  private _names: Readonly<Record<string, readonly string[]>> = {};
  /** Resolves when the names are known, or never will be. */
  private _named: Promise<void> = Promise.resolve();
  private _areNamed = false;

  constructor(
    private readonly _host: IWiringHost,
    private readonly _ask: Ask
  ) {
    const reach = (end: IEnd): Promise<IReachAnswer> => this._reach(end);
    this.picker = new Picker(() => _host.tree.focus());
    this.connecting = new Connecting({
      get isOn() {
        return _host.editing.isOn && !_host.editing.isAlone;
      },
      get model() {
        return _host.model;
      },
      get scene() {
        return _host.scene;
      },
      stage: _host.stage,
      get selected() {
        return _host.stage.marks.selected;
      },
      say: text => _host.announcer.say(text),
      reach,
      names: op => this._names[op] ?? [],
      connect: ({ value, op, operand }) => _host.editing.attempt({ do: 'connect', on: [value], op, operand }),
      splice: ({ value, op, operand }) => _host.editing.attempt({ do: 'splice', on: [value], op, operand }),
      offer: ({ value, op, operand }, x, y) =>
        _host.editing.openAt(
          value === ''
            ? { way: 'insert', on: [], op, operand }
            : { way: 'add', on: [value], op: '', operand: 0 },
          x,
          y
        )
    });
  }

  /** Drags an entry of the palette over the drawing. */
  carry(offer: IOfferedOp): ICarried {
    const { _host: host, connecting } = this;
    return new Carrying(
      {
        get model() {
          return host.model;
        },
        stage: host.stage,
        connecting,
        say: text => host.announcer.say(text),
        carry: async name => (await this._ask('carry', { name })).data,
        drop: (one, place, x, y) => void host.editing.drop(one, place, x, y)
      },
      offer
    );
  }

  /** Editing was switched on or off. */
  switched(): void {
    this.connecting.update();
    this.picker.close();
    if (this._host.editing.isOn && !this._host.editing.isAlone) {
      this._areNamed = false;
      this._named = this._readNames();
    }
  }

  private async _readNames(): Promise<void> {
    try {
      const { data } = await this._ask('ports', {});
      this._names = data.names;
    } catch {
      // Operands go by their numbers then.
    }
    this._areNamed = true;
    this.connecting.renamed();
  }

  private async _reach(end: IEnd): Promise<IReachAnswer> {
    return (await this._ask('reach', end)).data;
  }

  /** The pointer is over an item, an edge or nothing; true while it is on a port. */
  hovered(item: IItem | null, edge: IEdge | null, x: number, y: number): boolean {
    if (item === null && edge === null && x === 0 && y === 0) {
      this.connecting.left();
      return false;
    }
    return this.connecting.hovered(item, x, y);
  }

  grip(x: number, y: number, press: IPress): IGrip | null {
    return this.connecting.grip(x, y, press.isTouch);
  }

  // --- by the keyboard --------------------------------------------------------------------------

  /** Lists the ports of an item; the one that is chosen is connected by a second list. */
  open(item: IItem | null): void {
    if (this._areNamed || item === null) {
      this._list(item);
      return;
    }
    // Who is quicker than the kernel waits for the names: a list by numbers would say little.
    const { key } = item;
    const isWanted = this.picker.wait(`Ports of ${item.label}`, 'Looking for their names …');
    void this._named.then(() => {
      if (isWanted()) {
        this._list(this._host.scene?.byKey.get(key) ?? null);
      }
    });
  }

  private _list(item: IItem | null): void {
    const { scene, announcer } = this._host;
    const named = item === null || scene === null ? [] : this._endsOf(item);
    if (item === null || named.length === 0) {
      announcer.hint('Select an operation, an input or an output to connect');
      return;
    }
    const choices = named.map(({ name, end }): IChoice => {
      const about = end.value === '' ? this._readBy(item, end) : this._readersOf(end.value);
      return { label: name, says: about, chosen: () => void this._chooseFor(item, name, end) };
    });
    this.picker.open(`Ports of ${item.label}`, choices);
  }

  private _endsOf(item: IItem): INamed[] {
    const { model } = this._host;
    const names = this._names[item.node?.node.op ?? ''] ?? [];
    return portsOf(model, item, 'down', { k: 1, tx: 0, ty: 0 }).map(port => ({
      name: portName(port, names),
      end: port.isResult
        ? { value: port.value, op: '', operand: 0 }
        : { value: '', op: port.op, operand: port.number }
    }));
  }

  /** What an operand reads, in words. */
  private _readBy(item: IItem, { op, operand }: IEnd): string {
    const { model } = this._host;
    const port = portsOf(model, item, 'down', { k: 1, tx: 0, ty: 0 }).find(
      one => !one.isResult && one.op === op && one.number === operand
    );
    return port === undefined || port.value === '' ? 'reads nothing yet' : `reads ${this._valueWords(port.value)}`;
  }

  private _readersOf(id: string): string {
    const { model } = this._host;
    const value = model.value(id);
    const readers = (value?.consumers ?? []).map(at => model.nodes[at]?.node).filter(node => node !== undefined);
    const words = readers.slice(0, 3).map(node => `${node.op} ${node.id}`);
    const more = readers.length > 3 ? [`${readers.length - 3} more`] : [];
    const output = value?.isOutput === true ? ['the output'] : [];
    const all = [...words, ...more, ...output];
    return `${value?.value.type ?? ''}, ${all.length === 0 ? 'read by nothing' : `read by ${all.join(', ')}`}`;
  }

  /** A value by its name or what makes it, with its type. */
  private _valueWords(id: string): string {
    const { model } = this._host;
    const value = model.value(id);
    const maker = value === undefined || value.producer < 0 ? undefined : model.nodes[value.producer]?.node;
    const name = value?.value.name ?? '';
    const words = maker === undefined ? name || id : [maker.op, maker.id, name === '' ? '' : `(${name})`];
    return [...(Array.isArray(words) ? words : [words]), value?.value.type ?? ''].filter(Boolean).join(' ');
  }

  private async _chooseFor(item: IItem, name: string, end: IEnd): Promise<void> {
    const title = end.value === '' ? `Let ${name} of ${item.label} read` : `Let an operand read ${name} of ${item.label}`;
    const isWanted = this.picker.wait(title);
    try {
      const { ends } = await this._reach(end);
      const choices = ends
        .filter(({ state }) => state !== 'refused')
        .map(({ op, operand, value, state, says }): IChoice => {
          const label = end.value === '' ? this._valueWords(value) : this._operandWords(op, operand);
          return {
            label,
            says: state === 'same' ? 'connected now' : `gives ${says}`,
            chosen: () => void this._connect(value, op, operand)
          };
        });
      if (isWanted()) {
        this.picker.open(title, choices, `Nothing fits: ${ends.length} were tried`);
      }
    } catch (error) {
      if (isWanted()) {
        this.picker.open(title, [], messageOf(error));
      }
    }
  }

  private _operandWords(op: string, operand: number): string {
    const { model } = this._host;
    if (op === 'output') {
      const value = model.document.outputs[operand];
      return `output ${operand}${value === undefined ? '' : `, which gives ${this._valueWords(value)}`}`;
    }
    const node = model.node(op);
    const names = this._names[node?.node.op ?? ''] ?? [];
    const item = node === undefined ? undefined : this._host.scene?.ofNode[node.index];
    const port = item === null || item === undefined ? undefined : portsOf(model, item, 'down', { k: 1, tx: 0, ty: 0 }).find(
      one => !one.isResult && one.op === op && one.number === operand
    );
    return `${port === undefined ? `operand ${operand}` : portName(port, names)} of ${node?.node.op ?? ''} ${op}`;
  }

  private async _connect(value: string, op: string, operand: number): Promise<void> {
    const wrong = await this._host.editing.attempt({ do: 'connect', on: [value], op, operand });
    if (wrong === null) {
      this.picker.close();
    } else {
      this.picker.explain(wrong.split('\n')[0] ?? wrong);
    }
  }
}
