/** The text of the scene: names, details, chips, times, headers of boxes, types on edges. */

import type { ISurface } from './surface';
import { METRICS } from '../model/metrics';
import { boxSubtitle, rowsOf, type IItem } from '../model/scene';
import { Detail, LEAST_NAME, LEAST_SMALL, screenRect, type IFrame } from './frame';
import { Grid } from './grid';
import { lineOf, type IEdgeLabel, type IPicture } from './picture';
import { scaleColors, scopeFill, type ITheme } from './theme';

function uiFont(theme: ITheme, px: number, weight = 400): string {
  return `${weight} ${px}px ${theme.fontUi}`;
}

function monoFont(theme: ITheme, px: number): string {
  return `${px}px ${theme.fontMono}`;
}

interface ITextGroup {
  font: string;
  color: string;
  entries: { text: string; x: number; y: number }[];
}

/** Text grouped by font and colour: both are slow to change. */
class TextBatch {
  private readonly _groups = new Map<string, ITextGroup>();

  add(font: string, color: string, text: string, x: number, y: number): void {
    const key = `${font}|${color}`;
    let group = this._groups.get(key);
    if (group === undefined) {
      group = { font, color, entries: [] };
      this._groups.set(key, group);
    }
    group.entries.push({ text, x, y });
  }

  flush(ctx: ISurface): void {
    for (const { font, color, entries } of this._groups.values()) {
      ctx.font = font;
      ctx.fillStyle = color;
      for (const { text, x, y } of entries) {
        ctx.fillText(text, x, y);
      }
    }
  }
}

interface IInk {
  title: string;
  detail: string;
  time: string;
}

function inkOf(frame: IFrame, picture: IPicture, item: IItem): IInk {
  const { theme } = frame;
  if (picture.errors.has(item)) {
    return { title: theme.error, detail: theme.text, time: theme.text };
  }
  const heat = picture.heat.get(item);
  if (picture.notes !== null) {
    const isQuiet = !picture.notes.has(item);
    const title = isQuiet ? theme.muted : theme.text;
    return { title, detail: theme.muted, time: theme.text };
  }
  if (frame.isHeat && heat !== undefined) {
    const { ink } = scaleColors(theme, picture.isDiverging, heat.t);
    return { title: ink, detail: ink, time: ink };
  }
  if (item.node !== null) {
    const quiet = item.node.family === 'view' || (frame.isHeat && heat === undefined);
    const title = quiet ? theme.muted : theme.family[item.node.family].title;
    return { title, detail: theme.muted, time: theme.text };
  }
  return { title: theme.text, detail: theme.muted, time: theme.text };
}

/** Names that do not fit shrink to this size before they are shortened. */
const LEAST_TEXT = 8;

const nameWidths = new Map<string, number>();

/** Width of a name at `LEAST_NAME` in `font`, remembered: graphs repeat few names many times. */
function nameWidth(ctx: ISurface, font: string, text: string): number {
  const key = `${font}|${text}`;
  let width = nameWidths.get(key);
  if (width === undefined) {
    if (nameWidths.size > 5000) {
      nameWidths.clear();
    }
    ctx.font = font;
    width = ctx.measureText(text).width;
    nameWidths.set(key, width);
  }
  return width;
}

/** `text`, or its beginning and an ellipsis, in at most `room` pixels at `LEAST_NAME`; empty below 3 letters. */
function fitted(ctx: ISurface, font: string, text: string, room: number): string {
  if (nameWidth(ctx, font, text) <= room) {
    return text;
  }
  let length = Math.floor((text.length * room) / nameWidth(ctx, font, text));
  while (length > 2 && nameWidth(ctx, font, `${text.slice(0, length)}…`) > room) {
    length--;
  }
  return length > 2 ? `${text.slice(0, length)}…` : '';
}

