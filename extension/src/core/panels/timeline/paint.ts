/** Draws the timeline: axis, overview, names of tracks, slices, and over them what is marked. */

import { formatTime } from '../../model/format';
import type { Measure } from '../../model/metrics';
import type { ITheme } from '../../render/theme';
import type { Lane } from './lanes';
import { COVERAGE_STEPS, Marks, markLane, WHOLE } from './merge';
import type { TimelineModel } from './model';
import type { Patterns } from './patterns';
import { LANE_GAP, LANE_PX, type IHit } from './rows';
import type { IStyling } from './styles';
import { ticks, type ISpan, type TimeWindow } from './window';
import { at } from '../../narrow';
import { num } from '../../num';

export const OVERVIEW_PX = 18;
export const AXIS_PX = 22;
/** Where the rows begin. */
export const TOP_PX = OVERVIEW_PX + AXIS_PX;

const OVERVIEW_STEP_PX = 2;
const MIN_LABEL_PX = 26;
const MIN_PATTERN_PX = 5;
const FONT_PX = 10.5;
/** Opacity of slices that a search does not find. */
const DIMMED = 0.22;

/** Width of the column of names. */
export function namesWidth(width: number): number {
  return Math.round(Math.min(150, Math.max(64, width * 0.16)));
}

export interface IMeasured extends ISpan {
  /** What the span holds, in words. */
  text: string;
}

/** Everything that a frame shows. */
export interface IFrame {
  data: TimelineModel;
  theme: ITheme;
  styling: IStyling;
  patterns: Patterns;
  measure: Measure;
  window: TimeWindow;
  /** Pixels that the rows are scrolled by. */
  scroll: number;
  width: number;
  height: number;
  /** What the search finds, by lane; null without a search. */
  found: ReadonlyMap<Lane, Lane> | null;
}

/** What lies over the slices. */
export interface IOverlay {
  /** Slices of the selected kernels, by lane. */
  selected: ReadonlyMap<Lane, Lane> | null;
  /** The slice that the keyboard is at. */
  focus: number | null;
  hover: IHit | null;
  measured: IMeasured | null;
  /** A span that is being dragged out, to zoom to. */
  box: ISpan | null;
  /** Where the pointer is, in pixels of the element; null outside. */
  pointer: number | null;
}

const marks = new Marks();

export function paintScene(ctx: CanvasRenderingContext2D, frame: IFrame): void {
  const { theme, width, height, data, scroll } = frame;
  const left = namesWidth(width);
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, width, height);
  const room = width - left;
  const grid = ticks(frame.window, room);
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, TOP_PX, room, height - TOP_PX);
  ctx.clip();
  ctx.fillStyle = theme.line;
  ctx.globalAlpha = 0.6;
  for (const tick of grid) {
    const x = left + ((tick.time - frame.window.from) / frame.window.span) * room;
    ctx.fillRect(Math.round(x), TOP_PX, 1, height - TOP_PX);
  }
  ctx.globalAlpha = 1;
  marks.clear();
  for (const row of data.rows.lanes) {
    const y = TOP_PX + row.y - scroll;
    if (y + LANE_PX > TOP_PX && y < height) {
      markLane(row.lane, frame.window, room, y, frame.styling.styleOf, marks);
    }
  }
  if (frame.found === null) {
    paintMarks(ctx, frame, marks, left, 1);
  } else {
    paintMarks(ctx, frame, marks, left, DIMMED);
    marks.clear();
    for (const row of data.rows.lanes) {
      const y = TOP_PX + row.y - scroll;
      const lane = frame.found.get(row.lane);
      if (lane !== undefined && y + LANE_PX > TOP_PX && y < height) {
        markLane(lane, frame.window, room, y, frame.styling.styleOf, marks);
      }
    }
    paintMarks(ctx, frame, marks, left, 1);
    // What is found is underlined as well: dimming alone is lost on pale slices.
    ctx.fillStyle = theme.text;
    for (let i = 0; i < marks.n; i += 1) {
      const w = Math.max(2, num(marks.w[i]));
      ctx.fillRect(left + num(marks.x[i]), num(marks.y[i]) + LANE_PX - 1, w, 2);
    }
  }
  ctx.restore();
  paintAxis(ctx, frame, grid, left);
  paintOverview(ctx, frame, left);
  paintNames(ctx, frame, left);
}

/** Opacity of a merged mark by how much of its pixel is busy. */
const COVER_ALPHA = [0, 0.45, 0.6, 0.78, 1, 1];

