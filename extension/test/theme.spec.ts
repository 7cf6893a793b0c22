/** Heat says the same in every theme, and everything that is written can be read. */

import { describe, expect, it } from 'vitest';

import { contrast, css, parseColor, type Rgb } from '../src/core/render/color';
import { highContrast, makeTheme, strengthened, type ITheme } from '../src/core/render/theme';
import { TONES, toneColors } from '../src/core/render/tones';

const rgb = (color: string): Rgb => parseColor(color) ?? [0, 0, 0];

const LIGHT = makeTheme(false, [255, 255, 255]);
const DARK = makeTheme(true, [17, 17, 17]);
/** A palette that a system may force: yellow on black. */
const FORCED = strengthened(makeTheme(true, [0, 0, 0]), {
  page: [0, 0, 0],
  text: [255, 255, 0],
  accent: [26, 235, 255],
  accentText: [0, 0, 0],
  link: [0, 255, 0]
});

const THEMES: [string, ITheme][] = [
  ['light', LIGHT],
  ['dark', DARK],
  ['our own light', makeTheme(false, null)],
  ['our own dark', makeTheme(true, null)],
  ['light high contrast', highContrast(LIGHT)],
  ['dark high contrast', highContrast(DARK)],
  ['forced', FORCED]
];

/** The hue of a colour in HSV, in degrees. */
function hue([r, g, b]: Rgb): number {
  const most = Math.max(r, g, b);
  const range = most - Math.min(r, g, b);
  const sector = most === r ? ((g - b) / range + 6) % 6 : most === g ? (b - r) / range + 2 : (r - g) / range + 4;
  return 60 * sector;
}

describe.each(THEMES)('heat in the theme %s', (_, theme) => {
  it('stands out more from the page the more there is of it', () => {
    const steps = theme.ramp.map(color => contrast(rgb(color), rgb(theme.background)));
    steps.slice(1).forEach((step, i) => expect(step).toBeGreaterThan(steps[i]!));
    expect(steps[steps.length - 1]).toBeGreaterThan(4.5);
  });

  it('can be written on', () => {
    theme.ramp.forEach((color, i) =>
      expect(contrast(rgb(theme.rampText[i]!), rgb(color))).toBeGreaterThanOrEqual(4.5)
    );
  });
});

it('means the same heat by a hue in the light and in the dark', () => {
  const warm = (theme: ITheme): number[] => theme.ramp.slice(8).map(color => hue(rgb(color)));
  const dark = warm(DARK);
  warm(LIGHT).forEach((one, i) => {
    const apart = Math.abs(one - dark[i]!);
    expect(Math.min(apart, 360 - apart)).toBeLessThan(25);
  });
});

describe.each(THEMES.filter(([, theme]) => theme.isStrong))('the theme %s', (_, theme) => {
  it('has text, lines and choices of high contrast', () => {
    const page = rgb(theme.background);
    for (const color of [theme.text, theme.muted, theme.line, theme.edge, theme.boxBorder]) {
      expect(contrast(rgb(color), page)).toBeGreaterThanOrEqual(7);
    }
    expect(contrast(rgb(theme.accent), page)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(rgb(theme.chosenText), rgb(theme.chosen))).toBeGreaterThanOrEqual(4.5);
    expect(contrast(rgb(theme.change), page)).toBeGreaterThanOrEqual(4.5);
  });

  it('writes notes where they can be read, and borders them visibly', () => {
    for (const tone of TONES) {
      const { fill, border } = toneColors(tone, theme);
      expect(contrast(rgb(theme.text), rgb(fill))).toBeGreaterThanOrEqual(7);
      expect(contrast(rgb(border), rgb(theme.background))).toBeGreaterThanOrEqual(4.5);
    }
  });
});

it('marks a choice by the text where the accent of the system cannot be seen', () => {
  const pale = strengthened(LIGHT, {
    page: [255, 255, 255],
    text: [0, 0, 0],
    accent: [250, 250, 210],
    accentText: [0, 0, 0],
    link: [0, 0, 200]
  });
  expect(pale.accent).toBe(css([0, 0, 0]));
});
