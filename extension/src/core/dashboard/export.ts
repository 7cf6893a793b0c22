/** What a dashboard hands out: a table of its samples, and a picture of its charts. */

import type { ITheme } from '../render/theme';
import type { DashboardData } from './data';
import type { ISpan } from './range';
import { at } from '../narrow';

/** The samples of `span` as CSV: a line of names with units, then one for each sample. */
export function toCsv(data: DashboardData, span: ISpan): string {
  const quote = (text: string): string => (/[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  const { times, values } = data.view(span.start, span.end);
  const lines = [['time [s]', ...data.columns.map(({ key, unit }) => `${key} [${unit}]`)].map(quote).join()];
  for (let n = 0; n < times.length; n += 1) {
    const time = at(times, n);
    const row = values.map(column => column[n] ?? null);
    // Rows of nothing only part two runs.
    if (time >= span.start && time <= span.end && row.some(value => value !== null)) {
      lines.push([time.toFixed(6), ...row.map(value => (value === null ? '' : String(value)))].join());
    }
  }
  return `${lines.join('\n')}\n`;
}

export interface IPicturePart {
  title: string;
  values: string;
  canvas: HTMLCanvasElement;
}

/** The charts below each other, two in a row where they are narrow, as one picture. */
export function drawPicture(
  parts: readonly IPicturePart[],
  title: string,
  theme: ITheme,
  ratio: number
): HTMLCanvasElement {
  const gap = 14 * ratio;
  const head = 26 * ratio;
  const widest = Math.max(...parts.map(({ canvas }) => canvas.width), 1);
  const rows: IPicturePart[][] = [];
  for (const part of parts) {
    const row = rows[rows.length - 1];
    const used = row?.reduce((sum, { canvas }) => sum + canvas.width + gap, 0) ?? Infinity;
    if (row !== undefined && used + part.canvas.width <= widest + gap) {
      row.push(part);
    } else {
      rows.push([part]);
    }
  }
  const heights = rows.map(row => Math.max(...row.map(({ canvas }) => canvas.height)) + head + gap);
  const picture = document.createElement('canvas');
  picture.width = widest + 2 * gap;
  picture.height = heights.reduce((sum, height) => sum + height, head + 2 * gap);
  const context = picture.getContext('2d');
  if (context === null) {
    return picture;
  }
  context.fillStyle = theme.background;
  context.fillRect(0, 0, picture.width, picture.height);
  context.textBaseline = 'top';
  const say = (text: string, x: number, y: number, weight: number, size: number, color: string): void => {
    context.font = `${weight} ${size * ratio}px ${theme.fontUi}`;
    context.fillStyle = color;
    context.fillText(text, x, y);
  };
  say(title, gap, gap, 650, 15, theme.text);
  let y = gap + head;
  rows.forEach((row, n) => {
    let x = gap;
    for (const { title: name, values, canvas } of row) {
      say(name, x, y, 600, 12, theme.text);
      const indent = context.measureText(name).width + 12 * ratio;
      say(values, x + indent, y, 400, 11, theme.muted);
      context.drawImage(canvas, x, y + head - 4 * ratio);
      x += canvas.width + gap;
    }
    y += at(heights, n);
  });
  return picture;
}

/** Hands `content` to the browser's downloads. */
export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The download has read the address by the next turn of the event loop in every browser.
  window.setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
