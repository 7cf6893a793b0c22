import { describe, expect, it } from 'vitest';

import { scaleOfNumbers, scaleOfTones } from '../src/core/model/scale';
import { LEGEND_HEIGHT, legendWidth, paintLegend } from '../src/core/render/legend';
import { SvgSurface } from '../src/core/render/svg';
import { makeTheme } from '../src/core/render/theme';

const ramps = { ramp: ['#111', '#222', '#333', '#444'], diverging: ['#00f', '#fff', '#f00'] };
const errors = {
  title: 'error',
  unit: 'ulp',
  low: -2,
  high: 6,
  colors: 'diverging',
  combine: 'max',
  values: {},
  scopes: {}
} as const;

describe('the legend of a picture', () => {
  it('has the title, the unit, the ends and the middle, and every colour', () => {
    const surface = new SvgSurface({ font: '', measureText: text => ({ width: 6 * text.length }) });
    const scale = scaleOfNumbers(ramps, errors);
    paintLegend(surface, makeTheme(false, null), scale, 100, legendWidth(scale));
    const text = surface.text(legendWidth(scale), 100 + LEGEND_HEIGHT, 'g');
    for (const wanted of ['error · ulp', '>−2<', '>0<', '>6<', '#00f', '#fff', '#f00', 'the greatest']) {
      expect(text).toContain(wanted);
    }
  });

  it('is as wide as its words', () => {
    const long = 'numbers of which the title is longer than the bar of colours is wide';
    const [narrow, wide] = [errors, { ...errors, title: long }].map(one => legendWidth(scaleOfNumbers(ramps, one)));
    expect(narrow).toBe(300);
    expect(wide).toBeGreaterThan(350);
  });

  it('is words alone where tones are named', () => {
    expect(scaleOfTones('')).toBeNull();
    expect(scaleOfTones('red is wrong')).toMatchObject({ title: 'red is wrong', colors: [] });
  });
});
