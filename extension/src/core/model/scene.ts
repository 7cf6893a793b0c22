/**
 * What is visible under a fold state: items in nested containers, with edges lifted to them.
 *
 * Input: a graph model and the set of unfolded boxes. Output: a tree of items without positions, in
 * which each container holds the edges between its direct children; an edge that enters or leaves an
 * unfolded box does so through a port on its border, so that every container can be laid out alone.
 */

import type { IBox } from './boxes';
import type { Direction } from './flow';
import { isLoop, type GraphModel, type IGraphNode, type IGraphValue } from './graph';
import { plural } from './format';
import { clip, METRICS, monoWidth, roughMeasure, type Measure } from './metrics';
import { at, present } from '../narrow';

export type ItemKind = 'root' | 'node' | 'scope' | 'run' | 'input' | 'output';

export interface IItem {
  /** Structural key, stable through rebuilds: `n12`, `box:encoder.layers.0`, `in:v0`, `out:v9`. */
  key: string;
  kind: ItemKind;
  label: string;
  detail: string;
  chips: string[];
  /** Number of identical members of a run; 1 otherwise. */
  count: number;
  node: IGraphNode | null;
  box: IBox | null;
  value: IGraphValue | null;
  parent: IItem | null;
  depth: number;
  /** Position among the parent's items. */
  order: number;
  /** Inside of an unfolded box; null for everything else. */
  container: IContainer | null;
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Where an edge ends: a child, one of its ports, or a port of the container itself. */
export const enum End {
  Child,
  In,
  Out
}

export interface IEdge {
  srcEnd: End;
  src: number;
  srcPort: number;
  dstEnd: End;
  dst: number;
  dstPort: number;
  /** Indexes of the values that flow here. */
  values: number[];
  /** Pairs of producer and consumer that this edge stands for. */
  count: number;
  label: string;
  /** What a loop computes for its next turn, on its way back to where that begins. */
  isTurn: boolean;
  /** It goes around the end of a column; set by the layout. */
  isAround: boolean;
  /** Points up to which a turn is drawn: where it meets another one. */
  end: number;
  /** Flat absolute points x0, y0, x1, y1, … in the space of the flow (`flow.ts`); set by the layout. */
  points: Float32Array;
  /** Index of the point from which this edge runs alone: before it another edge draws the same line. */
  start: number;
  /** The items at the two ends inside this container, when they are items. */
  from: IItem | null;
  to: IItem | null;
}

/** In which column things stand, and how far each column was moved to get there. */
export interface IColumns {
  of: Int32Array;
  dx: Float64Array;
  dy: Float64Array;
}

export interface IContainer {
  item: IItem;
  items: IItem[];
  edges: IEdge[];
  /** Values that enter and leave, one port each, up to `MAX_PORTS`. */
  inPorts: Map<number, number>;
  outPorts: Map<number, number>;
  nIn: number;
  nOut: number;
  byKey: Map<string, IEdge>;
  /** The columns that the layout broke it into; null where there is one. */
  columns: IColumns | null;
  /** Where the origin of places is, from the top left corner, in the space of the flow. */
  origin: { x: number; y: number };
  /** Where each item stands when it has no place, from there; null where none has a place. */
  autoX: Float64Array | null;
  autoY: Float64Array | null;
}

export interface IScene {
  /** Which way it runs over the screen. */
  direction: Direction;
  root: IItem;
  items: IItem[];
  byKey: Map<string, IItem>;
  /** The visible item of every operation; null for chips. */
  ofNode: (IItem | null)[];
}

export interface ISceneOptions {
  expanded: ReadonlySet<string>;
  chips: boolean;
  /** Which way it runs over the screen; down by default. */
  direction?: Direction;
  /** Names with the scope that they are in. */
  fullNames?: boolean;
  /** Only these: ids of operations, keys of inputs and outputs; everything without it. */
  only?: ReadonlySet<string> | null;
  measure?: Measure;
}

/** More values than this crossing one border share the last port. */
const MAX_PORTS = 24;

const MAX_CHIPS = 3;

const LONGEST_NAME = 32;

export function boxKey(box: IBox): string {
  return box.kind === 'root' ? 'root' : `box:${box.key}`;
}

class SceneBuilder {
  readonly items: IItem[] = [];
  readonly byKey = new Map<string, IItem>();
  readonly ofNode: (IItem | null)[];
  private readonly _inputs = new Map<number, IItem>();
  private readonly _measure: Measure;

