/** Colours and fonts of the scene in a light and a dark theme; text always reaches 4.5:1. */

import type { Family } from '../model/families';
import { contrast, css, divergingColor, luminance, oklch, parseColor, type Rgb } from './color';
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
  /** Text, lines and marks are as strong as they can be: high contrast, or the system's own colours. */
  isStrong: boolean;
  background: string;
  surface: string;
  text: string;
  muted: string;
  line: string;
  edge: string;
  edgeLabel: string;
  accent: string;
  accentSoft: string;
  /** What is pressed or chosen, and what is written on it. */
  chosen: string;
  chosenText: string;
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
  /** What is another in the graph beside. */
  differs: string;
  chip: string;
  chipText: string;
  hatch: string;
  family: Record<Family, IFamilyColors>;
  /** Heat colours, cold to hot, and the text colour that is readable on each. */
  ramp: string[];
  rampText: string[];
  /** The lines over a box whose time is a split. */
  rampHatch: string[];
  /** Colours of numbers around zero, the least first, and the text colour that is readable on each. */
  diverging: string[];
  divergingText: string[];
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
 * In both themes more heat stands out more, and a hue means the same heat.
 */
function rampColor(t: number, isDark: boolean): Rgb {
  const hue = (98 - 150 * t + 360) % 360;
  const chroma = 0.035 + 0.15 * Math.sin(Math.PI * Math.min(1, t * 0.8 + 0.04));
  return oklch(isDark ? 0.3 + 0.56 * t : 0.975 - 0.56 * t, chroma, hue);
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
  const font = (variable: string, fallback: string): string =>
    style.getPropertyValue(variable).trim() || fallback;
  const fontUi = font('--jp-ui-font-family', 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif');
  const fontMono = font('--jp-code-font-family', 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace');
  const system = systemColors(host);
  if (system !== null) {
    // Who forces colours on all pages has chosen: neither page nor setting counts.
    const base = makeTheme(luminance(system.page) < 0.3, system.page, fontUi, fontMono);
    return strengthened(base, system);
  }
  const isDark = name === 'auto' ? pageIsDark : name === 'dark';
  // A page of the other kind (a light view in a dark notebook) keeps our own background.
  const usesPage = page !== null && luminance(page) < 0.3 === isDark;
  const theme = makeTheme(isDark, usesPage ? page : null, fontUi, fontMono);
  const wantsMore =
    /high contrast/i.test(host.ownerDocument.body.dataset.jpThemeName ?? '') ||
    (typeof matchMedia === 'function' && matchMedia('(prefers-contrast: more)').matches);
  return wantsMore ? highContrast(theme) : theme;
}

/** The few colours that everything is drawn with where contrast is all that counts. */
export interface IStrongColors {
  page: Rgb;
  text: Rgb;
  accent: Rgb;
  accentText: Rgb;
  link: Rgb;
}

/** The colours that the system forces on every page; null where it does not. */
function systemColors(host: Element): IStrongColors | null {
  if (typeof matchMedia !== 'function' || !matchMedia('(forced-colors: active)').matches) {
    return null;
  }
  const probe = host.ownerDocument.createElement('span');
  probe.hidden = true;
  // A view that is not in the page yet has no colours of its own.
  host.ownerDocument.body.append(probe);
  const read = (name: string, instead: Rgb): Rgb => {
    probe.style.color = name;
    return parseColor(getComputedStyle(probe).color) ?? instead;
  };
  const page = read('Canvas', [255, 255, 255]);
  const text = read('CanvasText', luminance(page) < 0.3 ? [255, 255, 255] : [0, 0, 0]);
  const colors = {
    page,
    text,
    accent: read('Highlight', text),
    accentText: read('HighlightText', page),
    link: read('LinkText', text)
  };
  probe.remove();
  return colors;
}

/** `theme` with text and lines in black and white, on the page that it has. */
export function highContrast(theme: ITheme): ITheme {
  const page = parseColor(theme.background) ?? (theme.isDark ? [0, 0, 0] : [255, 255, 255]);
  return strengthened(theme, {
    page,
    text: theme.isDark ? [255, 255, 255] : [0, 0, 0],
    accent: theme.isDark ? oklch(0.83, 0.12, 240) : oklch(0.4, 0.17, 262),
    accentText: theme.isDark ? [0, 0, 0] : [255, 255, 255],
    link: theme.isDark ? oklch(0.88, 0.13, 168) : oklch(0.4, 0.09, 168)
  });
}

/**
 * `theme` in few colours: surfaces are the page, and what lies on them is told apart by lines. Heat and
 * the stripes of families stay, for they are what is shown.
 */
export function strengthened(theme: ITheme, colors: IStrongColors): ITheme {
  const page = css(colors.page);
  const text = css(colors.text);
  const accent = css(contrast(colors.accent, colors.page) >= 3 ? colors.accent : colors.text);
  return {
    ...theme,
    isStrong: true,
    background: page,
    surface: page,
    text,
    muted: text,
    line: text,
    edge: text,
    edgeLabel: text,
    accent,
    accentSoft: css(colors.accent, 0.3),
    chosen: css(colors.accent),
    chosenText: css(colors.accentText),
    errorFill: page,
    scopeFill: theme.scopeFill.map(() => page),
    scopeLine: text,
    boxFill: page,
    boxBorder: text,
    terminalFill: page,
    terminalBorder: text,
    change: css(colors.link),
    chip: css(colors.link),
    chipText: text,
    hatch: css(colors.text, 0.55),
    rampHatch: theme.rampText.map(color => css(parseColor(color) ?? colors.text, 0.3)),
    family: mapTable(theme.family, name => ({ ...theme.family[name], fill: page, border: text, title: text }))
  };
}

/** What can be read on `color`: only pure black and white reach 4.5:1 on every lightness between them. */
function inkOn(color: Rgb): Rgb {
  const dark: Rgb = [0, 0, 0];
  const light: Rgb = [255, 255, 255];
  return contrast(color, dark) >= contrast(color, light) ? dark : light;
}

/** Fill and text of a part of the scale, from 0 to 1; the scale is that of heat, or one around zero. */
export function scaleColors(theme: ITheme, isDiverging: boolean, t: number): { fill: string; ink: string } {
  const index = rampIndex(t);
  return isDiverging
    ? { fill: at(theme.diverging, index), ink: at(theme.divergingText, index) }
    : { fill: at(theme.ramp, index), ink: at(theme.rampText, index) };
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
  const rampHatch: string[] = [];
  const diverging: string[] = [];
  const divergingText: string[] = [];
  for (let i = 0; i < RAMP_STEPS; i += 1) {
    const color = rampColor(i / (RAMP_STEPS - 1), isDark);
    ramp.push(css(color));
    const ink = inkOn(color);
    const around = divergingColor((2 * i) / (RAMP_STEPS - 1) - 1, isDark);
    diverging.push(css(around));
    divergingText.push(css(inkOn(around)));
    rampText.push(css(ink));
    rampHatch.push(css(ink, 0.17));
  }
  const family = mapTable(HUES, name => familyColors(name, isDark));
  const text = readable(isDark ? oklch(0.94, 0.006, 262) : oklch(0.27, 0.02, 262), background, isDark);
  const muted = readable(isDark ? oklch(0.76, 0.015, 262) : oklch(0.48, 0.02, 262), background, isDark);
  const scopeFill = [0, 1, 2, 3].map(depth =>
    css(isDark ? oklch(0.245 + 0.022 * depth, 0.014, 262) : oklch(0.968 - 0.014 * depth, 0.009, 262))
  );
  const accent = isDark ? oklch(0.74, 0.14, 255) : oklch(0.55, 0.19, 260);
  return {
    isDark,
    isStrong: false,
    background: css(background),
    surface: css(isDark ? oklch(0.26, 0.014, 262) : [255, 255, 255]),
    text: css(text),
    muted: css(muted),
    line: css(isDark ? oklch(0.38, 0.014, 262) : oklch(0.89, 0.008, 262)),
    edge: css(isDark ? oklch(0.56, 0.02, 262) : oklch(0.68, 0.018, 262)),
    edgeLabel: css(muted),
    accent: css(accent),
    accentSoft: css(accent, 0.16),
    chosen: css(accent, 0.16),
    chosenText: css(text),
    error: css(isDark ? oklch(0.7, 0.19, 25) : oklch(0.54, 0.21, 27)),
    errorFill: css(isDark ? oklch(0.29, 0.07, 25) : oklch(0.965, 0.025, 20)),
    scopeFill,
    scopeLine: css(isDark ? oklch(0.42, 0.018, 262) : oklch(0.84, 0.014, 262)),
    boxFill: css(isDark ? oklch(0.315, 0.022, 262) : [255, 255, 255]),
    boxBorder: css(isDark ? oklch(0.52, 0.03, 262) : oklch(0.72, 0.025, 262)),
    terminalFill: css(isDark ? oklch(0.3, 0.03, 230) : oklch(0.95, 0.02, 230)),
    terminalBorder: css(isDark ? oklch(0.55, 0.06, 230) : oklch(0.72, 0.06, 230)),
    change: css(isDark ? oklch(0.79, 0.15, 168) : oklch(0.52, 0.12, 168)),
    differs: css(isDark ? oklch(0.82, 0.14, 80) : oklch(0.54, 0.13, 60)),
    chip: css(isDark ? oklch(0.75, 0.1, 85) : oklch(0.62, 0.11, 75)),
    chipText: css(isDark ? oklch(0.82, 0.03, 85) : oklch(0.42, 0.04, 75)),
    hatch: isDark ? 'rgba(255, 255, 255, 0.16)' : 'rgba(20, 24, 40, 0.13)',
    family,
    ramp,
    rampText,
    rampHatch,
    diverging,
    divergingText,
    fontUi,
    fontMono
  };
}
