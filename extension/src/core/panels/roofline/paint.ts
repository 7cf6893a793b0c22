/** Draws the roofline: axes, ceilings, kernels as dots with labels, and over them what is marked. */

import type { Family } from '../../model/families';
import type { Measure } from '../../model/metrics';
import type { ITheme } from '../../render/theme';
import { gridLine } from '../parts/paint';
import {
  ceilingLines,
  isInside,
  logTicks,
  toX,
  toY,
  type ChartWindow,
  type IBox,
  type IDecades,
  type IDot,
  type ILabel,
  type ILayout,
  type ILine
} from './chart';
import type { Bound, IRoofline } from './data';
import { digits } from './words';

const FONT_PX = 10.5;

export interface IFrame {
  roofline: IRoofline;
  theme: ITheme;
  measure: Measure;
  layout: ILayout;
  window: ChartWindow;
  strip: IDecades;
  dots: readonly IDot[];
  familyOf(kernel: string): Family;
}

/** Outlines of what holds a kernel back: the shape says it beside the words, whatever the colour. */
export function shapePath(
  ctx: CanvasRenderingContext2D,
  bound: Bound | null,
  x: number,
  y: number,
  r: number
): void {
  // Shapes of one radius have about one area.
  if (bound === 'compute') {
    const a = r * 0.886;
    ctx.rect(x - a, y - a, 2 * a, 2 * a);
    return;
  }
  if (bound === 'launch' || bound === 'imbalance') {
    const corners = bound === 'launch' ? 3 : 4;
    const a = bound === 'launch' ? r * 1.45 : r * 1.2;
    for (let i = 0; i < corners; i += 1) {
      const angle = -Math.PI / 2 + (2 * Math.PI * i) / corners;
      const px = x + a * Math.cos(angle);
      const py = y + a * Math.sin(angle);
      if (i === 0) {
        ctx.moveTo(px, py);
      } else {
        ctx.lineTo(px, py);
      }
    }
    ctx.closePath();
    return;
  }
  ctx.moveTo(x + r, y);
  ctx.arc(x, y, r, 0, 2 * Math.PI);
}

/** Places that the names of ceilings take: labels of kernels stay off them. */
export function paintScene(ctx: CanvasRenderingContext2D, frame: IFrame): IBox[] {
  const { theme, layout } = frame;
  paintAxes(ctx, frame);
  const lines = ceilingLines(frame.roofline, frame.window.x, frame.window.y);
  paintCeilings(ctx, frame, lines);
  const taken: IBox[] = [];
  if (layout.strip !== null) {
    taken.push(...paintStrip(ctx, frame, layout.strip));
  }
  for (const dot of frame.dots) {
    const box = dot.isMove ? layout.strip : layout.chart;
    if (box === null || !isInside(box, dot.x, dot.y)) {
      continue;
    }
    const colors = theme.family[frame.familyOf(dot.point.kernel)];
    ctx.beginPath();
    shapePath(ctx, dot.point.bound, dot.x, dot.y, dot.r);
    ctx.globalAlpha = 0.82;
    ctx.fillStyle = colors.stripe;
    ctx.fill();
    ctx.globalAlpha = 1;
    ctx.strokeStyle = theme.background;
    ctx.lineWidth = 1;
    ctx.stroke();
  }
  // Names of ceilings are over the dots: most kernels gather where the lines are.
  return [...taken, ...paintNames(ctx, frame, lines)];
}

export function paintLabels(
  ctx: CanvasRenderingContext2D,
  theme: ITheme,
  labels: readonly ILabel[]
): void {
  ctx.font = `${FONT_PX}px ${theme.fontUi}`;
  for (const { text, box } of labels) {
    rimmed(ctx, theme, text, box);
  }
}

function paintAxes(ctx: CanvasRenderingContext2D, frame: IFrame): void {
  const { theme, layout, window } = frame;
  const { chart } = layout;
  ctx.fillStyle = theme.background;
  ctx.fillRect(chart.x, chart.y, chart.w, chart.h);
  ctx.font = `${FONT_PX}px ${theme.fontUi}`;
  ctx.textBaseline = 'top';
  ctx.textAlign = 'center';
  for (const tick of logTicks(window.x, chart.w)) {
    const x = Math.round(toX(chart, window.x, tick.log));
    gridLine(ctx, theme, tick.isMajor, x, chart.y, 1, chart.h);
    ctx.fillStyle = theme.muted;
    ctx.fillText(tick.label, x, chart.y + chart.h + 4);
  }
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'right';
  for (const tick of logTicks(window.y, chart.h)) {
    const y = Math.round(toY(chart, window.y, tick.log));
    gridLine(ctx, theme, tick.isMajor, chart.x, y, chart.w, 1);
    ctx.fillStyle = theme.muted;
    ctx.fillText(tick.label, chart.x - 6, y);
  }
  ctx.fillStyle = theme.muted;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'bottom';
  ctx.fillText('operations per byte', chart.x + chart.w / 2, chart.y + chart.h + 32);
  upright(ctx, 'GFLOP/s', chart.x - 38, chart.y + chart.h / 2);
}

