/**
 * Which way a graph runs over the screen. Layouts, and the lines of edges, are always in the space of the
 * flow, in which everything runs down; here is what leads from there to the world of the items, and back.
 */

export type Direction = 'down' | 'right';

interface ISize {
  w: number;
  h: number;
}

interface IPoint {
  x: number;
  y: number;
}

/** A size in the other of the two spaces: the same way there and back. */
export function turnedSize(direction: Direction, { w, h }: ISize): ISize {
  return direction === 'down' ? { w, h } : { w: h, h: w };
}

/** A point in the other of the two spaces. */
export function turnedPoint(direction: Direction, { x, y }: IPoint): IPoint {
  return direction === 'down' ? { x, y } : { x: y, y: x };
}

/** A rectangle in the other of the two spaces. */
export function turned(direction: Direction, rect: ISize & IPoint): ISize & IPoint {
  return { ...turnedPoint(direction, rect), ...turnedSize(direction, rect) };
}
