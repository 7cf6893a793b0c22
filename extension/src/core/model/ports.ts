/**
 * The ports of an item: where edges can be taken hold of, one for each operand and each result. They lie
 * on the border of the item, operands where the flow comes in and results where it goes out, and keep a
 * size on the screen at which they can be aimed at, however far out the camera is.
 */

import { turned, turnedPoint, type Direction } from './flow';
import type { GraphModel } from './graph';
import type { IItem } from './scene';

export interface IPort {
  item: IItem;
  isResult: boolean;
  /** Id of the operation; `output` for an output of the graph; empty for an input. */
  op: string;
  /** Of the operand or the result, counted without chains. */
  number: number;
  /** Id of the value that is read or made; empty where an operand is missing. */
  value: string;
  /** Of the middle, in pixels of the stage. */
  x: number;
  y: number;
}

/** Pixels within which a port is hit, to all sides: 16 across. */
export const PORT_REACH = 8;

/** Between the middles of the ports of one side, in pixels: no less than they can be hit in. */
const LEAST_STEP = 2 * PORT_REACH;
const STEP = 28;

/** What is between the places of the scene and those of the stage. */
export interface IView {
  k: number;
  tx: number;
  ty: number;
}

const isChain = (type: string): boolean => type === '!mo.chain';

/** The ports of an operation, an input or an output; boxes have none. */
export function portsOf(model: GraphModel, item: IItem, direction: Direction, view: IView): IPort[] {
  const operands: string[] = [];
  const results: string[] = [];
  let op = '';
  if (item.node !== null) {
    const { node } = item.node;
    op = node.id;
    const isPlain = (id: string): boolean => !isChain(model.value(id)?.value.type ?? '');
    operands.push(...node.operands.filter(isPlain));
    results.push(...node.results.filter(isPlain));
  } else if (item.value !== null) {
    const { id } = item.value.value;
    if (item.kind === 'output') {
      op = 'output';
      operands.push(id);
    } else {
      results.push(id);
    }
  }
  const number = (at: number): number =>
    op === 'output' ? model.document.outputs.indexOf(operands[0] ?? '') : at;
  const made: IPort[] = [];
  for (const [ids, isResult] of [[operands, false], [results, true]] as const) {
    ids.forEach((value, at) => {
      const { x, y } = placeOf(item, isResult, at, ids.length, direction, view);
      made.push({ item, isResult, op, number: isResult ? at : number(at), value, x, y });
    });
  }
  return made;
}

/** Where port `at` of `count` on one side lies. */
function placeOf(
  item: IItem,
  isResult: boolean,
  at: number,
  count: number,
  direction: Direction,
  { k, tx, ty }: IView
): { x: number; y: number } {
  const { x, y, w, h } = turned(direction, { x: item.x * k + tx, y: item.y * k + ty, w: item.w * k, h: item.h * k });
  // The middle third of a small item stays its own: there it is clicked and moved.
  const out = Math.max(0, PORT_REACH - h / 3);
  return turnedPoint(direction, {
    x: x + w / 2 + portShift(at, count, w),
    y: isResult ? y + h + out : y - out
  });
}

/** How far from the middle of a side port `at` of `count` is, where the side is `width` pixels wide. */
export function portShift(at: number, count: number, width: number): number {
  return (at - (count - 1) / 2) * Math.max(LEAST_STEP, Math.min(STEP, width / (count + 1)));
}

/** The port that a point of the stage hits; of several the nearest. */
export function portAt(ports: readonly IPort[], x: number, y: number, reach = PORT_REACH): IPort | null {
  let best: IPort | null = null;
  let least = reach;
  for (const port of ports) {
    const distance = Math.hypot(port.x - x, port.y - y);
    if (distance <= least) {
      least = distance;
      best = port;
    }
  }
  return best;
}

/** What a port is called: `lhs`, `result 1`, `operand 2`; `names` are those of the operation's operands. */
export function portName(port: IPort, names: readonly string[]): string {
  if (port.op === 'output') {
    return 'output';
  }
  if (port.isResult) {
    return port.op === '' ? 'input' : port.number === 0 ? 'result' : `result ${port.number}`;
  }
  const own = names[port.number];
  if (own !== undefined && !own.endsWith(' 0')) {
    return own;
  }
  // A list of operands goes on as far as there are some.
  const first = names.findIndex(name => name.endsWith(' 0'));
  return first < 0 || port.number < first
    ? `operand ${port.number}`
    : `${names[first]?.slice(0, -2) ?? ''} ${port.number - first}`;
}
