// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';

import { type Timing, heatOf, shareAt } from '../src/core/model/timing';
import { scaleOfTimes } from '../src/core/model/scale';
import { Legend } from '../src/core/view/hud';

function shown(totalNs: number): string {
  const legend = new Legend();
  const theme = { ramp: ['#000', '#fff'], diverging: [] };
  legend.show(scaleOfTimes(theme, { totalNs, profile: null } as unknown as Timing));
  return legend.element.textContent ?? '';
}

describe('the legend of times', () => {
  it('has a unit in which its marks differ', () => {
    expect(shown(123_000)).toMatch(/kernel time · µs.*0\.123.*0\.1%.*1\.23.*1\.0%.*12\.3.*10%.*123.*100%/);
    expect(shown(12_300_000)).toMatch(/kernel time · ms.*0\.012.*0\.123.*1\.23.*12\.3/);
  });

  it('names the whole that its shares are of', () => {
    expect(shown(123_000)).toContain('share of all kernels');
  });
});

describe('the scale of colours', () => {
  it('has a factor of ten in each third', () => {
    expect([0.001, 0.01, 0.1, 1].map(share => Math.round(3 * heatOf(share)))).toEqual([0, 1, 2, 3]);
    expect([0, 1e-9, 2].map(heatOf)).toEqual([0, 0, 1]);
    for (const place of [0, 0.2, 0.9, 1]) {
      expect(heatOf(shareAt(place))).toBeCloseTo(place);
    }
  });
});
