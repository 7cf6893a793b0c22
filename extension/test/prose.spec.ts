// @vitest-environment jsdom
/** Text of strangers is drawn as text. */

import { describe, expect, it } from 'vitest';

import { prose } from '../src/core/view/prose';

const html = (text: string): string => prose(text).map(node => node.outerHTML.replace(/ class=""/g, '')).join('');

describe('prose', () => {
  it('makes paragraphs, headings and lists', () => {
    expect(html('one\nline\n\n## Two\n\n- a\n- b\n\n1. c\n2. d')).toBe(
      '<p>one line</p><h3>Two</h3>' +
        '<ul><li>a</li><li>b</li></ul>' +
        '<ol><li>c</li><li>d</li></ol>'
    );
  });

  it('makes code, bold and slanted of a line', () => {
    expect(html('a `b*c*` **d** *e*')).toBe(
      '<p>a <code>b*c*</code> <strong>d</strong> <em>e</em></p>'
    );
  });

  it('shows HTML as the text that it is', () => {
    const evil = '<img src=x onerror=alert(1)> **<script>x</script>** [a](javascript:b)';
    const [made] = prose(evil);
    expect(made?.querySelector('img, script, a')).toBeNull();
    expect(made?.textContent).toBe('<img src=x onerror=alert(1)> <script>x</script> [a](javascript:b)');
  });

  it('shows signs that stand alone as they are', () => {
    expect(html('2 * 3 and ** and `')).toBe('<p>2 * 3 and ** and `</p>');
    expect(html('')).toBe('');
  });
});