  constructor(
    private readonly _model: GraphModel,
    private readonly _options: ISceneOptions
  ) {
    this._measure = _options.measure ?? roughMeasure;
    this.ofNode = new Array<IItem | null>(_model.nodes.length).fill(null);
  }

  build(): IScene {
    const root = this._item('root', 'root', this._model.root.label, null);
    root.box = this._model.root;
    root.container = makeContainer(root);
    const { document } = this._model;
    for (const id of document.inputs) {
      this._terminal('input', id, root);
    }
    this._fill(this._model.root, root);
    const outputs: [IGraphValue, IItem][] = [];
    for (const id of document.outputs) {
      const value = this._model.value(id);
      const item = this._terminal('output', id, root);
      if (value !== undefined && item !== null) {
        outputs.push([value, item]);
      }
    }
    this._connect(outputs);
    const { direction = 'down' } = this._options;
    return { direction, root, items: this.items, byKey: this.byKey, ofNode: this.ofNode };
  }

  private _item(kind: ItemKind, key: string, label: string, parent: IItem | null): IItem {
    const item: IItem = {
      key,
      kind,
      label,
      detail: '',
      chips: [],
      count: 1,
      node: null,
      box: null,
      value: null,
      parent,
      depth: parent === null ? 0 : parent.depth + 1,
      order: parent?.container?.items.length ?? 0,
      container: null,
      x: 0,
      y: 0,
      w: 0,
      h: 0
    };
    if (parent !== null) {
      parent.container?.items.push(item);
      this.items.push(item);
      this.byKey.set(key, item);
    }
    return item;
  }

  private _isShown(key: string): boolean {
    const { only } = this._options;
    return only === undefined || only === null || only.has(key);
  }

  private _terminal(kind: 'input' | 'output', id: string, root: IItem): IItem | null {
    const value = this._model.value(id);
    const key = `${kind === 'input' ? 'in' : 'out'}:${id}`;
    if (value === undefined || this.byKey.has(key) || !this._isShown(key)) {
      return null;
    }
    const ids = kind === 'input' ? this._model.document.inputs : this._model.document.outputs;
    const label = value.value.name ?? (ids.length > 1 ? `${kind} ${ids.indexOf(id)}` : kind);
    const item = this._item(kind, key, clip(label, 32), root);
    item.value = value;
    item.detail = kind === 'input' ? clip(value.value.type, 40) : '';
    const width =
      this._measure(item.label, METRICS.labelFont, true) +
      (item.detail ? 10 + monoWidth(item.detail, METRICS.edgeFont) : 0) +
      2 * METRICS.padX;
    const far = (this._measure(item.label, METRICS.leastName, true) + 4) / METRICS.nameZoom;
    item.w = roundUp(Math.max(64, width, far));
    item.h = METRICS.pill;
    if (kind === 'input') {
      this._inputs.set(value.index, item);
    }
    return item;
  }

  /** Adds the children of `box` to `parent`, in order of first use. */
  private _fill(box: IBox, parent: IItem): void {
    let next = 0;
    for (const index of box.nodes) {
      while (next < box.children.length && at(box.children, next).first < index) {
        this._addBox(at(box.children, next++), parent);
      }
      this._addNode(at(this._model.nodes, index), parent);
    }
    while (next < box.children.length) {
      this._addBox(at(box.children, next++), parent);
    }
  }

  private _addBox(box: IBox, parent: IItem): void {
    // A function that only makes constants: they are written on whoever reads them.
    const inside = this._model.nodesIn(box).map(index => at(this._model.nodes, index));
    if (inside.every(node => node.isChip || !this._isShown(node.node.id))) {
      return;
    }
    const item = this._item(box.kind === 'run' ? 'run' : 'scope', boxKey(box), this._nameOf(box.label, box.path), parent);
    item.box = box;
    item.count = box.kind === 'run' ? box.children.length : 1;
    item.detail = box.type !== box.label ? box.type : '';
    if (this._options.expanded.has(box.key)) {
      item.container = makeContainer(item);
      this._fill(box, item);
      return;
    }
    for (const node of inside) {
      if (!node.isChip && this._isShown(node.node.id)) {
        this.ofNode[node.index] = item;
      }
    }
    this._sizeBox(item);
  }

