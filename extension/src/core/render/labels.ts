/** The text of the scene: names, details, chips, times, headers of boxes, types on edges. */

import { METRICS } from '../model/metrics';
import { boxSubtitle, type IItem } from '../model/scene';
import { Detail, screenRect, type IFrame } from './frame';
import { lineOf, type IEdgeLabel, type IPicture } from './picture';
import { rampIndex, scopeFill, type ITheme } from './theme';
import { at } from '../narrow';

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

  flush(ctx: CanvasRenderingContext2D): void {
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
    const color = at(theme.rampText, rampIndex(heat.t));
    return { title: color, detail: color, time: color };
  }
  if (item.node !== null) {
    const quiet = item.node.family === 'view' || (frame.isHeat && heat === undefined);
    const title = quiet ? theme.muted : theme.family[item.node.family].title;
    return { title, detail: theme.muted, time: theme.text };
  }
  return { title: theme.text, detail: theme.muted, time: theme.text };
}

/** Names seen from afar keep this size where they fit. */
const MIN_TEXT = 10;

/** Names that do not fit shrink to this size before they are shortened. */
const LEAST_TEXT = 8;

const nameWidths = new Map<string, number>();

/** Width of a name at `MIN_TEXT` in `font`, remembered: graphs repeat few names many times. */
function nameWidth(ctx: CanvasRenderingContext2D, font: string, text: string): number {
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

/** `text`, or its beginning and an ellipsis, in at most `room` pixels at `MIN_TEXT`; empty below 3 letters. */
function fitted(ctx: CanvasRenderingContext2D, font: string, text: string, room: number): string {
  if (nameWidth(ctx, font, text) <= room) {
    return text;
  }
  let length = Math.floor((text.length * room) / nameWidth(ctx, font, text));
  while (length > 2 && nameWidth(ctx, font, `${text.slice(0, length)}…`) > room) {
    length--;
  }
  return length > 2 ? `${text.slice(0, length)}…` : '';
}

/** Names (and times, in heat) in a size that stays readable from afar, wherever there is room. */
export function paintFarTitles(
  frame: IFrame,
  picture: IPicture,
  leaves: readonly IItem[]
): void {
  const { ctx, theme, camera, isHeat } = frame;
  const px = Math.max(MIN_TEXT, METRICS.labelFont * camera.k);
  const strong = uiFont(theme, px, 600);
  const plain = uiFont(theme, px, 500);
  const small = uiFont(theme, MIN_TEXT, 600);
  const batch = new TextBatch();
  for (const item of leaves) {
    const r = screenRect(frame, item);
    const isMinor = item.box === null && camera.k < 0.28;
    if (isMinor || r.h < px + 1) {
      continue;
    }
    const whole = item.count > 1 ? `${item.label} ×${item.count}` : item.label;
    const room = ((r.w - 3) * MIN_TEXT) / px;
    const shrink = Math.max(Math.min(1, room / nameWidth(ctx, small, whole)), LEAST_TEXT / px);
    const text = fitted(ctx, small, whole, room / shrink);
    if (text === '') {
      continue;
    }
    const ink = inkOf(frame, picture, item);
    const line = isHeat || picture.notes !== null ? lineOf(picture, item) : undefined;
    const both =
      line !== undefined && r.h >= px + MIN_TEXT + 6 && r.w >= nameWidth(ctx, small, line) + 4;
    const x = r.x + r.w / 2;
    const y = r.y + r.h / 2;
    const isView = item.node?.family === 'view';
    const size = Math.floor(px * shrink * 2) / 2;
    const font = size >= px ? (isView ? plain : strong) : uiFont(theme, size, isView ? 500 : 600);
    batch.add(font, ink.title, text, x, both ? y - px * 0.55 : y);
    if (both) {
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
  const titleFont = uiFont(theme, METRICS.labelFont * k, 600);
  const viewFont = uiFont(theme, (METRICS.labelFont - 1) * k, 500);
  const detailFont = uiFont(theme, METRICS.smallFont * k);
  const timeFont = uiFont(theme, METRICS.smallFont * k, 600);
  const chipFont = monoFont(theme, METRICS.edgeFont * k);
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
    const head = (isView ? METRICS.rowView : METRICS.rowLabel) * k;
    const rows = (item.detail ? 1 : 0) + item.chips.length + (item.hasTime ? 1 : 0);
    centre.add(
      isView ? viewFont : titleFont,
      ink.title,
      item.label,
      mid,
      r.y + head / 2 + (rows > 0 ? k : 0)
    );
    let y = r.y + head + (METRICS.rowSmall / 2 - 2) * k;
    if (item.detail !== '') {
      centre.add(detailFont, ink.detail, item.detail, mid, y);
      y += METRICS.rowSmall * k;
    }
    const chipInk = frame.isHeat && picture.notes === null && picture.heat.has(item) ? ink.detail : theme.chipText;
    for (const chip of item.chips) {
      centre.add(chipFont, chipInk, `▪ ${chip}`, mid, y);
      y += METRICS.rowSmall * k;
    }
    const line = lineOf(picture, item);
    if (line !== undefined) {
      centre.add(timeFont, ink.time, line, mid, y);
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
  const top = r.y + off;
  paintChevron(frame, r.x + 17 * k, top + 18 * k, false, ink.detail);
  const title = item.count > 1 ? `${item.label} ×${item.count}` : item.label;
  batch.add(uiFont(theme, METRICS.labelFont * k, 650), ink.title, title, x, top + 18 * k);
  batch.add(uiFont(theme, METRICS.smallFont * k), ink.detail, boxSubtitle(item), x, top + 35 * k);
  const line = lineOf(picture, item);
  if (line !== undefined) {
    batch.add(uiFont(theme, METRICS.smallFont * k, 600), ink.time, line, x, top + 52 * k);
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

/** Title, kind and time of an unfolded box; from far away in a size that can still be read. */
/** The title of an unfolded box that is too small for a header, to the left of it. */
function paintTitleBeside(frame: IFrame, box: IItem, r: { x: number; y: number; h: number }): void {
  const { ctx, theme } = frame;
  if (r.h < 50 || box.depth > 3) {
    return;
  }
  const title = box.count > 1 ? `${box.label} ×${box.count}` : box.label;
  ctx.font = uiFont(theme, MIN_TEXT, 650);
  ctx.textAlign = 'right';
  ctx.textBaseline = 'middle';
  ctx.fillStyle = theme.muted;
  // nested frames begin a few pixels apart; their titles stand a line apart
  ctx.fillText(title, r.x - 6 - 5 * (3 - Math.min(box.depth, 3)), r.y + 6 + 12 * Math.max(box.depth - 1, 0));
}

export function paintBoxHeader(frame: IFrame, picture: IPicture, box: IItem): void {
  const { ctx, theme, camera, detail } = frame;
  const r = screenRect(frame, box);
  if (r.y < -60 || r.y > frame.height) {
    return;
  }
  const k = Math.max(0.78, camera.k);
  // From far away headers of nested boxes would lie on each other and on what is inside.
  const tooSmall = r.w < 80 || r.h < 60 || (METRICS.boxHeader * camera.k < 9 && box.depth > 1);
  if (camera.k < k && tooSmall) {
    paintTitleBeside(frame, box, r);
    return;
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(r.x, r.y, r.w, Math.min(r.h, 60));
  ctx.clip();
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  const y = r.y + Math.min((METRICS.boxHeader / 2 + 1) * k, METRICS.boxHeader * camera.k);
  const fill = scopeFill(theme, box.depth);
  let x = r.x + 14 * k;
  ctx.font = uiFont(theme, METRICS.headerFont * k, 650);
  const title = box.count > 1 ? `${box.label} ×${box.count}` : box.label;
  const titleWidth = ctx.measureText(title).width;
  ctx.fillStyle = fill;
  ctx.fillRect(x - 6 * k, y - 10 * k, titleWidth + 30 * k, 20 * k);
  paintChevron(frame, x + 2 * k, y, true, theme.muted);
  x += 14 * k;
  ctx.font = uiFont(theme, METRICS.headerFont * k, 650);
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

/** Width that the header of an unfolded box needs, in world units. */
export function headerWidth(item: IItem, measure: (t: string, px: number, b?: boolean) => number): number {
  const title = item.count > 1 ? `${item.label} ×${item.count}` : item.label;
  return (
    60 +
    measure(title, METRICS.headerFont, true) +
    (item.detail ? measure(item.detail, METRICS.smallFont) + 10 : 0) +
    (item.hasTime ? 110 : 0)
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

/** Types on edges, on a patch of the colour behind them so that the line does not cross the text. */
export function paintEdgeLabels(frame: IFrame, labels: readonly IEdgeLabel[]): void {
  const { ctx, theme, camera } = frame;
  const { k, tx, ty } = camera;
  ctx.font = monoFont(theme, METRICS.edgeFont * k);
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  for (const label of labels) {
    ctx.fillStyle =
      label.depth === 0
        ? theme.background
        : scopeFill(theme, label.depth);
    ctx.fillRect(
      (label.x - label.w / 2) * k + tx,
      (label.y - 7) * k + ty,
      label.w * k,
      14 * k
    );
  }
  ctx.fillStyle = theme.edgeLabel;
  for (const label of labels) {
    ctx.fillText(label.text, label.x * k + tx, label.y * k + ty);
  }
}
