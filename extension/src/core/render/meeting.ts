/**
 * Where edges end while ports are shown: at the port of the operand that reads and of the result that is
 * read, not at the middle of the side. Ports keep their distance on the screen, so it depends on the zoom.
 * Where several operands of an operation read from the same one, as in `x @ x`, each has its own line.
 */

import { turned, type Direction } from '../model/flow';
import type { GraphModel } from '../model/graph';
import { portShift, portsOf } from '../model/ports';
import type { IEdge, IItem, IScene } from '../model/scene';
import { at } from '../narrow';

/** A port by its place among those of its side, and how wide that side is. */
interface ISide {
  number: number;
  count: number;
  width: number;
}

interface IMeeting {
  from: ISide | null;
  to: ISide | null;
  /** What was made last, for what points and what zoom. */
  made: Float32Array;
  of: Float32Array | null;
  k: number;
}

/** The edges that end beside the middle, or at several ports: their lines. */
export type Meetings = ReadonlyMap<IEdge, readonly IMeeting[]>;

/** Of one edge no more lines than this are drawn. */
const MOST_LINES = 16;

const VIEW = { k: 1, tx: 0, ty: 0 };
/** Of the length of a line, the last part that bends to the port. */
const BEND = 34;

export function meetingsOf(model: GraphModel, scene: IScene, edges: readonly IEdge[]): Meetings {
  const found = new Map<IEdge, readonly IMeeting[]>();
  for (const edge of edges) {
    if (edge.isTurn) {
      continue;
    }
    const lines = edge.values.flatMap(index => {
      const value = model.values[index]?.value.id ?? '';
      const [from = null] = sidesOf(model, edge.from, value, true, scene.direction);
      const ends = sidesOf(model, edge.to, value, false, scene.direction);
      return ends.map((to): IMeeting => ({ from, to, made: edge.points, of: null, k: 0 }));
    });
    // Into a box, and out of it, there is one line for all.
    const isLoose = (edge.from?.node ?? null) === null && (edge.to?.node ?? null) === null;
    const drawn = isLoose ? lines.slice(0, 1) : lines.slice(0, MOST_LINES);
    if (drawn.length > 1 || drawn.some(({ from, to }) => from !== null || to !== null)) {
      found.set(edge, drawn);
    }
  }
  return found;
}

/** The ports of an item that read or make a value; null for one that is in the middle, or is not known. */
function sidesOf(
  model: GraphModel,
  item: IItem | null,
  value: string,
  isResult: boolean,
  direction: Direction
): (ISide | null)[] {
  if (item === null || item.node === null) {
    return [null];
  }
  const side = portsOf(model, item, direction, VIEW).filter(port => port.isResult === isResult);
  const count = side.length;
  const { w: width } = turned(direction, item);
  const found = side.flatMap((port, number) => {
    const isMiddle = 2 * number === count - 1;
    return port.value !== value ? [] : [isMiddle ? null : { number, count, width }];
  });
  return found.length === 0 ? [null] : found;
}

/** The lines of an edge, which end at ports where `meetings` has it. */
export function drawnLines(edge: IEdge, meetings: Meetings | null, k: number): readonly Float32Array[] {
  const found = meetings?.get(edge);
  return found === undefined || edge.points.length < 4 ? [edge.points] : found.map(one => pointsOf(edge, one, k));
}

/** The points of one line of an edge. */
function pointsOf(edge: IEdge, meeting: IMeeting, k: number): Float32Array {
  if (meeting.of !== edge.points || meeting.k !== k) {
    const shift = (side: ISide | null): number =>
      side === null ? 0 : portShift(side.number, side.count, side.width * k) / k;
    meeting.of = edge.points;
    meeting.k = k;
    meeting.made = bent(edge.points, shift(meeting.from), shift(meeting.to));
  }
  return meeting.made;
}

/** A line whose ends are moved across the flow; a long straight one bends only near its ends. */
function bent(points: Float32Array, from: number, to: number): Float32Array {
  const made = Array.from(points);
  if (from !== 0) {
    const [x0, y0, x1, y1] = [at(made, 0), at(made, 1), at(made, 2), at(made, 3)];
    if (Math.abs(x1 - x0) < 0.7 && y1 - y0 > 2 * BEND) {
      made.splice(2, 0, x0, y0 + BEND);
    }
    made[0] = x0 + from;
  }
  if (to !== 0) {
    const n = made.length;
    const [x0, y0, x1, y1] = [at(made, n - 4), at(made, n - 3), at(made, n - 2), at(made, n - 1)];
    if (Math.abs(x1 - x0) < 0.7 && y1 - y0 > 2 * BEND) {
      made.splice(n - 2, 0, x1, y1 - BEND);
    }
    made[made.length - 2] = x1 + to;
  }
  return Float32Array.from(made);
}
