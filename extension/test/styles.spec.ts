/** Panels add their styles to the page when they open: none of them may restyle the view around. */

import { describe, expect, it } from 'vitest';

import { STYLES } from '../src/core/view/css';
import { PANELS } from '../src/core/view/panels';

/** Classes that a rule styles wherever they are: selectors that begin and end with one class. */
function alone(css: string): Set<string> {
  const found = new Set<string>();
  const plain = css.replace(/\/\*[^]*?\*\//g, '').replace(/:is\([^()]*\)/g, ':is').replace(/@media[^{]*\{([^{}]*\{[^{}]*\})*[^{}]*\}/g, '');
  for (const [, selectors] of plain.matchAll(/([^{}]+)\{[^{}]*\}/g)) {
    for (const selector of selectors!.split(',')) {
      const match = /^\s*\.(jp-MaxLab-\w+)\s*$/.exec(selector);
      if (match !== null) {
        found.add(match[1]!);
      }
    }
  }
  return found;
}

describe('styles of panels', () => {
  const own = alone(STYLES);

  it('finds classes', () => {
    expect(own.has('jp-MaxLab-sideHead')).toBe(true);
    expect(own.size).toBeGreaterThan(50);
  });

  it.each(PANELS.map(panel => [panel.id, panel.css]))('%s restyles nothing of the view', (_, css) => {
    expect([...alone(css)].filter(name => own.has(name))).toEqual([]);
  });
});
