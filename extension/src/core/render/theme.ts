/** Colours and fonts of the scene in a light and a dark theme; text always reaches 4.5:1. */

import type { Family } from '../model/families';
import { contrast, css, luminance, oklch, parseColor, type Rgb } from './color';
import { at, mapTable } from '../narrow';

export type ThemeName = 'auto' | 'light' | 'dark';

export interface IFamilyColors {
  stripe: string;
  fill: string;
  border: string;
  title: string;
}

export interface ITheme {
  isDark: boolean;
  background: string;
  surface: string;
  text: string;
  muted: string;
  line: string;
  edge: string;
  edgeLabel: string;
  accent: string;
  accentSoft: string;
  error: string;
  errorFill: string;
  scopeFill: string[];
  scopeLine: string;
  boxFill: string;
  boxBorder: string;
  terminalFill: string;
  terminalBorder: string;
  /** What changed since the last run. */
  change: string;
  chip: string;
  chipText: string;
  hatch: string;
  family: Record<Family, IFamilyColors>;
  /** Heat colours, cold to hot, and the text colour that is readable on each. */
  ramp: string[];
  rampText: string[];
  fontUi: string;
  fontMono: string;
}

const RAMP_STEPS = 24;

/** The place in `ramp` of a part of the hottest, from 0 to 1. */
export function rampIndex(t: number): number {
  return Math.min(RAMP_STEPS - 1, Math.max(0, Math.round(t * (RAMP_STEPS - 1))));
}

const HUES: Record<Family, number> = {
  contract: 262,
  elementwise: 200,
  activation: 305,
  reduce: 55,
  norm: 150,
  view: 255,
  index: 350,
  source: 95,
  spectral: 230,
  control: 330,
  effect: 75,
  device: 175,
  custom: 122,
  other: 255
};

const QUIET: ReadonlySet<Family> = new Set<Family>(['view', 'other']);

/**
 * Heat from cold to hot: lightness moves evenly from near the page to far from it, hue from yellow
 * over orange and rose to violet, so that order survives in grey and for every kind of colour vision.
 */
function rampColor(t: number, isDark: boolean): Rgb {
  if (isDark) {
    const hue = 290 + ((t * 170) % 360);
    const chroma = 0.05 + 0.13 * Math.sin(Math.PI * Math.min(1, t * 0.68 + 0.12));
    return oklch(0.3 + 0.58 * t, chroma, hue % 360);
  }
  const hue = 98 - 150 * t;
  const chroma = 0.035 + 0.15 * Math.sin(Math.PI * Math.min(1, t * 0.8 + 0.04));
  return oklch(0.975 - 0.56 * t, chroma, (hue + 360) % 360);
}

function familyColors(family: Family, isDark: boolean): IFamilyColors {
  const hue = HUES[family];
  const scale = QUIET.has(family) ? 0.22 : 1;
  return isDark
    ? {
        stripe: css(oklch(0.7, 0.12 * scale, hue)),
        fill: css(oklch(0.285, 0.028 * scale, hue)),
        border: css(oklch(0.45, 0.06 * scale, hue)),
        title: css(oklch(0.93, 0.025 * scale, hue))
      }
    : {
        stripe: css(oklch(0.6, 0.13 * scale, hue)),
        fill: css(oklch(0.985, 0.012 * scale, hue)),
        border: css(oklch(0.82, 0.055 * scale, hue)),
        title: css(oklch(0.31, 0.06 * scale, hue))
      };
}

/** Fill of an unfolded box at a depth (1 is outermost); the deepest two shades alternate. */
export function scopeFill(theme: ITheme, depth: number): string {
  const last = theme.scopeFill.length - 1;
  const index = depth - 1 <= last ? depth - 1 : last - ((depth - 1 - last) % 2);
  return at(theme.scopeFill, Math.max(0, index));
}

function readable(wanted: Rgb, on: Rgb, isDark: boolean): Rgb {
  return contrast(wanted, on) >= 4.5 ? wanted : isDark ? [238, 240, 243] : [32, 36, 44];
}

