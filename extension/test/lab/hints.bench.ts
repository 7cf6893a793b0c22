// @vitest-environment jsdom
/**
 * What a keystroke costs in an editor of 2,000 lines, each with a hint, and in one without hints:
 *
 *     jlpm vitest bench --run test/lab/hints.bench.ts
 */

import { EditorView } from '@codemirror/view';
import { bench, describe } from 'vitest';

import { checksum } from '../../src/lab/hints/crc';
import { HintedEditors } from '../../src/lab/hints/editors';
import type { ISourceHints } from '../../src/proto/hints';

const LINES = Array.from({ length: 2000 }, (_, n) => `y${n} = ops.relu(y${n} @ weight)`);
const TEXT = LINES.join('\n');

function source(path: string): ISourceHints {
  return {
    cell: path === '' ? 'c' : '',
    path,
    ...checksum(TEXT),
    lines: LINES.map((text, n) => ({
      line: n + 1,
      first: n + 1,
      last: n + 1,
      text,
      marks: [],
      calls: [
        {
          cell: 'c',
          run: 1,
          graph: 'g1',
          title: 'g',
          values: [{ name: `y${n}`, types: ['float32[batch, 10]'] }],
          turns: 1,
          time: { least_ns: 1200, most_ns: 1200, share: 0.01, is_split: false },
          ops: [],
          count: 1
        }
      ]
    }))
  };
}

/** A function that types a letter in the middle of an editor with these hints, or deletes it again. */
function typing(hints: ISourceHints | null, isOn: boolean): () => void {
  const editors = new HintedEditors({ show: () => undefined }, () => hints);
  editors.isOn = isOn;
  const view = new EditorView({ doc: TEXT, extensions: editors.extensionFor({} as never), parent: document.body });
  if (hints !== null) {
    editors.give(view, hints);
  }
  if (hints?.path !== '') {
    // A file that is as it was imported has other hints after one letter; that is once.
    view.dispatch({ changes: { from: 0, insert: '# edited\n' } });
  }
  const at = view.state.doc.line(1000).to;
  let isTyped = false;
  return () => {
    view.dispatch({ changes: isTyped ? { from: at, to: at + 1 } : { from: at, insert: 'x' } });
    isTyped = !isTyped;
  };
}

describe('a keystroke in 2,000 lines', () => {
  bench('hints off', typing(null, false));
  bench('hints on, none in the editor', typing(null, true));
  bench('2,000 hints of a cell', typing(source(''), true));
  bench('2,000 hints of a file', typing(source('/project/layer.py'), true));
});