  private _sizeBox(item: IItem): void {
    const title = this._measure(item.label, METRICS.labelFont, true) + (item.count > 1 ? 40 : 0);
    const sub = this._measure(boxSubtitle(item), METRICS.smallFont);
    const far = this._measure(item.label, METRICS.leastName, true) + (item.count > 1 ? 28 : 4);
    item.w = roundUp(Math.max(140, title + 52, sub + 52, far / METRICS.nameZoom));
    item.h = METRICS.scopeHeight;
    if (item.count > 1) {
      item.w += METRICS.stack;
      item.h += METRICS.stack;
    }
  }

  private _addNode(node: IGraphNode, parent: IItem): void {
    if (node.isChip || !this._isShown(node.node.id)) {
      return;
    }
    const { op, scope, id } = node.node;
    const label = this._nameOf(clip(op, LONGEST_NAME), scope === '' ? op : `${scope}.${op}`);
    const item = this._item('node', id, label, parent);
    item.node = node;
    item.detail = clip(nodeDetail(node), node.isDraft ? 44 : 34);
    if (this._options.chips) {
      item.chips = this._chips(node);
    }
    this.ofNode[node.index] = item;
    const m = this._measure;
    const isView = node.family === 'view';
    const type = this._model.values[node.results[0] ?? -1]?.value.type ?? '';
    item.w = roundUp(
      Math.min(
        METRICS.maxWidth,
        Math.max(
          isView ? 80 : METRICS.minWidth,
          m(item.label, METRICS.labelFont, !isView) + 2 * METRICS.padX,
          (m(item.label, METRICS.leastName, true) + 4) / METRICS.nameZoom,
          m(item.detail, METRICS.smallFont) + 2 * METRICS.padX,
          Math.min(200, monoWidth(type, METRICS.edgeFont)),
          ...item.chips.map(chip => monoWidth(`▪ ${chip}`, METRICS.edgeFont) + METRICS.padX)
        )
      )
    );
    item.h = METRICS.rowLabel + (rowsOf(item) + 1) * METRICS.rowSmall + 2 * METRICS.padY;
  }

  /** The name that is wanted; of a long one the end, which tells it from others. */
  private _nameOf(short: string, full: string): string {
    if (this._options.fullNames !== true) {
      return short;
    }
    return full.length <= LONGEST_NAME ? full : `…${full.slice(1 - LONGEST_NAME)}`;
  }

  private _chips(node: IGraphNode): string[] {
    const values = this._model.chipsOf(node);
    const shown = values.slice(0, MAX_CHIPS).map(value => chipText(this._model, value));
    return values.length > MAX_CHIPS ? [...shown, `+${values.length - MAX_CHIPS} more`] : shown;
  }

  private _connect(outputs: readonly (readonly [IGraphValue, IItem])[]): void {
    const outputsOf = new Map<number, IItem[]>();
    for (const [value, item] of outputs) {
      outputsOf.set(value.index, [...(outputsOf.get(value.index) ?? []), item]);
    }
    for (const value of this._model.values) {
      const from =
        value.producer >= 0 ? this.ofNode[value.producer] : this._inputs.get(value.index);
      if (from === null || from === undefined) {
        continue;
      }
      for (const consumer of value.consumers) {
        const to = this.ofNode[consumer] ?? null;
        if (to === null || to === from) {
          continue;
        }
        const node = this._model.nodes[consumer];
        const isTurn =
          node !== undefined && isLoop(node.node) && node.gives.some(given => given.includes(value.index));
        if (!isTurn || node.operands.includes(value.index)) {
          this._route(value.index, from, to);
        }
        if (isTurn) {
          this._route(value.index, from, to, true);
        }
      }
      for (const to of outputsOf.get(value.index) ?? []) {
        this._route(value.index, from, to);
      }
    }
  }

  /** Edges for one value from one leaf to another, one in every container on the way. */
  private _route(value: number, from: IItem, to: IItem, isTurn = false): void {
    let a = from;
    let b = to;
    let aPort = -1;
    let bPort = -1;
    while (a.parent !== b.parent) {
      if (a.depth >= b.depth) {
        const inside = holderOf(a);
        const port = portOf(inside.outPorts, value);
        inside.nOut = Math.max(inside.nOut, port + 1);
        this._edge(inside, End.Child, a, aPort, End.Out, null, port, value);
        a = inside.item;
        aPort = port;
      } else {
        const inside = holderOf(b);
        const port = portOf(inside.inPorts, value);
        inside.nIn = Math.max(inside.nIn, port + 1);
        this._edge(inside, End.In, null, port, End.Child, b, bPort, value);
        b = inside.item;
        bPort = port;
      }
    }
    const inside = holderOf(a);
    // What comes in from outside anew in each turn does not come back.
    this._edge(inside, End.Child, a, aPort, End.Child, b, bPort, value, isTurn && b === to);
  }