/** Fills marks style by style: changing the colour costs more than a rectangle. */
function paintMarks(
  ctx: CanvasRenderingContext2D,
  frame: IFrame,
  from: Marks,
  left: number,
  alpha: number
): void {
  const { styling, patterns } = frame;
  const keys = (WHOLE + 1) * styling.styles.length;
  const begins = new Int32Array(keys + 1);
  const keyOf = (i: number): number =>
    num(from.style[i]) * (WHOLE + 1) + num(from.cover[i]);
  for (let i = 0; i < from.n; i += 1) {
    begins[keyOf(i) + 1] = num(begins[keyOf(i) + 1]) + 1;
  }
  for (let key = 0; key < keys; key += 1) {
    begins[key + 1] = num(begins[key + 1]) + num(begins[key]);
  }
  const order = new Int32Array(from.n);
  const next = begins.slice();
  for (let i = 0; i < from.n; i += 1) {
    const key = keyOf(i);
    order[num(next[key])] = i;
    next[key] = num(next[key]) + 1;
  }
  for (let key = 0; key < keys; key += 1) {
    const first = num(begins[key]);
    const last = num(begins[key + 1]);
    if (first === last) {
      continue;
    }
    const style = at(styling.styles, Math.floor(key / (WHOLE + 1)));
    const cover = key % (WHOLE + 1);
    ctx.fillStyle = style.fill;
    ctx.globalAlpha = alpha * num(COVER_ALPHA[cover]);
    // Slices that touch are told apart by a gap, where there is room for one.
    const gap = cover > COVERAGE_STEPS ? 0.75 : 0;
    for (let at = first; at < last; at += 1) {
      const i = num(order[at]);
      const w = num(from.w[i]);
      ctx.fillRect(
        left + num(from.x[i]),
        num(from.y[i]),
        w > 3 ? w - gap : w,
        LANE_PX
      );
    }
    const pattern = patterns.get(ctx, style);
    if (pattern !== null && cover > COVERAGE_STEPS) {
      ctx.fillStyle = pattern;
      for (let at = first; at < last; at += 1) {
        const i = num(order[at]);
        if (num(from.w[i]) >= MIN_PATTERN_PX) {
          ctx.fillRect(
            left + num(from.x[i]),
            num(from.y[i]),
            num(from.w[i]) - gap,
            LANE_PX
          );
        }
      }
    }
  }
  ctx.globalAlpha = 1;
  if (alpha === 1) {
    paintLabels(ctx, frame, from, left);
  }
}

function paintLabels(
  ctx: CanvasRenderingContext2D,
  frame: IFrame,
  from: Marks,
  left: number
): void {
  const { data, measure, styling, theme, width } = frame;
  ctx.font = `${FONT_PX}px ${theme.fontUi}`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  for (let i = 0; i < from.n; i += 1) {
    if (num(from.cover[i]) <= COVERAGE_STEPS || num(from.w[i]) < MIN_LABEL_PX) {
      continue;
    }
    const slice = num(from.slice[i]);
    const x = Math.max(0, num(from.x[i]));
    const right = Math.min(width - left, num(from.x[i]) + num(from.w[i]));
    const room = right - x - 8;
    const text = fitText(data.title(slice), room, measure);
    if (text === '') {
      continue;
    }
    const style = at(styling.styles, num(from.style[i]));
    const y = num(from.y[i]) + LANE_PX / 2;
    ctx.fillStyle = style.text;
    ctx.fillText(text, left + x + 4, y + 0.5);
    const used = measure(text, FONT_PX);
    const time = formatTime(data.dur(slice));
    const timeWidth = measure(time, FONT_PX);
    if (room - used > timeWidth + 14) {
      ctx.globalAlpha = 0.85;
      ctx.fillText(time, left + right - 4 - timeWidth, y + 0.5);
      ctx.globalAlpha = 1;
    }
  }
}

/** `text` cut to a width with an ellipsis; empty when not even three letters fit. */
export function fitText(text: string, room: number, measure: Measure, px = FONT_PX): string {
  const width = measure(text, px);
  if (width <= room) {
    return text;
  }
  // Letters differ in width: the estimate by their mean can be a few too long.
  let fits = Math.min(text.length - 1, Math.floor((room / width) * text.length));
  while (fits >= 3 && measure(`${text.slice(0, fits)}…`, px) > room) {
    fits -= 1;
  }
  return fits < 3 ? '' : `${text.slice(0, fits)}…`;
}

