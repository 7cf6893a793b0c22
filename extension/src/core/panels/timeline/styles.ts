/**
 * Colours of slices: kernels by the family of what they compute, as in the graph, or by their time;
 * everything else by the kind of its track. A pattern says the same as the colour where it can be
 * mistaken: transfers, compiling and Python are hatched, and so are hot kernels, the denser the hotter.
 */

import { FAMILY_NAMES } from '../../model/families';
import { heatOf } from '../../model/timing';
import { contrast, css, parseColor, type Rgb } from '../../render/color';
import type { ITheme } from '../../render/theme';
import type { TrackKind } from './data';
import type { StyleOf } from './merge';
import type { TimelineModel } from './model';
import { at, keysOf } from '../../narrow';
import { num } from '../../num';

export type Pattern = 'none' | 'rising' | 'falling' | 'dots' | 'level' | 'cross';

export interface ISliceStyle {
  fill: string;
  /** Readable on `fill`. */
  text: string;
  pattern: Pattern;
  /** For the legend. */
  name: string;
}

export type ColorBy = 'family' | 'time';

const FAMILIES = keysOf(FAMILY_NAMES);

const KIND_NAMES: Record<TrackKind, string> = {
  thread: 'other work of a thread',
  stream: 'other work of a stream',
  transfer: 'transfer',
  compile: 'compiling',
  python: 'Python'
};

const KIND_PATTERNS: Record<TrackKind, Pattern> = {
  thread: 'level',
  stream: 'level',
  transfer: 'rising',
  compile: 'dots',
  python: 'falling'
};

const KINDS = keysOf(KIND_NAMES);

/** Bands of heat: from which share of all kernels on, and how that is hatched. */
const HEAT: readonly { share: number; pattern: Pattern; name: string }[] = [
  { share: 0, pattern: 'none', name: 'under 1% of all kernels' },
  { share: 0.01, pattern: 'level', name: '1–3%' },
  { share: 0.03, pattern: 'dots', name: '3–10%' },
  { share: 0.1, pattern: 'rising', name: '10–30%' },
  { share: 0.3, pattern: 'cross', name: 'over 30%' }
];

/** Neighbours in a flame of calls differ by a shade. */
const SHADES = 3;

function textOn(fill: string): string {
  const rgb = parseColor(fill) ?? [128, 128, 128];
  const dark: Rgb = [0, 0, 0];
  const light: Rgb = [255, 255, 255];
  return css(contrast(rgb, dark) >= contrast(rgb, light) ? dark : light);
}

function mix(a: string, b: string, part: number): string {
  const x = parseColor(a) ?? [128, 128, 128];
  const y = parseColor(b) ?? [128, 128, 128];
  const between = (v: number, w: number): number => Math.round(v + (w - v) * part);
  return css([between(x[0], y[0]), between(x[1], y[1]), between(x[2], y[2])]);
}

/** The styles of a timeline, the one of each slice, and those that occur. */
export interface IStyling {
  styles: readonly ISliceStyle[];
  styleOf: StyleOf;
  legend: readonly ISliceStyle[];
}

/** Reads a CSS colour; null when it is none. */
export type ReadColor = (text: string) => Rgb | null;

/** Colours that users gave to spans, beyond these, are not drawn: styles are numbered in a byte. */
const MAX_COLORS = 100;

export function makeStyling(
  data: TimelineModel,
  theme: ITheme,
  by: ColorBy,
  readColor: ReadColor = parseColor
): IStyling {
  const styles: ISliceStyle[] = [];
  const add = (fill: string, pattern: Pattern, name: string): number => {
    styles.push({ fill, text: textOn(fill), pattern, name });
    return styles.length - 1;
  };
  const byKernel =
    by === 'family' ? familyStyles(data, theme, add) : heatStyles(data, theme, add);
  const kindFill: Record<TrackKind, string> = {
    thread: theme.muted,
    stream: theme.muted,
    transfer: theme.terminalBorder,
    compile: theme.chip,
    python: theme.edge
  };
  const byKind = KINDS.map(kind =>
    Array.from({ length: SHADES }, (_, shade) =>
      add(mix(kindFill[kind], theme.surface, 0.2 * shade), KIND_PATTERNS[kind], KIND_NAMES[kind])
    )
  );
  const { timeline } = data;
  const kindOf = timeline.tracks.map(track => at(byKind, KINDS.indexOf(track.kind)));
  const { kernel, track, name } = timeline;
  const byName = colorStyles(data, readColor, add);
  const styleOf: StyleOf = slice => {
    const k = num(kernel[slice]);
    if (k >= 0) {
      return num(byKernel[k]);
    }
    const own = num(byName[num(name[slice])]);
    if (own >= 0) {
      return own;
    }
    const shades = at(kindOf, num(track[slice]));
    return num(shades[num(name[slice]) % SHADES]);
  };
  return { styles, styleOf, legend: legendOf(data, styles, byKernel, kindOf) };
}

