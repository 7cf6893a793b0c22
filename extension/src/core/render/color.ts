/** Colours in OKLCH, where equal steps look equal, and their conversion to sRGB. */

export type Rgb = readonly [number, number, number];

/** sRGB of a lightness (0–1), chroma (0–0.3) and hue (degrees); chroma falls until it fits. */
export function oklch(lightness: number, chroma: number, hue: number): Rgb {
  for (let c = chroma; ; c -= 0.01) {
    const rgb = oklab(lightness, c, hue);
    if (c <= 0 || rgb.every(v => v >= -0.002 && v <= 1.002)) {
      const [r, g, b] = rgb;
      return [byteOf(r), byteOf(g), byteOf(b)];
    }
  }
}

/** A colour of a scale around zero: from -1, one hue, over the page's own at 0 to 1, the other. */
export function divergingColor(part: number, isDark: boolean): Rgb {
  const size = Math.abs(part);
  return oklch(isDark ? 0.27 + 0.53 * size : 0.97 - 0.5 * size, 0.17 * size, part < 0 ? 255 : 40);
}

/** A channel of 0 to 1 as one of 0 to 255. */
function byteOf(v: number): number {
  return Math.round(255 * Math.min(1, Math.max(0, v)));
}

function oklab(lightness: number, chroma: number, hue: number): [number, number, number] {
  const angle = (hue * Math.PI) / 180;
  const a = chroma * Math.cos(angle);
  const b = chroma * Math.sin(angle);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    gamma(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    gamma(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    gamma(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s)
  ];
}

function gamma(v: number): number {
  return v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055;
}

export function css([r, g, b]: Rgb, alpha = 1): string {
  return alpha === 1 ? `rgb(${r}, ${g}, ${b})` : `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

/** Relative luminance of WCAG. */
export function luminance([r, g, b]: Rgb): number {
  const linear = (v: number): number => {
    const c = v / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

/** Contrast ratio of WCAG, 1 to 21. */
export function contrast(a: Rgb, b: Rgb): number {
  const x = luminance(a);
  const y = luminance(b);
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

/** The names that themes use for their page; JupyterLab's light theme says `white`. */
const NAMED: Record<string, Rgb> = { white: [255, 255, 255], black: [0, 0, 0] };

/** Reads `#rgb`, `#rrggbb`, `rgb(…)`, `rgba(…)`, `white` and `black`; null for anything else. */
export function parseColor(text: string): Rgb | null {
  const value = text.trim().toLowerCase();
  const named = NAMED[value];
  if (named !== undefined) {
    return named;
  }
  const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(value)?.[1];
  if (hex !== undefined) {
    const full = hex.length === 3 ? hex.replace(/./g, '$&$&') : hex;
    const n = Number.parseInt(full, 16);
    return [n >> 16, (n >> 8) & 255, n & 255];
  }
  const parts = /^rgba?\(\s*(\d+)[\s,]+(\d+)[\s,]+(\d+)/.exec(value);
  return parts === null ? null : [Number(parts[1]), Number(parts[2]), Number(parts[3])];
}
