/** Draws the curves of a sweep. */

import { formatTime } from '../../model/format';
import type { ITheme } from '../../render/theme';
import { gridLine } from '../parts/paint';
import type { ICurve } from './data';
import { labelledSizes, ticksOf, type ICurvePoint, type IDrawn, type ILayout } from './curves';

const FONT_PX = 10.5;
const DOT_PX = 3;

export interface ICurveScene {
  theme: ITheme;
  layout: ILayout;
  dim: string;
  isEach: boolean;
  colorOf(curve: ICurve): string;
  isSelected(curve: ICurve): boolean;
  hasSelection: boolean;
  current: { drawn: IDrawn; point: ICurvePoint } | null;
}

export function paintCurves(
  ctx: CanvasRenderingContext2D,
  scene: ICurveScene,
  width: number,
  height: number
): void {
  const { theme, layout } = scene;
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, width, height);
  paintAxes(ctx, scene);
  const { area } = layout;
  ctx.save();
  ctx.beginPath();
  ctx.rect(area.x - DOT_PX, area.y - DOT_PX, area.w + 2 * DOT_PX, area.h + 2 * DOT_PX);
  ctx.clip();
  const marked = layout.drawn.filter(({ curve }) => scene.isSelected(curve));
  for (const drawn of layout.drawn) {
    paintCurve(ctx, scene, drawn, scene.hasSelection && !marked.includes(drawn));
  }
  marked.forEach(drawn => paintCurve(ctx, scene, drawn, false));
  const { current } = scene;
  if (current !== null) {
    paintCurve(ctx, scene, current.drawn, false);
    ctx.beginPath();
    ctx.arc(current.point.x, current.point.y, DOT_PX + 3.5, 0, 2 * Math.PI);
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 2;
    ctx.stroke();
  }
  ctx.restore();
}

function paintCurve(
  ctx: CanvasRenderingContext2D,
  scene: ICurveScene,
  { curve, points }: IDrawn,
  isFaint: boolean
): void {
  const { theme } = scene;
  const isWhole = curve.id === '';
  const color = isWhole ? theme.text : scene.colorOf(curve);
  ctx.globalAlpha = isFaint ? 0.28 : 1;
  ctx.strokeStyle = color;
  ctx.fillStyle = color;
  ctx.lineWidth = scene.isSelected(curve) ? 3 : isWhole ? 2 : 1.5;
  ctx.setLineDash(isWhole ? [6, 3] : []);
  ctx.beginPath();
  points.forEach(({ x, y }, i) => (i === 0 ? ctx.moveTo(x, y) : ctx.lineTo(x, y)));
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.lineWidth = 1;
  for (const { x, y, yLow, yHigh } of points) {
    ctx.beginPath();
    ctx.moveTo(x, yLow);
    ctx.lineTo(x, yHigh);
    ctx.stroke();
    ctx.beginPath();
    ctx.arc(x, y, DOT_PX, 0, 2 * Math.PI);
    ctx.fill();
  }
  ctx.globalAlpha = 1;
}

function paintAxes(ctx: CanvasRenderingContext2D, scene: ICurveScene): void {
  const { theme, layout, dim, isEach } = scene;
  const { area, y } = layout;
  ctx.font = `${FONT_PX}px ${theme.fontUi}`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'right';
  for (const tick of ticksOf(y, area.h)) {
    const at = Math.round(area.y + area.h - ((tick.log - y.from) / (y.to - y.from)) * area.h);
    gridLine(ctx, theme, tick.isMajor, area.x, at, area.w, 1);
    ctx.fillStyle = theme.muted;
    ctx.fillText(shortTime(tick.value), area.x - 6, at);
  }
  ctx.textBaseline = 'top';
  ctx.textAlign = 'center';
  const most = layout.drawn.reduce<readonly ICurvePoint[]>(
    (best, { points }) => (points.length > best.length ? points : best),
    []
  );
  for (const { x, size } of labelledSizes(most)) {
    gridLine(ctx, theme, false, Math.round(x), area.y, 1, area.h);
    ctx.fillStyle = theme.muted;
    ctx.fillText(size.toLocaleString('en-US'), x, area.y + area.h + 4);
  }
  ctx.fillStyle = theme.muted;
  ctx.textBaseline = 'bottom';
  ctx.fillText(isEach ? `${dim}; time of each` : dim, area.x + area.w / 2, area.y + area.h + 32);
}

function shortTime(ns: number): string {
  // Ticks are 1, 2 and 5 times powers of ten: they need no digits behind the point.
  return ns < 1 ? `${Number(ns.toPrecision(1))} ns` : formatTime(ns).replace(/\.0+ /, ' ');
}