/** A line of an overlay in the width of its item: smaller where it is too long, else shortened. */
function inRoom(
  ctx: ISurface,
  theme: ITheme,
  px: number,
  line: string,
  room: number
): { text: string; font?: string } {
  const measured = uiFont(theme, LEAST_NAME, 600);
  const scale = room / ((nameWidth(ctx, measured, line) * px) / LEAST_NAME);
  if (scale >= 1) {
    return { text: line };
  }
  const size = Math.max(LEAST_TEXT, Math.floor(px * scale * 2) / 2);
  return { text: fitted(ctx, measured, line, (room * LEAST_NAME) / size), font: uiFont(theme, size, 600) };
}

/** Names (and times, in heat) in a size that stays readable from afar, wherever there is room. */
export function paintFarTitles(
  frame: IFrame,
  picture: IPicture,
  leaves: readonly IItem[]
): void {
  const { ctx, theme, camera, isHeat } = frame;
  const px = Math.max(LEAST_NAME, METRICS.labelFont * camera.k);
  const strong = uiFont(theme, px, 600);
  const plain = uiFont(theme, px, 500);
  const small = uiFont(theme, LEAST_NAME, 600);
  const batch = new TextBatch();
  for (const item of leaves) {
    const r = screenRect(frame, item);
    const isMinor = item.box === null && camera.k < 0.28;
    if (isMinor || r.h < px + 1) {
      continue;
    }
    const whole = item.count > 1 ? `${item.label} ×${item.count}` : item.label;
    const room = ((r.w - 3) * LEAST_NAME) / px;
    const shrink = Math.max(Math.min(1, room / nameWidth(ctx, small, whole)), LEAST_TEXT / px);
    const text = fitted(ctx, small, whole, room / shrink);
    if (text === '') {
      continue;
    }
    const ink = inkOf(frame, picture, item);
    const hasLine = (isHeat || picture.notes !== null) && r.h >= px + LEAST_NAME + 2;
    const fits = (text: string | undefined): boolean =>
      text !== undefined && r.w >= nameWidth(ctx, small, text) + 4;
    const said = lineOf(picture, item);
    const share = picture.notes === null ? picture.heat.get(item)?.share : undefined;
    const line = !hasLine ? undefined : fits(said) ? said : fits(share) ? share : undefined;
    const x = r.x + r.w / 2;
    const y = r.y + r.h / 2;
    const isView = item.node?.family === 'view';
    const size = Math.floor(px * shrink * 2) / 2;
    const font = size >= px ? (isView ? plain : strong) : uiFont(theme, size, isView ? 500 : 600);
    batch.add(font, ink.title, text, x, line !== undefined ? y - px * 0.55 : y);
    if (line !== undefined) {
      batch.add(small, ink.time, line, x, y + px * 0.6);
    }
  }
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  batch.flush(ctx);
  if (frame.detail >= Detail.Names) {
    paintErrorMarks(frame, picture, leaves);
  }
}

