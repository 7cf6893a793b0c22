/** Patterns as tiles that the canvas repeats, made once per screen and colour. */

import type { ISliceStyle, Pattern } from './styles';

const TILE_PX = 8;

export class Patterns {
  private readonly _made = new Map<string, CanvasPattern | null>();

  /** The pattern of a style; null for none, and where there is no canvas. */
  get(ctx: CanvasRenderingContext2D, style: ISliceStyle): CanvasPattern | null {
    if (style.pattern === 'none') {
      return null;
    }
    const key = `${style.pattern} ${style.text}`;
    const known = this._made.get(key);
    if (known !== undefined) {
      return known;
    }
    const made = makeTile(ctx, style.pattern, style.text);
    this._made.set(key, made);
    return made;
  }
}

function makeTile(
  ctx: CanvasRenderingContext2D,
  pattern: Pattern,
  color: string
): CanvasPattern | null {
  const tile = document.createElement('canvas');
  const to = tile.getContext('2d');
  if (to === null) {
    return null;
  }
  tile.width = TILE_PX;
  tile.height = TILE_PX;
  to.strokeStyle = color;
  to.fillStyle = color;
  to.globalAlpha = 0.32;
  to.lineWidth = 1;
  to.beginPath();
  // Lines go over the edges, so that tiles join without gaps at the corners.
  const rising = (): void => {
    for (const at of [0, TILE_PX, 2 * TILE_PX]) {
      to.moveTo(at - TILE_PX - 1, TILE_PX + 1);
      to.lineTo(at + 1, -1);
    }
  };
  const falling = (): void => {
    for (const at of [-TILE_PX, 0, TILE_PX]) {
      to.moveTo(at - 1, -1);
      to.lineTo(at + TILE_PX + 1, TILE_PX + 1);
    }
  };
  if (pattern === 'rising' || pattern === 'cross') {
    rising();
  }
  if (pattern === 'falling' || pattern === 'cross') {
    falling();
  }
  if (pattern === 'level') {
    for (const y of [2.5, 6.5]) {
      to.moveTo(0, y);
      to.lineTo(TILE_PX, y);
    }
  }
  to.stroke();
  if (pattern === 'dots') {
    for (const [x, y] of [[1, 1], [5, 1], [3, 5], [7, 5]] as const) {
      to.fillRect(x, y, 1.4, 1.4);
    }
  }
  return ctx.createPattern(tile, 'repeat');
}