type Add = (fill: string, pattern: Pattern, name: string) => number;

/** For each name the style of the colour that the user gave to its spans, or -1. */
function colorStyles(data: TimelineModel, readColor: ReadColor, add: Add): Int16Array {
  const { names, colors } = data.timeline;
  const made = new Map<string, number>();
  const found = new Int16Array(names.length).fill(-1);
  names.forEach((name, index) => {
    const wanted = colors.get(name);
    const rgb = wanted === undefined ? null : readColor(wanted);
    if (rgb === null) {
      return;
    }
    const fill = css(rgb);
    if (!made.has(fill) && made.size < MAX_COLORS) {
      made.set(fill, add(fill, KIND_PATTERNS.python, KIND_NAMES.python));
    }
    found[index] = made.get(fill) ?? -1;
  });
  return found;
}

function familyStyles(data: TimelineModel, theme: ITheme, add: Add): number[] {
  const styles = new Map(
    FAMILIES.map(family => [
      family,
      add(theme.family[family].stripe, 'none', FAMILY_NAMES[family])
    ])
  );
  return data.timeline.kernels.map(id => num(styles.get(data.familyOf(id))));
}

/** The scale of the graph, whose colours say a kernel's share of all of them, in bands. */
function heatStyles(data: TimelineModel, theme: ITheme, add: Add): number[] {
  const { timing } = data;
  const bands = HEAT.map(({ share, pattern, name }, i) => {
    const next = HEAT[i + 1]?.share ?? 1;
    const t = (heatOf(share) + heatOf(next)) / 2;
    const fill = at(theme.ramp, Math.round(t * (theme.ramp.length - 1)));
    return add(fill, pattern, name);
  });
  return data.timeline.kernels.map(id => {
    const share = timing.share(timing.kernel(id)?.ns ?? 0);
    const above = HEAT.findIndex(band => band.share > share);
    return num(bands[(above < 0 ? HEAT.length : above) - 1]);
  });
}

function legendOf(
  data: TimelineModel,
  styles: readonly ISliceStyle[],
  byKernel: readonly number[],
  kindOf: readonly (readonly number[])[]
): ISliceStyle[] {
  const used = new Set<number>();
  const { n, kernel, track } = data.timeline;
  const seenKernels = new Uint8Array(byKernel.length);
  const seenTracks = new Uint8Array(kindOf.length);
  for (let i = 0; i < n; i += 1) {
    const k = num(kernel[i]);
    if (k >= 0) {
      seenKernels[k] = 1;
    } else {
      seenTracks[num(track[i])] = 1;
    }
  }
  byKernel.forEach((style, k) => seenKernels[k] === 1 && used.add(style));
  kindOf.forEach((shades, t) => seenTracks[t] === 1 && used.add(at(shades, 0)));
  const names = new Map<string, ISliceStyle>();
  for (const index of [...used].sort((a, b) => a - b)) {
    const style = at(styles, index);
    names.set(style.name, names.get(style.name) ?? style);
  }
  return [...names.values()];
}

/** CSS background of a legend entry that looks like the pattern on the canvas. */
export function patternCss(style: ISliceStyle): string {
  const line = style.text === 'rgb(0, 0, 0)' ? 'rgba(0, 0, 0, 0.45)' : 'rgba(255, 255, 255, 0.5)';
  const stripes = (angle: number): string =>
    `repeating-linear-gradient(${angle}deg, transparent 0 3px, ${line} 3px 4px)`;
  switch (style.pattern) {
    case 'rising':
      return `${stripes(-45)}, ${style.fill}`;
    case 'falling':
      return `${stripes(45)}, ${style.fill}`;
    case 'level':
      return `${stripes(0)}, ${style.fill}`;
    case 'cross':
      return `${stripes(45)}, ${stripes(-45)}, ${style.fill}`;
    case 'dots':
      return `radial-gradient(${line} 1px, transparent 1.3px) 0 0 / 4px 4px, ${style.fill}`;
    default:
      return style.fill;
  }
}
