// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';

import type { Timing } from '../src/core/model/timing';
import type { ITheme } from '../src/core/render/theme';
import { Legend } from '../src/core/view/hud';

function shown(hottestNs: number): string {
  const legend = new Legend();
  const theme = { ramp: ['#000', '#fff'] } as unknown as ITheme;
  const timing = { share: (ns: number) => ns / 1e7, profile: null } as unknown as Timing;
  legend.show(theme, timing, hottestNs, true);
  return legend.element.textContent ?? '';
}

describe('the legend of times', () => {
  it('has a unit in which its marks differ', () => {
    expect(shown(1_230)).toMatch(/kernel time · µs.*0\.077.*0\.307.*1\.23/);
    expect(shown(1_230_000)).toMatch(/kernel time · ms.*0\.077.*0\.307.*1\.23/);
  });
});