function paintAxis(
  ctx: CanvasRenderingContext2D,
  frame: IFrame,
  grid: readonly { time: number; label: string }[],
  left: number
): void {
  const { theme, width, window } = frame;
  const room = width - left;
  ctx.fillStyle = theme.surface;
  ctx.fillRect(0, OVERVIEW_PX, width, AXIS_PX);
  ctx.fillStyle = theme.line;
  ctx.fillRect(0, TOP_PX - 1, width, 1);
  ctx.fillRect(0, OVERVIEW_PX, width, 1);
  ctx.font = `${FONT_PX}px ${theme.fontUi}`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  for (const tick of grid) {
    const x = Math.round(left + ((tick.time - window.from) / window.span) * room);
    ctx.fillStyle = theme.edge;
    ctx.fillRect(x, TOP_PX - 6, 1, 5);
    const size = frame.measure(tick.label, FONT_PX);
    if (x + 3 + size < width) {
      ctx.fillStyle = theme.muted;
      ctx.fillText(tick.label, x + 4, OVERVIEW_PX + AXIS_PX / 2);
    }
  }
}

/** The whole run in one strip, with what is shown of it. */
function paintOverview(ctx: CanvasRenderingContext2D, frame: IFrame, left: number): void {
  const { theme, width, data, window } = frame;
  const room = width - left;
  ctx.fillStyle = theme.surface;
  ctx.fillRect(0, 0, width, OVERVIEW_PX);
  const x = (time: number): number => left + overviewX(time, window, room);
  ctx.fillStyle = theme.muted;
  ctx.globalAlpha = 0.75;
  // Height is how many of the tracks are busy.
  const columns = Math.max(1, Math.floor(room / OVERVIEW_STEP_PX));
  data.busyness(columns).forEach((part, column) => {
    if (part > 0) {
      const h = Math.max(1, Math.min(1, part) * (OVERVIEW_PX - 4));
      ctx.fillRect(left + column * OVERVIEW_STEP_PX, OVERVIEW_PX - 1 - h, OVERVIEW_STEP_PX, h);
    }
  });
  ctx.globalAlpha = 1;
  if (!window.isWhole) {
    const from = Math.max(left, x(window.from));
    const to = Math.min(width, x(window.to));
    ctx.fillStyle = theme.accentSoft;
    ctx.fillRect(from, 0, Math.max(3, to - from), OVERVIEW_PX);
    ctx.fillStyle = theme.accent;
    ctx.fillRect(from, 0, 1.5, OVERVIEW_PX);
    ctx.fillRect(Math.max(from + 3, to) - 1.5, 0, 1.5, OVERVIEW_PX);
  }
}

/** Place of a time in the overview, in pixels from its left edge. */
export function overviewX(time: number, window: TimeWindow, room: number): number {
  return (time / Math.max(1, window.length)) * room;
}

function paintNames(ctx: CanvasRenderingContext2D, frame: IFrame, left: number): void {
  const { theme, data, height, scroll, measure } = frame;
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, TOP_PX, frame.width, height - TOP_PX);
  ctx.clip();
  ctx.fillStyle = theme.surface;
  ctx.fillRect(0, TOP_PX, left, height - TOP_PX);
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  for (const group of data.rows.groups) {
    const y = TOP_PX + group.y - scroll;
    ctx.fillStyle = theme.line;
    ctx.fillRect(0, y, frame.width, 1);
    ctx.fillStyle = theme.text;
    ctx.font = `600 ${FONT_PX}px ${theme.fontUi}`;
    ctx.fillText(fitText(group.label, left - 14, measure), 8, y + 11);
  }
  ctx.font = `${FONT_PX}px ${theme.fontUi}`;
  for (const row of data.rows.tracks) {
    const y = TOP_PX + row.y - scroll;
    if (y + row.h < TOP_PX || y > height) {
      continue;
    }
    ctx.fillStyle = theme.muted;
    ctx.fillText(fitText(row.track.name, left - 14, measure), 8, y + LANE_PX / 2 + 0.5);
  }
  ctx.restore();
  ctx.fillStyle = theme.line;
  ctx.fillRect(left - 1, 0, 1, height);
  const room = height - TOP_PX;
  if (data.rows.height > room) {
    const size = Math.max(18, (room * room) / data.rows.height);
    const at = (scroll / (data.rows.height - room)) * (room - size);
    ctx.fillStyle = theme.edge;
    ctx.globalAlpha = 0.6;
    ctx.fillRect(frame.width - 5, TOP_PX + at, 4, size);
    ctx.globalAlpha = 1;
  }
}