function upright(ctx: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  ctx.save();
  ctx.translate(x, y);
  ctx.rotate(-Math.PI / 2);
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  ctx.fillText(text, 0, 0);
  ctx.restore();
}

function paintCeilings(
  ctx: CanvasRenderingContext2D,
  { roofline, layout, window, theme }: IFrame,
  lines: readonly ILine[]
): void {
  const { chart } = layout;
  ctx.save();
  ctx.beginPath();
  ctx.rect(chart.x, chart.y, chart.w, chart.h);
  ctx.clip();
  ctx.strokeStyle = theme.text;
  for (const one of lines) {
    const isTop = one.ceiling === roofline.bandwidth[0] || one.ceiling === roofline.compute[0];
    ctx.lineWidth = isTop ? 2 : 1.25;
    ctx.globalAlpha = isTop ? 0.9 : 0.6;
    // Ceilings below the highest are dashed: only some kernels meet them.
    ctx.setLineDash(isTop ? [] : [5, 4]);
    ctx.beginPath();
    ctx.moveTo(toX(chart, window.x, one.from[0]), toY(chart, window.y, one.from[1]));
    ctx.lineTo(toX(chart, window.x, one.to[0]), toY(chart, window.y, one.to[1]));
    ctx.stroke();
  }
  ctx.setLineDash([]);
  ctx.restore();
}

/** Writes the names of the lines; returns their places. */
function paintNames(
  ctx: CanvasRenderingContext2D,
  frame: IFrame,
  lines: readonly ILine[]
): IBox[] {
  const { chart } = frame.layout;
  const taken: IBox[] = [];
  const slopes: ISlopeName[] = [];
  ctx.save();
  ctx.beginPath();
  ctx.rect(chart.x, chart.y, chart.w, chart.h);
  ctx.clip();
  ctx.font = `${FONT_PX}px ${frame.theme.fontUi}`;
  for (const one of lines) {
    const box =
      one.kind === 'compute'
        ? levelName(ctx, frame, one, taken)
        : slopeName(ctx, frame, one, slopes);
    if (box !== null) {
      taken.push(box);
    }
  }
  ctx.restore();
  return taken;
}

/** Text with a rim of the background, so that lines do not cross it and dots under it stay seen. */
function rimmed(ctx: CanvasRenderingContext2D, theme: ITheme, text: string, box: IBox): void {
  ctx.textAlign = 'left';
  ctx.textBaseline = 'middle';
  ctx.lineJoin = 'round';
  ctx.lineWidth = 3;
  ctx.strokeStyle = theme.background;
  ctx.strokeText(text, box.x, box.y + box.h / 2);
  ctx.fillStyle = theme.text;
  ctx.fillText(text, box.x, box.y + box.h / 2);
}

/** Steps in which a name looks for a free place. */
const NAME_STEP_PX = 24;

/** The name of a compute ceiling, as far right on its line as no dot and no other name stands. */
function levelName(
  ctx: CanvasRenderingContext2D,
  { layout, window, measure, theme, dots }: IFrame,
  one: ILine,
  taken: readonly IBox[]
): IBox | null {
  const { chart } = layout;
  const text = `${one.ceiling.name} · ${digits(one.ceiling.rate)} GFLOP/s`;
  const w = measure(text, FONT_PX);
  const y = toY(chart, window.y, one.from[1]) - 15;
  const left = Math.max(chart.x, toX(chart, window.x, one.from[0])) + 4;
  const right = chart.x + chart.w - 8 - w;
  if (y < chart.y) {
    return null;
  }
  const isOff = (x: number, other: IBox): boolean =>
    x + w + 8 < other.x || other.x + other.w + 8 < x || Math.abs(other.y - y) >= 14;
  const places: number[] = [];
  for (let x = right; x >= left; x -= NAME_STEP_PX) {
    if (taken.every(other => isOff(x, other))) {
      places.push(x);
    }
  }
  const isClear = (x: number): boolean =>
    dots.every(
      dot =>
        dot.isMove ||
        dot.x + dot.r < x ||
        dot.x - dot.r > x + w ||
        dot.y + dot.r < y ||
        dot.y - dot.r > y + 13
    );
  const x = places.find(isClear) ?? places[0];
  if (x === undefined) {
    return null;
  }
  const box = { x, y, w, h: 13 };
  rimmed(ctx, theme, text, box);
  return box;
}

/** Where the name of a rising line stands: from and to along x, on the line through `y` at x = 0. */
interface ISlopeName {
  from: number;
  to: number;
  y: number;
}

