/** Draws the memory plan: bytes in use above, the arena over the steps below. */

import { formatBytes } from '../../model/format';
import type { GraphModel } from '../../model/graph';
import type { IFamilyColors, ITheme } from '../../render/theme';
import { clipped } from '../parts/paint';
import { ticks, xOf, yOf, type IArea, type IBar, type IFrame, type IWindow } from './geometry';
import type { IMemorySlot } from '../../../proto/checks';
import type { IMemoryPlan } from './plan';

export interface IScene {
  plan: IMemoryPlan;
  model: GraphModel;
  theme: ITheme;
  frame: IFrame;
  view: IWindow;
  bars: readonly IBar[];
  isSelected: (slot: IMemorySlot) => boolean;
  /** Under the pointer, or where the keyboard is. */
  current: IMemorySlot | null;
}

const LABEL_ROOM = 34;
const LABEL_HEIGHT = 13;
const TINT = 0.3;

/** The colours of whoever computes what is in a slot. */
export function colorsOf(model: GraphModel, theme: ITheme, slot: IMemorySlot): IFamilyColors {
  const node = slot.node === null ? undefined : model.node(slot.node);
  return theme.family[node?.family ?? 'other'];
}

export function paintPlan(ctx: CanvasRenderingContext2D, scene: IScene, size: IArea): void {
  const { theme, frame } = scene;
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, size.w, size.h);
  ctx.font = `11px ${theme.fontUi}`;
  ctx.textBaseline = 'middle';
  if (frame.strip.h > 0) {
    paintStrip(ctx, scene);
  }
  paintAxes(ctx, scene);
  paintBars(ctx, scene);
}

function paintStrip(ctx: CanvasRenderingContext2D, scene: IScene): void {
  const { plan, theme, frame, view } = scene;
  const { strip } = frame;
  const most = Math.max(1, plan.arena, plan.peak);
  const y = (bytes: number): number => strip.y + strip.h - (bytes / most) * strip.h;
  ctx.fillStyle = theme.muted;
  ctx.textAlign = 'right';
  ctx.fillText('in use', strip.x - 8, strip.y + strip.h / 2);
  clipped(ctx, strip, () => {
    ctx.fillStyle = theme.accentSoft;
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 1.25;
    const first = Math.max(0, Math.floor(view.x0));
    const last = Math.min(plan.live.length, Math.ceil(view.x1));
    const trace = (): void => {
      for (let step = first; step < last; step += 1) {
        const height = y(plan.live[step] ?? 0);
        ctx.lineTo(xOf(step, strip, view), height);
        ctx.lineTo(xOf(step + 1, strip, view), height);
      }
    };
    ctx.beginPath();
    ctx.moveTo(xOf(first, strip, view), strip.y + strip.h);
    trace();
    ctx.lineTo(xOf(last, strip, view), strip.y + strip.h);
    ctx.closePath();
    ctx.fill();
    ctx.beginPath();
    trace();
    ctx.stroke();
    // Above the peak line the arena holds what nobody uses: it is the price of the layout.
    ctx.setLineDash([4, 3]);
    ctx.strokeStyle = theme.text;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(strip.x, y(plan.peak));
    ctx.lineTo(strip.x + strip.w, y(plan.peak));
    ctx.stroke();
    ctx.setLineDash([]);
  });
  const text = `peak ${formatBytes(plan.peak)}`;
  const width = ctx.measureText(text).width;
  const at = xOf(plan.peakStep + 0.5, strip, view);
  if (at >= strip.x && at <= strip.x + strip.w) {
    const isLeft = at + width + 12 > strip.x + strip.w;
    const height = Math.min(strip.y + strip.h - 7, y(plan.peak) + 9);
    const x = isLeft ? at - 6 : at + 6;
    ctx.fillStyle = theme.background;
    ctx.fillRect(isLeft ? x - width - 3 : x - 3, height - 7, width + 6, 14);
    ctx.fillStyle = theme.text;
    ctx.textAlign = isLeft ? 'right' : 'left';
    ctx.fillText(text, x, height);
  }
}