/** Names, details, chips and times of the items that are not unfolded. */
export function paintItemText(
  frame: IFrame,
  picture: IPicture,
  leaves: readonly IItem[]
): void {
  const { ctx, theme, camera } = frame;
  const { k } = camera;
  const titlePx = Math.max(LEAST_NAME, METRICS.labelFont * k);
  const smallPx = Math.max(LEAST_SMALL, METRICS.smallFont * k);
  const titleFont = uiFont(theme, titlePx, 600);
  const viewFont = uiFont(theme, Math.max(LEAST_NAME, (METRICS.labelFont - 1) * k), 500);
  const detailFont = uiFont(theme, smallPx);
  const timeFont = uiFont(theme, smallPx, 600);
  const chipFont = monoFont(theme, Math.max(LEAST_SMALL, METRICS.edgeFont * k));
  const left = new TextBatch();
  const centre = new TextBatch();
  ctx.textBaseline = 'middle';
  for (const item of leaves) {
    const ink = inkOf(frame, picture, item);
    const r = screenRect(frame, item);
    if (item.kind === 'input' || item.kind === 'output') {
      if (item.detail === '') {
        centre.add(titleFont, ink.title, item.label, r.x + r.w / 2, r.y + r.h / 2);
        continue;
      }
      ctx.font = titleFont;
      const title = ctx.measureText(item.label).width + 8 * k;
      ctx.font = chipFont;
      const x = r.x + (r.w - title - ctx.measureText(item.detail).width) / 2;
      left.add(titleFont, ink.title, item.label, x, r.y + r.h / 2);
      left.add(chipFont, ink.detail, item.detail, x + title, r.y + r.h / 2);
      continue;
    }
    if (item.box !== null) {
      paintFoldedBox(frame, picture, item, ink, left);
      continue;
    }
    const isView = item.node?.family === 'view';
    const mid = r.x + r.w / 2 + (isView ? 0 : 2 * k);
    const line = lineOf(picture, item);
    const rows = rowsOf(item) + (line === undefined ? 0 : 1);
    // The line is kept free: without one the others stand in the middle.
    const used = (METRICS.rowLabel + rows * METRICS.rowSmall) * k;
    let y = r.y + (r.h - used) / 2 + (METRICS.rowLabel / 2) * k;
    centre.add(isView ? viewFont : titleFont, ink.title, item.label, mid, y);
    y += ((METRICS.rowLabel + METRICS.rowSmall) / 2) * k;
    if (item.detail !== '') {
      centre.add(detailFont, ink.detail, item.detail, mid, y);
      y += METRICS.rowSmall * k;
    }
    const chipInk = frame.isHeat && picture.notes === null && picture.heat.has(item) ? ink.detail : theme.chipText;
    for (const chip of item.chips) {
      centre.add(chipFont, chipInk, `▪ ${chip}`, mid, y);
      y += METRICS.rowSmall * k;
    }
    if (line !== undefined) {
      const shown = inRoom(ctx, theme, smallPx, line, r.w - 6);
      centre.add(shown.font ?? timeFont, ink.time, shown.text, mid, y);
    }
  }
  ctx.textAlign = 'left';
  left.flush(ctx);
  ctx.textAlign = 'center';
  centre.flush(ctx);
  paintErrorMarks(frame, picture, leaves);
}

function paintFoldedBox(
  frame: IFrame,
  picture: IPicture,
  item: IItem,
  ink: IInk,
  batch: TextBatch
): void {
  const { theme, camera } = frame;
  const { k } = camera;
  const r = screenRect(frame, item);
  const off = item.count > 1 ? METRICS.stack * k : 0;
  const x = r.x + 30 * k;
  const line = lineOf(picture, item);
  const top = r.y + off + (line === undefined ? 8 * k : 0);
  paintChevron(frame, r.x + 17 * k, top + 15 * k, false, ink.detail);
  const title = item.count > 1 ? `${item.label} ×${item.count}` : item.label;
  const titleFont = uiFont(theme, Math.max(LEAST_NAME, METRICS.labelFont * k), 650);
  const small = Math.max(LEAST_SMALL, METRICS.smallFont * k);
  batch.add(titleFont, ink.title, title, x, top + 15 * k);
  batch.add(uiFont(theme, small), ink.detail, boxSubtitle(item), x, top + 31 * k);
  if (line !== undefined) {
    const shown = inRoom(frame.ctx, theme, small, line, r.w - 30 * k - off - 4);
    batch.add(shown.font ?? uiFont(theme, small, 600), ink.time, shown.text, x, top + 47 * k);
  }
}

/** The fold control: points right when folded, down when unfolded. */
function paintChevron(frame: IFrame, x: number, y: number, isOpen: boolean, color: string): void {
  const { ctx, camera } = frame;
  const s = 3.6 * Math.max(0.6, camera.k);
  ctx.strokeStyle = color;
  ctx.lineWidth = Math.max(1.2, 1.7 * camera.k);
  ctx.lineCap = 'round';
  ctx.lineJoin = 'round';
  ctx.beginPath();
  if (isOpen) {
    ctx.moveTo(x - s, y - s / 2);
    ctx.lineTo(x, y + s / 2);
    ctx.lineTo(x + s, y - s / 2);
  } else {
    ctx.moveTo(x - s / 2, y - s);
    ctx.lineTo(x + s / 2, y);
    ctx.lineTo(x - s / 2, y + s);
  }
  ctx.stroke();
  ctx.lineCap = 'butt';
  ctx.lineJoin = 'miter';
}

