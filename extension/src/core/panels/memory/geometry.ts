/** Where the memory chart draws what, in CSS pixels; pure, so that it can be tested without a canvas. */

import type { IMemorySlot } from '../../../proto/checks';
import type { IMemoryPlan } from './plan';

/** The part of the plan that is shown: steps `x0`–`x1`, bytes `y0`–`y1`. */
export interface IWindow {
  x0: number;
  x1: number;
  y0: number;
  y1: number;
}

export interface IArea {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface IBar extends IArea {
  slot: IMemorySlot;
}

export interface IFrame {
  /** The strip of bytes in use, above. */
  strip: IArea;
  /** The arena over the steps. */
  area: IArea;
}

const LEFT = 62;
const RIGHT = 12;
const TOP = 6;
const STRIP = 34;
const GAP = 10;
const BOTTOM = 22;

/** Fewer steps than this cannot be zoomed into. */
const LEAST_STEPS = 2;

export function frameOf(width: number, height: number): IFrame {
  const w = Math.max(1, width - LEFT - RIGHT);
  const strip = height > 150 ? STRIP : 0;
  const y = TOP + (strip > 0 ? strip + GAP : 0);
  return {
    strip: { x: LEFT, y: TOP, w, h: strip },
    area: { x: LEFT, y, w, h: Math.max(1, height - y - BOTTOM) }
  };
}

export function wholeWindow(plan: IMemoryPlan): IWindow {
  return { x0: 0, x1: Math.max(1, plan.steps.length), y0: 0, y1: Math.max(1, plan.arena) };
}

export function xOf(step: number, area: IArea, view: IWindow): number {
  return area.x + ((step - view.x0) / (view.x1 - view.x0)) * area.w;
}

/** Low addresses are at the bottom, as bytes pile up. */
export function yOf(bytes: number, area: IArea, view: IWindow): number {
  return area.y + area.h - ((bytes - view.y0) / (view.y1 - view.y0)) * area.h;
}

export function stepAt(x: number, area: IArea, view: IWindow): number {
  return view.x0 + ((x - area.x) / area.w) * (view.x1 - view.x0);
}

export function bytesAt(y: number, area: IArea, view: IWindow): number {
  return view.y0 + ((area.y + area.h - y) / area.h) * (view.y1 - view.y0);
}

/** The bars in the window, cut to its area, at least a pixel large. */
export function barsOf(plan: IMemoryPlan, area: IArea, view: IWindow): IBar[] {
  const bars: IBar[] = [];
  for (const slot of plan.arenaSlots) {
    const offset = slot.offset ?? 0;
    if (slot.last + 1 <= view.x0 || slot.first >= view.x1 || slot.bytes === 0) {
      continue;
    }
    if (offset >= view.y1 || offset + slot.bytes <= view.y0) {
      continue;
    }
    const left = Math.max(area.x, xOf(slot.first, area, view));
    const right = Math.min(area.x + area.w, xOf(slot.last + 1, area, view));
    const top = Math.max(area.y, yOf(offset + slot.bytes, area, view));
    const bottom = Math.min(area.y + area.h, yOf(offset, area, view));
    bars.push({
      slot,
      x: left,
      y: Math.min(top, bottom - 1),
      w: Math.max(1, right - left),
      h: Math.max(1, bottom - top)
    });
  }
  return bars;
}

/** The smallest bar at a point: a large one never hides what lies over it. */
export function barAt(bars: readonly IBar[], x: number, y: number): IBar | null {
  let best: IBar | null = null;
  for (const bar of bars) {
    // A bar of one pixel is hard to hit: it may be missed by two.
    const slack = Math.min(bar.w, bar.h) < 4 ? 2 : 0;
    const isInside =
      x >= bar.x - slack && x <= bar.x + bar.w + slack && y >= bar.y - slack && y <= bar.y + bar.h + slack;
    if (isInside && (best === null || bar.w * bar.h < best.w * best.h)) {
      best = bar;
    }
  }
  return best;
}

/** The window, `factor` as large, with `at` (step, bytes) where it was; kept within the plan. */
export function zoomed(
  view: IWindow,
  plan: IMemoryPlan,
  at: { step: number; bytes: number },
  factor: { x: number; y: number }
): IWindow {
  const whole = wholeWindow(plan);
  const [x0, x1] = scaled(view.x0, view.x1, at.step, factor.x, whole.x1, LEAST_STEPS);
  const [y0, y1] = scaled(view.y0, view.y1, at.bytes, factor.y, whole.y1, 64);
  return { x0, x1, y0, y1 };
}

function scaled(
  from: number,
  to: number,
  at: number,
  factor: number,
  whole: number,
  least: number
): [number, number] {
  const span = Math.min(whole, Math.max(Math.min(least, whole), (to - from) * factor));
  const part = to > from ? (at - from) / (to - from) : 0.5;
  return clamped(at - part * span, span, whole);
}

function clamped(start: number, span: number, whole: number): [number, number] {
  const from = Math.max(0, Math.min(whole - span, start));
  return [from, from + span];
}

/** The window, moved by steps and bytes, kept within the plan. */
export function panned(view: IWindow, plan: IMemoryPlan, steps: number, bytes: number): IWindow {
  const whole = wholeWindow(plan);
  const [x0, x1] = clamped(view.x0 + steps, view.x1 - view.x0, whole.x1);
  const [y0, y1] = clamped(view.y0 + bytes, view.y1 - view.y0, whole.y1);
  return { x0, x1, y0, y1 };
}

/** The window, moved as little as shows all of `slot` that fits. */
export function showing(view: IWindow, plan: IMemoryPlan, slot: IMemorySlot): IWindow {
  const dx = shift(view.x0, view.x1, slot.first, slot.last + 1);
  const offset = slot.offset ?? 0;
  const dy = shift(view.y0, view.y1, offset, offset + slot.bytes);
  return panned(view, plan, dx, dy);
}

function shift(from: number, to: number, first: number, last: number): number {
  if (first < from) {
    return first - from;
  }
  return last > to ? Math.min(last - to, first - from) : 0;
}

/** Round numbers of bytes, at most `most` of them, from `from` to `to`: steps of 1, 2 or 5. */
export function ticks(from: number, to: number, most: number): number[] {
  const rough = (to - from) / Math.max(1, most);
  if (!(rough > 0)) {
    return [];
  }
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find(m => m * power >= rough) ?? 10) * power;
  const found: number[] = [];
  for (let n = Math.ceil(from / step); n * step <= to; n += 1) {
    found.push(n * step);
  }
  return found;
}

/** The slot to go to from `from` with an arrow key; null when there is none that way. */
export function neighbour(
  plan: IMemoryPlan,
  from: IMemorySlot | null,
  way: 'left' | 'right' | 'up' | 'down'
): IMemorySlot | null {
  const slots = plan.arenaSlots;
  if (from === null) {
    return slots[0] ?? null;
  }
  if (way === 'left' || way === 'right') {
    const at = slots.indexOf(from) + (way === 'right' ? 1 : -1);
    return slots[at] ?? null;
  }
  // Up and down: the next of those that live together with it.
  const together = slots
    .filter(slot => slot.first <= from.last && from.first <= slot.last)
    .sort((a, b) => (a.offset ?? 0) - (b.offset ?? 0));
  return together[together.indexOf(from) + (way === 'up' ? 1 : -1)] ?? null;
}
