/** The legend of a picture in a file, which has none of the page around it. */

import type { IScale } from '../model/scale';
import { roughMeasure } from '../model/metrics';
import { at } from '../narrow';
import type { ISurface } from './surface';
import type { ITheme } from './theme';

export const LEGEND_HEIGHT = 88;

const LEAST_WIDTH = 300;

const LEFT = 24;
const FONT_PX = 11;
const BAR_WIDTH = LEAST_WIDTH - 2 * LEFT;
const BAR_HEIGHT = 8;

/** The width that the words of a legend need. */
export function legendWidth({ title, note }: IScale): number {
  const widest = Math.max(roughMeasure(title, FONT_PX, true), roughMeasure(note, FONT_PX, true));
  return Math.max(LEAST_WIDTH, Math.ceil(widest) + 2 * LEFT);
}

/** Draws the meaning of the colours into the strip that begins at `top`. */
export function paintLegend(ctx: ISurface, theme: ITheme, scale: IScale, top: number, width: number): void {
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, top, width, LEGEND_HEIGHT);
  ctx.textBaseline = 'alphabetic';
  ctx.textAlign = 'left';
  ctx.font = `11px ${theme.fontUi}`;
  ctx.fillStyle = theme.muted;
  ctx.fillText(scale.title, LEFT, top + 16);
  ctx.fillText(scale.note, LEFT, top + 76);
  const { colors } = scale;
  const step = BAR_WIDTH / colors.length;
  colors.forEach((color, n) => {
    ctx.fillStyle = color;
    // A little wider than its part, so that no gap shows between two.
    ctx.fillRect(LEFT + n * step, top + 24, n + 1 < colors.length ? step + 0.5 : step, BAR_HEIGHT);
  });
  const last = scale.ticks.length - 1;
  scale.ticks.forEach((tick, n) => {
    ctx.textAlign = at(['left', 'center', 'right'] as const, n === 0 ? 0 : n === last ? 2 : 1);
    const x = LEFT + tick.at * BAR_WIDTH;
    ctx.font = `700 11px ${theme.fontUi}`;
    ctx.fillStyle = theme.text;
    ctx.fillText(tick.text, x, top + 45);
    ctx.font = `11px ${theme.fontUi}`;
    ctx.fillStyle = theme.muted;
    ctx.fillText(tick.share, x, top + 59);
  });
  ctx.textAlign = 'left';
}