/** The name of a bandwidth ceiling, along its line, behind the names of lines that are close. */
function slopeName(
  ctx: CanvasRenderingContext2D,
  frame: IFrame,
  one: ILine,
  placed: ISlopeName[]
): IBox | null {
  const { layout, window, measure, theme } = frame;
  const { chart } = layout;
  const text = `${one.ceiling.name} · ${digits(one.ceiling.rate)} GB/s`;
  const w = measure(text, FONT_PX);
  const x0 = toX(chart, window.x, one.from[0]);
  const y0 = toY(chart, window.y, one.from[1]);
  const x1 = toX(chart, window.x, one.to[0]);
  const y1 = toY(chart, window.y, one.to[1]);
  const angle = Math.atan2(y1 - y0, x1 - x0);
  const slope = Math.tan(angle);
  const axis = y0 - slope * x0;
  const across = Math.cos(angle);
  let x = x0 + across * 10;
  for (const other of placed) {
    if (Math.abs(other.y - axis) * across < 15 && x < other.to && x + across * w > other.from) {
      x = other.to + across * 12;
    }
  }
  if (x + across * (w + 10) > x1) {
    return null;
  }
  const y = axis + slope * x;
  placed.push({ from: x, to: x + across * w, y: axis });
  ctx.save();
  ctx.translate(x, y);
  ctx.rotate(angle);
  rimmed(ctx, theme, text, { x: 0, y: -15, w, h: 13 });
  ctx.restore();
  const tall = Math.abs(Math.sin(angle)) * w;
  return { x, y: y - tall - 14, w: across * w, h: tall + 14 };
}

function paintStrip(ctx: CanvasRenderingContext2D, frame: IFrame, box: IBox): IBox[] {
  const { theme, strip, roofline } = frame;
  const taken: IBox[] = [];
  ctx.fillStyle = theme.background;
  ctx.fillRect(box.x, box.y, box.w, box.h);
  ctx.font = `${FONT_PX}px ${theme.fontUi}`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'right';
  for (const tick of logTicks(strip, box.h)) {
    const y = Math.round(toY(box, strip, tick.log));
    gridLine(ctx, theme, tick.isMajor, box.x, y, box.w, 1);
    ctx.fillStyle = theme.muted;
    ctx.fillText(tick.label, box.x - 6, y);
  }
  roofline.bandwidth.forEach((roof, i) => {
    const y = toY(box, strip, Math.log10(roof.rate));
    ctx.strokeStyle = theme.text;
    ctx.globalAlpha = i === 0 ? 0.9 : 0.6;
    ctx.lineWidth = i === 0 ? 2 : 1.25;
    ctx.setLineDash(i === 0 ? [] : [5, 4]);
    ctx.beginPath();
    ctx.moveTo(box.x, y);
    ctx.lineTo(box.x + box.w, y);
    ctx.stroke();
    ctx.globalAlpha = 1;
    const isFree = taken.every(other => Math.abs(other.y - (y - 13)) >= 13);
    if (isFree && y - 13 > box.y) {
      ctx.textAlign = 'left';
      ctx.textBaseline = 'bottom';
      ctx.fillStyle = theme.text;
      ctx.fillText(roof.name, box.x + 3, y - 1);
      taken.push({ x: box.x, y: y - 13, w: frame.measure(roof.name, FONT_PX) + 6, h: 13 });
    }
  });
  ctx.setLineDash([]);
  ctx.fillStyle = theme.muted;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'top';
  ctx.fillText('only moves data', box.x + box.w / 2, box.y + box.h + 4);
  upright(ctx, 'GB/s', box.x - 38, box.y + box.h / 2);
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  ctx.strokeRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1);
  return taken;
}

/** What lies over the dots. */
export interface IOverlay {
  selected: ReadonlySet<string>;
  focus: string | null;
  hover: string | null;
}

export function paintOverlay(
  ctx: CanvasRenderingContext2D,
  { theme, dots, layout }: IFrame,
  overlay: IOverlay
): void {
  const ring = (dot: IDot, grow: number, color: string, width: number): void => {
    const box = dot.isMove ? layout.strip : layout.chart;
    if (box === null || !isInside(box, dot.x, dot.y)) {
      return;
    }
    ctx.beginPath();
    shapePath(ctx, dot.point.bound, dot.x, dot.y, dot.r + grow);
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.stroke();
  };
  for (const dot of dots) {
    const { kernel } = dot.point;
    if (overlay.selected.has(kernel)) {
      ring(dot, 1, theme.background, 2);
      ring(dot, 3, theme.accent, 3);
    }
    if (overlay.hover === kernel) {
      ring(dot, 2, theme.text, 1.5);
    }
    if (overlay.focus === kernel) {
      ring(dot, 5.5, theme.text, 2);
    }
  }
}