/** The title of an unfolded box that is too small for a header, to the left of it. */
function paintTitleBeside(
  frame: IFrame,
  picture: IPicture,
  box: IItem,
  r: { x: number; y: number; h: number }
): void {
  const { ctx, theme, camera } = frame;
  if (r.h < 50 || box.depth > 3) {
    return;
  }
  const title = box.count > 1 ? `${box.label} ×${box.count}` : box.label;
  const font = uiFont(theme, LEAST_NAME, 650);
  // nested frames begin a few pixels apart; their titles stand a line apart
  const right = r.x - 6 - 5 * (3 - Math.min(box.depth, 3));
  const y = r.y + 6 + 12 * Math.max(box.depth - 1, 0);
  const half = LEAST_NAME / 2;
  const [x0, x1] = [camera.worldX(right - nameWidth(ctx, font, title)), camera.worldX(right)];
  const [y0, y1] = [camera.worldY(y - half), camera.worldY(y + half)];
  const covered = picture.items.query(x0, y0, x1, y1).some(
    item => item.container === null && item.x < x1 && x0 < item.x + item.w && item.y < y1 && y0 < item.y + item.h
  );
  if (covered) {
    return;
  }
  ctx.font = font;
  ctx.textAlign = 'right';
  ctx.textBaseline = 'middle';
  ctx.fillStyle = theme.muted;
  ctx.fillText(title, right, y);
}

/** Title, kind and time of an unfolded box; from far away in a size that can still be read. */
export function paintBoxHeader(frame: IFrame, picture: IPicture, box: IItem): void {
  const { ctx, theme, camera, detail } = frame;
  const r = screenRect(frame, box);
  if (r.y < -60 || r.y > frame.height) {
    return;
  }
  const px = Math.max(LEAST_NAME, METRICS.headerFont * camera.k);
  const k = px / METRICS.headerFont;
  const title = box.count > 1 ? `${box.label} ×${box.count}` : box.label;
  const room = (METRICS.boxHeader + METRICS.boxPadTop) * camera.k;
  const width = (nameWidth(ctx, uiFont(theme, LEAST_NAME, 650), title) * px) / LEAST_NAME;
  // A header covers nothing: where there is no room for it, the title stands beside the box.
  if (room < px + 2 || width + 36 * k > r.w) {
    paintTitleBeside(frame, picture, box, r);
    return;
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(r.x, r.y, r.w, Math.min(r.h, room));
  ctx.clip();
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  const y = r.y + Math.min((METRICS.boxHeader / 2 + 1) * k, room / 2);
  const fill = scopeFill(theme, box.depth);
  let x = r.x + 14 * k;
  ctx.font = uiFont(theme, px, 650);
  const titleWidth = ctx.measureText(title).width;
  ctx.fillStyle = fill;
  ctx.fillRect(x - 6 * k, y - 10 * k, titleWidth + 30 * k, 20 * k);
  paintChevron(frame, x + 2 * k, y, true, theme.muted);
  x += 14 * k;
  ctx.font = uiFont(theme, px, 650);
  ctx.fillStyle = theme.text;
  ctx.fillText(title, x, y);
  x += titleWidth + 8 * k;
  const line = lineOf(picture, box);
  let right = r.x + r.w - 12 * k;
  if (line !== undefined && detail >= Detail.Names) {
    ctx.font = uiFont(theme, METRICS.smallFont * k, 600);
    const width = ctx.measureText(line).width;
    if (x + width + 8 * k < right) {
      ctx.fillStyle = fill;
      ctx.fillRect(right - width - 4 * k, y - 8 * k, width + 8 * k, 16 * k);
      ctx.fillStyle = theme.text;
      ctx.fillText(line, right - width, y);
      right -= width + 12 * k;
    }
  }
  if (box.detail !== '' && detail === Detail.Full) {
    ctx.font = uiFont(theme, METRICS.smallFont * k);
    const width = ctx.measureText(box.detail).width;
    if (x + width < right) {
      ctx.fillStyle = fill;
      ctx.fillRect(x - 2 * k, y - 8 * k, width + 4 * k, 16 * k);
      ctx.fillStyle = theme.muted;
      ctx.fillText(box.detail, x, y);
    }
  }
  ctx.restore();
}

/** Kept for a time or a note at the end of a header, in world units. */
const TIME_ROOM = 110;

/** Width that the header of an unfolded box needs, in world units. */
export function headerWidth(item: IItem, measure: (t: string, px: number, b?: boolean) => number): number {
  const title = item.count > 1 ? `${item.label} ×${item.count}` : item.label;
  return (
    60 +
    measure(title, METRICS.headerFont, true) +
    (item.detail ? measure(item.detail, METRICS.smallFont) + 10 : 0) +
    TIME_ROOM
  );
}

function paintErrorMarks(frame: IFrame, picture: IPicture, leaves: readonly IItem[]): void {
  const { ctx, theme, camera } = frame;
  if (picture.errors.size === 0) {
    return;
  }
  const radius = 8 * Math.max(0.7, camera.k);
  for (const item of leaves) {
    if (!picture.errors.has(item)) {
      continue;
    }
    const r = screenRect(frame, item);
    const x = r.x + r.w - 15 * camera.k;
    const y = r.y + 15 * camera.k;
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, 2 * Math.PI);
    ctx.fillStyle = theme.error;
    ctx.fill();
    ctx.fillStyle = theme.surface;
    ctx.font = uiFont(theme, radius * 1.5, 700);
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    ctx.fillText('!', x, y + radius * 0.08);
  }
}

