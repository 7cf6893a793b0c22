/** Comments in a picture of the graph that is a file: cards with a bar at their side, as on the page. */

import type { ISurface } from './surface';
import type { ITheme } from './theme';

/** A comment, where it stands in a picture, in pixels of the picture. */
export interface INote {
  text: string;
  x: number;
  y: number;
  w: number;
  h: number;
  /** What its text is scaled by; 0 where only a mark is left of it. */
  scale: number;
}

/** As the style of comments has it: the size of a line and of its text, what is free around the text. */
const TEXT = 11.5;
const LINE = TEXT * 1.4;
const PAD_X = 8;
const PAD_Y = 4;
const BAR = 3;
const EDGE = 1;

const fontOf = (theme: ITheme, scale: number): string => `${(TEXT * scale).toFixed(2)}px ${theme.fontUi}`;

/** The lines of `text` in a room that is `room` wide; long words are broken. */
export function linesOf(ctx: ISurface, text: string, room: number): string[] {
  const fits = (part: string): boolean => ctx.measureText(part).width <= room;
  const lines: string[] = [];
  for (const given of text.split('\n')) {
    let line = '';
    for (const word of given.split(/(?<=\s)/)) {
      if (line !== '' && !fits((line + word).trimEnd())) {
        lines.push(line.trimEnd());
        line = '';
      }
      line += word;
      while (!fits(line.trimEnd()) && line.length > 1) {
        let end = line.length - 1;
        while (end > 1 && !fits(line.slice(0, end))) {
          end -= 1;
        }
        lines.push(line.slice(0, end));
        line = line.slice(end);
      }
    }
    lines.push(line.trimEnd());
  }
  return lines;
}

export function paintNote(ctx: ISurface, theme: ITheme, { text, x, y, w, h, scale }: INote): void {
  ctx.beginPath();
  ctx.roundRect(x, y, w, h, [3, 6, 6, 3].map(radius => radius * Math.max(scale, 0.5)));
  ctx.fillStyle = theme.surface;
  ctx.fill();
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = EDGE;
  ctx.stroke();
  const unit = scale === 0 ? 1 : scale;
  ctx.fillStyle = theme.accent;
  ctx.fillRect(x, y, BAR * unit, h);
  if (scale === 0) {
    return;
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, w, h);
  ctx.clip();
  ctx.font = fontOf(theme, scale);
  ctx.fillStyle = theme.text;
  ctx.textAlign = 'start';
  ctx.textBaseline = 'middle';
  // A pixel more: a browser measures text on the page and on a canvas a little otherwise.
  const lines = linesOf(ctx, text, w - (2 * PAD_X + BAR + EDGE) * scale + 1);
  for (const [number, line] of lines.entries()) {
    ctx.fillText(line, x + (BAR + PAD_X) * scale, y + (EDGE + PAD_Y + (number + 0.5) * LINE) * scale);
  }
  ctx.restore();
  ctx.textBaseline = 'alphabetic';
}
