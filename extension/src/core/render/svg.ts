/**
 * A surface that writes SVG: what the painters draw on a canvas becomes paths and text of a file, which
 * needs no script and no font of the page. Texts of a document are written as text, never as markup.
 */

import type { ISurface } from './surface';

interface IState {
  fillStyle: ISurface['fillStyle'];
  strokeStyle: ISurface['strokeStyle'];
  font: string;
  lineWidth: number;
  globalAlpha: number;
  dash: string;
  clip: string;
}

/** Text that may stand in XML: control characters may not even be escaped there. */
function escape(text: string): string {
  return text
    .replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, '\uFFFD')
    .replace(/[&<>"']/g, letter => `&#${letter.charCodeAt(0)};`);
}

/** A colour; the graph is painted in no gradients and no patterns. */
function ink(style: ISurface['fillStyle']): string {
  return typeof style === 'string' ? escape(style) : 'none';
}

function short(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function at(...numbers: number[]): string {
  return numbers.map(short).join(' ');
}

const ANCHORS: Partial<Record<CanvasTextAlign, string>> = { center: 'middle', right: 'end', end: 'end' };

export class SvgSurface implements ISurface {
  fillStyle: ISurface['fillStyle'] = '#000';
  strokeStyle: ISurface['strokeStyle'] = '#000';
  font = '10px sans-serif';
  textAlign: CanvasTextAlign = 'start';
  textBaseline: CanvasTextBaseline = 'alphabetic';
  lineWidth = 1;
  lineCap: CanvasLineCap = 'butt';
  lineJoin: CanvasLineJoin = 'miter';
  globalAlpha = 1;
  private readonly _parts: string[] = [];
  private readonly _clips: string[] = [];
  /** Fonts are repeated by thousands of texts: each is a class of the style sheet. */
  private readonly _fonts = new Map<string, string>();
  private readonly _saved: IState[] = [];
  private _path: string[] = [];
  private _x = 0;
  private _y = 0;
  private _dash = '';
  private _clip = '';
  private _isTurned = false;

  constructor(private readonly _measurer: { font: string; measureText(text: string): { width: number } }) {}

  /** The file. */
  text(width: number, height: number, title: string): string {
    const fonts = [...this._fonts].map(([font, name]) => `.${name}{font:${font}}`).join('');
    return [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${short(width)}" height="${short(height)}" `,
      `viewBox="0 0 ${at(width, height)}" role="img" aria-labelledby="t">`,
      `<title id="t">${escape(title)}</title><style>${escape(fonts)}text{white-space:pre}</style>`,
      `<defs>${this._clips.join('')}</defs>`,
      ...this._parts,
      '</svg>\n'
    ].join('');
  }

  setTransform(a: number): void {
    // A file has no pixels of its own: all is in CSS pixels already, with its axes as they are or exchanged.
    this._isTurned = a === 0;
  }

  save(): void {
    const { fillStyle, strokeStyle, font, lineWidth, globalAlpha } = this;
    this._saved.push({ fillStyle, strokeStyle, font, lineWidth, globalAlpha, dash: this._dash, clip: this._clip });
  }

  restore(): void {
    const state = this._saved.pop();
    if (state !== undefined) {
      const { dash, clip, ...styles } = state;
      Object.assign(this, styles);
      this._dash = dash;
      this._clip = clip;
    }
  }

  clip(): void {
    const id = `c${this._clips.length}`;
    const outer = this._clip === '' ? '' : ` clip-path="url(#${this._clip})"`;
    this._clips.push(`<clipPath id="${id}"><path d="${this._path.join('')}"${outer}/></clipPath>`);
    this._clip = id;
  }

  beginPath(): void {
    this._path = [];
  }

  closePath(): void {
    this._path.push('Z');
  }

  moveTo(x: number, y: number): void {
    this._to('M', x, y);
  }

  lineTo(x: number, y: number): void {
    this._to(this._path.length === 0 ? 'M' : 'L', x, y);
  }

  private _to(command: string, x: number, y: number): void {
    this._path.push(`${command}${at(x, y)}`);
    this._x = x;
    this._y = y;
  }

  bezierCurveTo(x1: number, y1: number, x2: number, y2: number, x: number, y: number): void {
    this._path.push(`C${at(x1, y1, x2, y2, x, y)}`);
    this._x = x;
    this._y = y;
  }

  arcTo(x1: number, y1: number, x2: number, y2: number, radius: number): void {
    const before = Math.hypot(this._x - x1, this._y - y1);
    const behind = Math.hypot(x2 - x1, y2 - y1);
    const ux = (this._x - x1) / before;
    const uy = (this._y - y1) / before;
    const vx = (x2 - x1) / behind;
    const vy = (y2 - y1) / behind;
    const turn = ux * vy - uy * vx;
    if (before === 0 || behind === 0 || radius === 0 || Math.abs(turn) < 1e-9) {
      this.lineTo(x1, y1);
      return;
    }
    const cut = radius / Math.tan(Math.acos(Math.max(-1, Math.min(1, ux * vx + uy * vy))) / 2);
    this.lineTo(x1 + ux * cut, y1 + uy * cut);
    this._x = x1 + vx * cut;
    this._y = y1 + vy * cut;
    this._path.push(`A${at(radius, radius, 0, 0)} ${turn < 0 ? 1 : 0} ${at(this._x, this._y)}`);
  }

  arc(x: number, y: number, radius: number, from: number, to: number): void {
    const half = (from + to) / 2;
    const place = (angle: number): [number, number] => [x + radius * Math.cos(angle), y + radius * Math.sin(angle)];
    // Two halves: one arc whose ends are the same point is drawn by nobody.
    this.moveTo(...place(from));
    for (const angle of [half, to]) {
      this._path.push(`A${at(radius, radius, 0, 0, 1)} ${at(...place(angle))}`);
    }
  }

  rect(x: number, y: number, w: number, h: number): void {
    this._path.push(`M${at(x, y)}h${short(w)}v${short(h)}h${short(-w)}Z`);
  }

  roundRect(x: number, y: number, w: number, h: number, radii: number | number[]): void {
    const list = typeof radii === 'number' ? [radii, radii, radii, radii] : radii;
    const fit = (i: number): number => Math.max(0, Math.min(list[i] ?? 0, w / 2, h / 2));
    const [a, b, c, d] = [fit(0), fit(1), fit(2), fit(3)];
    const corner = (r: number, dx: number, dy: number): string =>
      r === 0 ? '' : `a${at(r, r, 0, 0, 1, r * dx, r * dy)}`;
    this._path.push(
      `M${at(x + a, y)}h${short(w - a - b)}${corner(b, 1, 1)}v${short(h - b - c)}${corner(c, -1, 1)}`,
      `h${short(c + d - w)}${corner(d, -1, -1)}v${short(a + d - h)}${corner(a, 1, -1)}Z`
    );
  }

  setLineDash(dash: number[]): void {
    this._dash = dash.map(short).join(' ');
  }

  fill(): void {
    this._draw(`fill="${ink(this.fillStyle)}"`);
  }

  stroke(): void {
    const caps = this.lineCap === 'butt' ? '' : ` stroke-linecap="${this.lineCap}"`;
    const joins = this.lineJoin === 'miter' ? '' : ` stroke-linejoin="${this.lineJoin}"`;
    const dash = this._dash === '' ? '' : ` stroke-dasharray="${this._dash}"`;
    const color = ink(this.strokeStyle);
    this._draw(`fill="none" stroke="${color}" stroke-width="${short(this.lineWidth)}"${caps}${joins}${dash}`);
  }

  private _draw(style: string): void {
    if (this._path.length > 0) {
      this._parts.push(`<path d="${this._path.join('')}" ${style}${this._isTurned ? ' transform="matrix(0 1 1 0 0 0)"' : ''}${this._common()}/>`);
    }
  }

  private _common(): string {
    const alpha = this.globalAlpha === 1 ? '' : ` opacity="${short(this.globalAlpha)}"`;
    return `${alpha}${this._clip === '' ? '' : ` clip-path="url(#${this._clip})"`}`;
  }

  fillRect(x: number, y: number, w: number, h: number): void {
    const place = `x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}"`;
    if (w > 0 && h > 0) {
      this._parts.push(`<rect ${place} fill="${ink(this.fillStyle)}"${this._common()}/>`);
    }
  }

  clearRect(): void {
    // Nothing is drawn yet where a file begins.
  }

  fillText(text: string, x: number, y: number): void {
    let name = this._fonts.get(this.font);
    if (name === undefined) {
      name = `f${this._fonts.size}`;
      this._fonts.set(this.font, name);
    }
    const anchor = ANCHORS[this.textAlign];
    const where = anchor === undefined ? '' : ` text-anchor="${anchor}"`;
    const base = this.textBaseline === 'middle' ? ' dominant-baseline="central"' : '';
    const color = ink(this.fillStyle);
    this._parts.push(
      `<text class="${name}" x="${short(x)}" y="${short(y)}" fill="${color}"${where}${base}${this._common()}>`,
      `${escape(text)}</text>`
    );
  }

  measureText(text: string): { readonly width: number } {
    this._measurer.font = this.font;
    return this._measurer.measureText(text);
  }
}
