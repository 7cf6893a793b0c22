/**
 * Text for people, of a file that anybody may have written: paragraphs, headings, lists, bold, slanted and
 * code, as in Markdown. Whatever else it holds, HTML above all, is shown as the text that it is.
 */

import { el } from './dom';

const INLINE = /`([^`]+)`|\*\*(?=\S)([^*]*[^*\s])\*\*|\*(?=\S)([^*]*[^*\s])\*/g;

/** `text`, a line, as nodes. */
function inline(text: string): Node[] {
  const nodes: Node[] = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, code, bold, slanted] = match;
    nodes.push(document.createTextNode(text.slice(at, match.index)));
    if (code !== undefined) {
      nodes.push(el('code', '', code));
    } else if (bold !== undefined) {
      nodes.push(el('strong', '', bold));
    } else {
      nodes.push(el('em', '', slanted ?? ''));
    }
    at = match.index + whole.length;
  }
  nodes.push(document.createTextNode(text.slice(at)));
  return nodes;
}

const ITEM = /^(?:[-*]|\d+\.) +/;

/** The elements of a text. */
export function prose(text: string): HTMLElement[] {
  return text
    .split(/\n{2,}/)
    .map(block => block.trim())
    .filter(block => block !== '')
    .map(block => {
      const heading = /^#{1,6} +(.*)$/.exec(block);
      if (heading !== null) {
        return el('h3', '', ...inline(heading[1] ?? ''));
      }
      const lines = block.split('\n');
      if (lines.every(line => ITEM.test(line))) {
        const list = el(/^\d/.test(block) ? 'ol' : 'ul', '');
        list.append(...lines.map(line => el('li', '', ...inline(line.replace(ITEM, '')))));
        return list;
      }
      return el('p', '', ...inline(lines.join(' ')));
    });
}