export function paintOverlay(
  ctx: CanvasRenderingContext2D,
  frame: IFrame,
  overlay: IOverlay
): void {
  const { theme, width, height, window } = frame;
  const left = namesWidth(width);
  const room = width - left;
  const x = (time: number): number => left + ((time - window.from) / window.span) * room;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, 0, room, height);
  ctx.clip();
  if (overlay.pointer !== null && overlay.pointer > left) {
    ctx.fillStyle = theme.muted;
    ctx.globalAlpha = 0.5;
    ctx.fillRect(Math.round(overlay.pointer), OVERVIEW_PX, 1, height - OVERVIEW_PX);
    ctx.globalAlpha = 1;
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, TOP_PX, room, height - TOP_PX);
  ctx.clip();
  paintSelected(ctx, frame, overlay, left);
  const { hover, focus } = overlay;
  if (hover !== null) {
    const y = TOP_PX + hover.row.y - frame.scroll;
    outlineSlice(ctx, frame, hover.slice, y, theme.text, 1.5, x);
  }
  const place = focus === null ? null : frame.data.locate(focus);
  if (focus !== null && place !== null) {
    const y = TOP_PX + place.row.y - frame.scroll;
    outlineSlice(ctx, frame, focus, y, theme.background, 4.5, x);
    outlineSlice(ctx, frame, focus, y, theme.text, 2, x);
  }
  ctx.restore();
  const { box, measured } = overlay;
  if (box !== null) {
    ctx.fillStyle = theme.accentSoft;
    ctx.fillRect(x(box.from), OVERVIEW_PX, x(box.to) - x(box.from), height - OVERVIEW_PX);
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 1;
    ctx.strokeRect(x(box.from), OVERVIEW_PX + 0.5, x(box.to) - x(box.from), height - OVERVIEW_PX);
  }
  if (measured !== null) {
    paintMeasured(ctx, frame, measured, x);
  }
  ctx.restore();
}

function paintSelected(
  ctx: CanvasRenderingContext2D,
  frame: IFrame,
  overlay: IOverlay,
  left: number
): void {
  if (overlay.selected === null) {
    return;
  }
  const { theme, scroll, height, window, data, width } = frame;
  marks.clear();
  for (const row of data.rows.lanes) {
    const lane = overlay.selected.get(row.lane);
    const y = TOP_PX + row.y - scroll;
    if (lane !== undefined && y + LANE_PX > TOP_PX && y < height) {
      markLane(lane, window, width - left, y, () => 0, marks);
    }
  }
  for (let i = 0; i < marks.n; i += 1) {
    const w = num(marks.w[i]);
    const mx = left + num(marks.x[i]);
    const y = num(marks.y[i]);
    if (w >= 6) {
      // Two rings: one of them stands out from a slice of any colour.
      ctx.lineWidth = 1;
      ctx.strokeStyle = theme.background;
      ctx.strokeRect(mx + 2, y + 2, w - 4, LANE_PX - 4);
      ctx.lineWidth = 2.5;
      ctx.strokeStyle = theme.accent;
      ctx.strokeRect(mx + 0.25, y + 0.25, w - 0.5, LANE_PX - 0.5);
    } else {
      // Too narrow for an outline: bars below and above.
      ctx.fillStyle = theme.accent;
      ctx.fillRect(mx - 0.5, y - LANE_GAP, Math.max(2, w), 3);
      ctx.fillRect(mx - 0.5, y + LANE_PX - 2, Math.max(2, w), 3);
    }
  }
}

function outlineSlice(
  ctx: CanvasRenderingContext2D,
  frame: IFrame,
  slice: number,
  y: number,
  color: string,
  line: number,
  x: (time: number) => number
): void {
  const from = Math.max(-10, x(frame.data.start(slice)));
  const to = Math.min(frame.width + 10, x(frame.data.end(slice)));
  ctx.strokeStyle = color;
  ctx.lineWidth = line;
  ctx.strokeRect(from, y, Math.max(2, to - from), LANE_PX);
}

function paintMeasured(
  ctx: CanvasRenderingContext2D,
  frame: IFrame,
  measured: IMeasured,
  x: (time: number) => number
): void {
  const { theme, height, measure, width } = frame;
  const from = x(measured.from);
  const to = x(measured.to);
  ctx.fillStyle = theme.accentSoft;
  ctx.fillRect(from, TOP_PX, to - from, height - TOP_PX);
  ctx.fillStyle = theme.accent;
  ctx.fillRect(from, OVERVIEW_PX, 1.5, height - OVERVIEW_PX);
  ctx.fillRect(to - 1.5, OVERVIEW_PX, 1.5, height - OVERVIEW_PX);
  ctx.font = `600 ${FONT_PX}px ${theme.fontUi}`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  const size = measure(measured.text, FONT_PX, true) + 12;
  const left = namesWidth(width);
  const at = Math.min(width - size - 8, Math.max(left + 2, (from + to) / 2 - size / 2));
  ctx.fillStyle = theme.accent;
  ctx.fillRect(at, OVERVIEW_PX + 2, size, AXIS_PX - 5);
  ctx.fillStyle = theme.surface;
  ctx.fillText(measured.text, at + 6, OVERVIEW_PX + AXIS_PX / 2 - 0.5);
}
