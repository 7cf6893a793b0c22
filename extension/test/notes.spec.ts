/** Comments in pictures of the graph that are files. */

import { describe, expect, it } from 'vitest';

import { linesOf, paintNote } from '../src/core/render/notes';
import { SvgSurface } from '../src/core/render/svg';
import { makeTheme } from '../src/core/render/theme';

const surface = (): SvgSurface => new SvgSurface({ font: '', measureText: text => ({ width: 6 * text.length }) });

describe('a comment in a picture', () => {
  it('breaks its lines where they would not fit, and long words anywhere', () => {
    expect(linesOf(surface(), 'try gelu here\nlater', 48)).toEqual(['try gelu', 'here', 'later']);
    expect(linesOf(surface(), 'abcdefghij', 24)).toEqual(['abcd', 'efgh', 'ij']);
    expect(linesOf(surface(), '', 24)).toEqual(['']);
  });

  it('is a card with all of its text, which is no markup', () => {
    const made = surface();
    paintNote(made, makeTheme(false, null), { text: 'try <b>gelu</b>\nhere', x: 10, y: 20, w: 140, h: 44, scale: 1 });
    const text = made.text(200, 100, 'graph');
    expect(text).toContain('try &#60;b&#62;gelu&#60;/b&#62;</text>');
    expect(text).toContain('>here</text>');
    expect(text).not.toContain('<b>');
  });

  it('is a mark without text from far away', () => {
    const made = surface();
    paintNote(made, makeTheme(true, null), { text: 'far', x: 0, y: 0, w: 12, h: 10, scale: 0 });
    expect(made.text(20, 20, 'graph')).not.toContain('far');
  });
});