/** The theme for an element: `name`, else JupyterLab's, else what the system prefers. */
export function readTheme(host: Element, name: ThemeName): ITheme {
  const style = getComputedStyle(host);
  const page = parseColor(style.getPropertyValue('--jp-layout-color0'));
  const prefersDark =
    typeof matchMedia === 'function' && matchMedia('(prefers-color-scheme: dark)').matches;
  const declared = host.ownerDocument.body.dataset.jpThemeLight;
  const pageIsDark =
    declared !== undefined
      ? declared === 'false'
      : page !== null
        ? luminance(page) < 0.3
        : prefersDark;
  const isDark = name === 'auto' ? pageIsDark : name === 'dark';
  // A page of the other kind (a light view in a dark notebook) keeps our own background.
  const usesPage = page !== null && luminance(page) < 0.3 === isDark;
  const font = (variable: string, fallback: string): string =>
    style.getPropertyValue(variable).trim() || fallback;
  return makeTheme(
    isDark,
    usesPage ? page : null,
    font('--jp-ui-font-family', 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif'),
    font('--jp-code-font-family', 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace')
  );
}

export function makeTheme(
  isDark: boolean,
  page: Rgb | null,
  fontUi = 'sans-serif',
  fontMono = 'monospace'
): ITheme {
  const background = page ?? (isDark ? oklch(0.205, 0.012, 262) : oklch(0.988, 0.003, 255));
  const ramp: string[] = [];
  const rampText: string[] = [];
  for (let i = 0; i < RAMP_STEPS; i += 1) {
    const color = rampColor(i / (RAMP_STEPS - 1), isDark);
    // Only pure black and white reach 4.5:1 on every lightness between them.
    const dark: Rgb = [0, 0, 0];
    const light: Rgb = [255, 255, 255];
    ramp.push(css(color));
    rampText.push(css(contrast(color, dark) >= contrast(color, light) ? dark : light));
  }
  const family = mapTable(HUES, name => familyColors(name, isDark));
  const text = readable(isDark ? oklch(0.94, 0.006, 262) : oklch(0.27, 0.02, 262), background, isDark);
  const muted = readable(isDark ? oklch(0.76, 0.015, 262) : oklch(0.48, 0.02, 262), background, isDark);
  const scopeFill = [0, 1, 2, 3].map(depth =>
    css(isDark ? oklch(0.245 + 0.022 * depth, 0.014, 262) : oklch(0.968 - 0.014 * depth, 0.009, 262))
  );
  return {
    isDark,
    background: css(background),
    surface: css(isDark ? oklch(0.26, 0.014, 262) : [255, 255, 255]),
    text: css(text),
    muted: css(muted),
    line: css(isDark ? oklch(0.38, 0.014, 262) : oklch(0.89, 0.008, 262)),
    edge: css(isDark ? oklch(0.56, 0.02, 262) : oklch(0.68, 0.018, 262)),
    edgeLabel: css(muted),
    accent: css(isDark ? oklch(0.74, 0.14, 255) : oklch(0.55, 0.19, 260)),
    accentSoft: css(isDark ? oklch(0.74, 0.14, 255) : oklch(0.55, 0.19, 260), 0.16),
    error: css(isDark ? oklch(0.7, 0.19, 25) : oklch(0.54, 0.21, 27)),
    errorFill: css(isDark ? oklch(0.29, 0.07, 25) : oklch(0.965, 0.025, 20)),
    scopeFill,
    scopeLine: css(isDark ? oklch(0.42, 0.018, 262) : oklch(0.84, 0.014, 262)),
    boxFill: css(isDark ? oklch(0.315, 0.022, 262) : [255, 255, 255]),
    boxBorder: css(isDark ? oklch(0.52, 0.03, 262) : oklch(0.72, 0.025, 262)),
    terminalFill: css(isDark ? oklch(0.3, 0.03, 230) : oklch(0.95, 0.02, 230)),
    terminalBorder: css(isDark ? oklch(0.55, 0.06, 230) : oklch(0.72, 0.06, 230)),
    change: css(isDark ? oklch(0.79, 0.15, 168) : oklch(0.52, 0.12, 168)),
    chip: css(isDark ? oklch(0.75, 0.1, 85) : oklch(0.62, 0.11, 75)),
    chipText: css(isDark ? oklch(0.82, 0.03, 85) : oklch(0.42, 0.04, 75)),
    hatch: isDark ? 'rgba(255, 255, 255, 0.16)' : 'rgba(20, 24, 40, 0.13)',
    family,
    ramp,
    rampText,
    fontUi,
    fontMono
  };
}