function paintAxes(ctx: CanvasRenderingContext2D, scene: IScene): void {
  const { plan, theme, frame, view } = scene;
  const { area } = frame;
  ctx.fillStyle = theme.surface;
  ctx.fillRect(area.x, area.y, area.w, area.h);
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  ctx.fillStyle = theme.muted;
  ctx.textAlign = 'right';
  for (const bytes of ticks(view.y0, view.y1, Math.max(2, area.h / 42))) {
    const y = Math.round(yOf(bytes, area, view)) + 0.5;
    ctx.beginPath();
    ctx.moveTo(area.x, y);
    ctx.lineTo(area.x + area.w, y);
    ctx.stroke();
    ctx.fillText(formatBytes(bytes), area.x - 8, Math.min(area.y + area.h - 5, y));
  }
  ctx.textAlign = 'center';
  const y = area.y + area.h + 11;
  const marks = ticks(view.x0, view.x1 - 1e-9, Math.max(2, area.w / 64));
  for (const step of marks.filter(Number.isInteger)) {
    const kernel = plan.steps[step];
    if (kernel !== undefined) {
      ctx.fillText(kernel, xOf(step + 0.5, area, view), y);
    }
  }
  clipped(ctx, area, () => {
    // Most is in use here.
    const from = xOf(plan.peakStep, area, view);
    const to = xOf(plan.peakStep + 1, area, view);
    ctx.fillStyle = theme.accentSoft;
    ctx.fillRect(from, area.y, Math.max(1.5, to - from), area.h);
  });
}

function paintBars(ctx: CanvasRenderingContext2D, scene: IScene): void {
  const { model, theme, bars } = scene;
  clipped(ctx, scene.frame.area, () => {
    for (const bar of bars) {
      const colors = colorsOf(model, theme, bar.slot);
      const gap = bar.w > 4 && bar.h > 4 ? 0.5 : 0;
      const [x, y, w, h] = [bar.x + gap, bar.y + gap, bar.w - 2 * gap, bar.h - 2 * gap];
      ctx.fillStyle = theme.background;
      ctx.fillRect(x, y, w, h);
      ctx.globalAlpha = bar.h < 4 || bar.w < 4 ? 0.8 : TINT;
      ctx.fillStyle = colors.stripe;
      ctx.fillRect(x, y, w, h);
      ctx.globalAlpha = 1;
      if (bar.slot.kind === 'scratch') {
        hatch(ctx, theme, { x, y, w, h });
      }
      if (bar.w > 5 && bar.h > 5) {
        ctx.fillStyle = colors.stripe;
        ctx.fillRect(x, y, Math.min(3, w), h);
        ctx.strokeStyle = colors.stripe;
        ctx.lineWidth = 1;
        ctx.beginPath();
        ctx.rect(x, y, w, h);
        ctx.stroke();
      }
      label(ctx, theme, bar);
    }
    for (const bar of bars) {
      const isCurrent = bar.slot === scene.current;
      if (isCurrent || scene.isSelected(bar.slot)) {
        ctx.strokeStyle = theme.accent;
        ctx.lineWidth = isCurrent ? 1.5 : 3;
        ctx.setLineDash(isCurrent ? [4, 2] : []);
        ctx.beginPath();
        ctx.rect(bar.x - 0.5, bar.y - 0.5, bar.w + 1, bar.h + 1);
        ctx.stroke();
        ctx.setLineDash([]);
      }
    }
  });
}

/** What lives within one step only is striped: it is nobody's result. */
function hatch(ctx: CanvasRenderingContext2D, theme: ITheme, area: IArea): void {
  clipped(ctx, area, () => {
    ctx.strokeStyle = theme.hatch;
    ctx.lineWidth = 2;
    ctx.beginPath();
    for (let x = area.x - area.h; x < area.x + area.w; x += 7) {
      ctx.moveTo(x, area.y + area.h);
      ctx.lineTo(x + area.h, area.y);
    }
    ctx.stroke();
  });
}

function label(ctx: CanvasRenderingContext2D, theme: ITheme, bar: IBar): void {
  const room = bar.w - 12;
  if (room < LABEL_ROOM || bar.h < LABEL_HEIGHT) {
    return;
  }
  const { name, bytes } = bar.slot;
  const long = `${name} · ${formatBytes(bytes)}`;
  const text = ctx.measureText(long).width <= room ? long : name;
  if (ctx.measureText(text).width <= room) {
    ctx.fillStyle = theme.text;
    ctx.textAlign = 'left';
    ctx.fillText(text, bar.x + 8, bar.y + bar.h / 2 + 0.5);
  }
}
