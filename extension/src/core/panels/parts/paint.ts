/** What charts draw alike. */

import type { ITheme } from '../../render/theme';

export interface IRoom {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Fills a line of a grid; a major one is stronger. */
export function gridLine(
  ctx: CanvasRenderingContext2D,
  theme: ITheme,
  isMajor: boolean,
  x: number,
  y: number,
  w: number,
  h: number
): void {
  ctx.fillStyle = theme.line;
  ctx.globalAlpha = isMajor ? 0.8 : 0.35;
  ctx.fillRect(x, y, w, h);
  ctx.globalAlpha = 1;
}

/** Calls `draw`, of which only what lies in `room` is seen. */
export function clipped(ctx: CanvasRenderingContext2D, room: IRoom, draw: () => void): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(room.x, room.y, room.w, room.h);
  ctx.clip();
  draw();
  ctx.restore();
}
