/** The surface that writes SVG. */

import { describe, expect, it } from 'vitest';

import { SvgSurface } from '../src/core/render/svg';

function surface(): SvgSurface {
  return new SvgSurface({ font: '', measureText: text => ({ width: text.length }) });
}

describe('SVG', () => {
  it('writes paths, and text as text', () => {
    const made = surface();
    made.fillStyle = '#fff';
    made.beginPath();
    made.roundRect(0, 0, 10, 20, 4);
    made.fill();
    made.font = '600 13px sans-serif';
    made.textAlign = 'center';
    made.textBaseline = 'middle';
    made.fillText('matmul', 5, 6);
    const text = made.text(100, 50, 'graph');
    expect(text).toContain('<path d="M4 0h2a4 4 0 0 1 4 4v12');
    expect(text).toContain('.f0{font:600 13px sans-serif}');
    expect(text).toContain('text-anchor="middle" dominant-baseline="central">matmul</text>');
    expect(text).toContain('viewBox="0 0 100 50"');
  });

  it('lets no name become markup', () => {
    const made = surface();
    const hostile = '</text><script>alert(1)</script>" onload=\'x\' \u0000\uD800&';
    made.fillText(hostile, 0, 0);
    const text = made.text(1, 1, hostile);
    expect(text).not.toContain('<script');
    expect(text).not.toContain('"' + ' onload');
    expect(text).not.toContain('\u0000');
    expect(text).not.toContain('\uD800');
    expect(text).toContain('&#60;script&#62;');
  });

  it('clips what is drawn until it is restored', () => {
    const made = surface();
    made.save();
    made.beginPath();
    made.rect(0, 0, 5, 5);
    made.clip();
    made.fillRect(0, 0, 9, 9);
    made.restore();
    made.fillRect(1, 1, 2, 2);
    const text = made.text(9, 9, '');
    expect(text).toContain('<clipPath id="c0"><path d="M0 0h5v5h-5Z"/></clipPath>');
    expect(text.match(/clip-path="url\(#c0\)"/g)).toHaveLength(1);
  });
});
