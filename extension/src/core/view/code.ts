/** Generated C as DOM: numbered lines, own syntax colours, the lines of one node marked. */

import { copyText } from './copying';
import type { LineSpan } from '../../proto/document';
import { button, el, icon } from './dom';

const TOKEN =
  /(\/\/.*$|\/\*.*?(?:\*\/|$))|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(^\s*#.*$)|(\b(?:0[xX][\da-fA-F.]+(?:p[+-]?\d+)?|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)[uUlLfF]*\b)|([A-Za-z_]\w*)/g;

const KEYWORDS = new Set(
  ('if else for while do return break continue switch case default static const restrict inline ' +
    'sizeof struct typedef goto volatile extern __restrict __restrict__ __attribute__ register ' +
    '__global__ __device__ __shared__ __launch_bounds__ __align__ threadIdx blockIdx blockDim gridDim static_assert').split(' ')
);

const TYPES = new Set(
  ('void int long float double char unsigned signed short size_t i64 i32 u8 i8 u16 u32 u64 int8_t ' +
    'int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t bool mx_ctx f32 f64 mx_bf16 mx_f16').split(' ')
);

/** A longer text is cut: nobody reads it here, and the page stays quick. */
const MAX_LINES = 4000;

interface IState {
  inComment: boolean;
}

/** The coloured pieces of one line, as text and class. */
export function tokenize(line: string, state: IState): [string, string][] {
  const pieces: [string, string][] = [];
  let rest = line;
  let offset = 0;
  if (state.inComment) {
    const end = line.indexOf('*/');
    if (end < 0) {
      return [[line, 'comment']];
    }
    pieces.push([line.slice(0, end + 2), 'comment']);
    offset = end + 2;
    rest = line.slice(offset);
    state.inComment = false;
  }
  let at = 0;
  TOKEN.lastIndex = 0;
  for (const match of rest.matchAll(TOKEN)) {
    const text = match[0];
    if (match.index > at) {
      pieces.push([rest.slice(at, match.index), '']);
    }
    at = match.index + text.length;
    if (match[1] !== undefined) {
      pieces.push([text, 'comment']);
      state.inComment = text.startsWith('/*') && !text.endsWith('*/');
    } else if (match[2] !== undefined) {
      pieces.push([text, 'string']);
    } else if (match[3] !== undefined) {
      pieces.push([text, 'macro']);
    } else if (match[4] !== undefined) {
      pieces.push([text, 'number']);
    } else if (KEYWORDS.has(text)) {
      pieces.push([text, 'keyword']);
    } else if (TYPES.has(text)) {
      pieces.push([text, 'type']);
    } else {
      pieces.push([text, /^\s*\(/.test(rest.slice(at)) ? 'call' : '']);
    }
  }
  if (at < rest.length) {
    pieces.push([rest.slice(at), '']);
  }
  return pieces;
}

/** A block with a copy button; lines of the nodes in `marked` are highlighted and scrolled to. */
export function codeBlock(
  text: string,
  spans: readonly LineSpan[],
  marked: ReadonlySet<string>,
  language = 'C'
): HTMLElement {
  const lines = text.replace(/\n$/, '').split('\n');
  const shown = lines.slice(0, MAX_LINES);
  const isMarked = new Array<boolean>(shown.length).fill(false);
  for (const [first, last, node] of spans) {
    if (marked.has(node)) {
      isMarked.fill(true, Math.max(0, first - 1), Math.min(shown.length, last));
    }
  }
  const body = el('div', 'jp-MaxLab-codeLines');
  const state: IState = { inComment: false };
  const marks: HTMLElement[] = [];
  shown.forEach((line, i) => {
    const row = el('div', isMarked[i] === true ? 'jp-MaxLab-codeLine jp-mod-marked' : 'jp-MaxLab-codeLine');
    const number = el('span', 'jp-MaxLab-codeNumber', String(i + 1));
    number.setAttribute('aria-hidden', 'true');
    const content = el('span', 'jp-MaxLab-codeText');
    for (const [piece, kind] of tokenize(line, state)) {
      content.append(kind === '' ? piece : el('span', `jp-MaxLab-tok-${kind}`, piece));
    }
    row.append(number, content);
    body.append(row);
    if (isMarked[i] === true) {
      marks.push(row);
    }
  });
  if (lines.length > MAX_LINES) {
    body.append(el('div', 'jp-MaxLab-note', `… ${lines.length - MAX_LINES} more lines (Copy takes all)`));
  }
  const scroller = el('div', 'jp-MaxLab-codeScroll', body);
  scroller.tabIndex = 0;
  scroller.setAttribute('role', 'region');
  scroller.setAttribute('aria-label', `Generated ${language}`);
  const copy = button('jp-MaxLab-iconButton jp-MaxLab-copy', `Copy the generated ${language}`, () => {
    void copyText(text).then(done => {
      copy.classList.toggle('jp-mod-done', done);
      setTimeout(() => copy.classList.remove('jp-mod-done'), 1200);
    });
  });
  copy.append(icon('copy'));
  const head = el('div', 'jp-MaxLab-codeHead', el('span', '', `generated ${language} · ${lines.length} lines`), copy);
  const block = el('div', 'jp-MaxLab-code', head, scroller);
  const [row] = marks;
  if (row !== undefined) {
    requestAnimationFrame(() => {
      scroller.scrollTop = Math.max(0, row.offsetTop - 40);
    });
  }
  return block;
}