/**
 * Types on edges, on a patch of the colour behind them so that the line does not cross the text. From
 * afar they are larger than the room that the layout kept for them: only those are drawn that lie on
 * no other one and on no item.
 */
export function paintEdgeLabels(
  frame: IFrame,
  labels: readonly IEdgeLabel[],
  items: Grid<IItem> | null = null
): void {
  const { ctx, theme, camera } = frame;
  const { k, tx, ty } = camera;
  const px = Math.max(LEAST_SMALL, METRICS.edgeFont * k);
  const grown = px / METRICS.edgeFont;
  ctx.font = monoFont(theme, px);
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  const shown = grown > k * 1.02 && items !== null ? apart(labels, grown / k, items) : labels;
  for (const label of shown) {
    ctx.fillStyle =
      label.depth === 0
        ? theme.background
        : scopeFill(theme, label.depth);
    ctx.fillRect(
      label.x * k + tx - (label.w / 2) * grown,
      label.y * k + ty - 6.5 * grown,
      label.w * grown,
      13 * grown
    );
  }
  ctx.fillStyle = theme.edgeLabel;
  for (const label of shown) {
    ctx.fillText(label.text, label.x * k + tx, label.y * k + ty);
  }
}

/** The labels that have room when they are drawn `grown` times as large as in the layout. */
function apart(labels: readonly IEdgeLabel[], grown: number, items: Grid<IItem>): IEdgeLabel[] {
  const placed = new Grid<IEdgeLabel>(PLACED_CELL);
  return labels.filter(label => {
    const w = (label.w / 2) * grown;
    const h = 6.5 * grown;
    const box = [label.x - w, label.y - h, label.x + w, label.y + h] as const;
    const isCovered = (item: IItem): boolean =>
      item.container === null &&
      item.x < box[2] &&
      box[0] < item.x + item.w &&
      item.y < box[3] - 1 &&
      box[1] + 1 < item.y + item.h;
    const isTaken = (other: IEdgeLabel): boolean =>
      Math.abs(other.x - label.x) < (other.w / 2) * grown + w && Math.abs(other.y - label.y) < 2 * h;
    if (placed.query(...box).some(isTaken) || items.query(...box).some(isCovered)) {
      return false;
    }
    placed.add(label, ...box);
    return true;
  });
}

/** Side of a cell of the index of labels, in world units. */
const PLACED_CELL = 160;