  private _edge(
    inside: IContainer,
    srcEnd: End,
    from: IItem | null,
    srcPort: number,
    dstEnd: End,
    to: IItem | null,
    dstPort: number,
    value: number,
    isTurn = false
  ): void {
    const src = from?.order ?? -1;
    const dst = to?.order ?? -1;
    const key = `${srcEnd},${src},${srcPort},${dstEnd},${dst},${dstPort},${isTurn}`;
    const known = inside.byKey.get(key);
    if (known !== undefined) {
      known.count += 1;
      if (known.values[known.values.length - 1] !== value && !known.values.includes(value)) {
        known.values.push(value);
        if (known.label) {
          known.label = `${known.values.length} tensors`;
        }
      }
      return;
    }
    const isSource = from !== null && from.container === null && from.kind !== 'input';
    const edge: IEdge = {
      srcEnd,
      src,
      srcPort,
      dstEnd,
      dst,
      dstPort,
      values: [value],
      count: 1,
      label: isSource ? (this._model.values[value]?.value.type ?? '') : '',
      isTurn,
      isAround: false,
      end: 0,
      points: NO_POINTS,
      start: 0,
      from,
      to
    };
    inside.byKey.set(key, edge);
    inside.edges.push(edge);
  }
}

const NO_POINTS = new Float32Array(0);

function makeContainer(item: IItem): IContainer {
  return {
    item,
    items: [],
    edges: [],
    inPorts: new Map(),
    outPorts: new Map(),
    nIn: 0,
    nOut: 0,
    byKey: new Map(),
    columns: null,
    origin: { x: 0, y: 0 },
    autoX: null,
    autoY: null
  };
}

/** The container that an item below the top level lies in. */
function holderOf(item: IItem): IContainer {
  return present(item.parent?.container, `the container of ${item.key}`);
}

function portOf(ports: Map<number, number>, value: number): number {
  let port = ports.get(value);
  if (port === undefined) {
    port = Math.min(ports.size, MAX_PORTS - 1);
    ports.set(value, port);
  }
  return port;
}

function roundUp(width: number): number {
  return Math.ceil(width / METRICS.widthStep) * METRICS.widthStep;
}

/** Lines under the name of an operation, without the one for time or a note. */
export function rowsOf(item: IItem): number {
  return (item.detail ? 1 : 0) + item.chips.length;
}

/** The line under the title of a folded box. */
export function boxSubtitle(item: IItem): string {
  const total = item.box?.total ?? 0;
  const ops =
    item.count > 1
      ? `${item.count} × ${plural(Math.round(total / item.count), 'op')}`
      : plural(total, 'op');
  return item.detail ? `${clip(item.detail, 28)} · ${ops}` : ops;
}

/** The line under the name of an operation: its own name, else its attributes. */
function nodeDetail(node: IGraphNode): string {
  if (node.isDraft) {
    return node.node.error ?? '';
  }
  const { name, op, attrs } = node.node;
  if (name !== '' && name !== op && !name.startsWith(`${op}_`)) {
    return name;
  }
  return Object.entries(attrs)
    .map(([key, value]) => `${key}=${value}`)
    .join(' ');
}

/** `weight f32[384, 384]`, or the number itself for a scalar constant that carries one. */
function chipText(model: GraphModel, value: IGraphValue): string {
  const producer = model.nodes[value.producer]?.node;
  const literal = producer?.attrs.value;
  if (literal !== undefined && value.value.shape.length === 0) {
    // a constant without a name of its own is named by its value
    const named = value.value.name ?? '';
    return clip(named === literal ? named : `${named} ${literal}`.trim(), 30);
  }
  const name = value.value.name ?? producer?.name ?? '';
  const short = name.slice(name.lastIndexOf('.') + 1);
  return clip(`${short === 'constant' ? '' : short} ${value.value.type}`.trim(), 34);
}

export function buildScene(model: GraphModel, options: ISceneOptions): IScene {
  return new SceneBuilder(model, options).build();
}
