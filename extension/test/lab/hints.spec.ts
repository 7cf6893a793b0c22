// @vitest-environment jsdom
import { history, redo, undo } from '@codemirror/commands';
import { EditorState, type TransactionSpec } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { IHintCall, ILineHints, ISourceHints } from '../../src/proto/hints';
import { modulesIn, typedAt } from '../../src/lab/hints/calls';
import { cardOf } from '../../src/lab/hints/card';
import { HintChannel } from '../../src/lab/hints/channel';
import { itemsFor, opsTable } from '../../src/lab/hints/ops-table';
import { checksum } from '../../src/lab/hints/crc';
import { HintedEditors } from '../../src/lab/hints/editors';
import { hintsAt, hintsField, setHints } from '../../src/lab/hints/field';
import { isOtherText, lineOf } from '../../src/lab/hints/placing';
import { callText, hintText, labelOf, markText } from '../../src/lab/hints/words';
import { answering, FakeContext } from './fake-kernel';

function call(more: Partial<IHintCall> = {}): IHintCall {
  return {
    cell: 'c1',
    run: 3,
    graph: 'g1',
    title: 'small',
    values: [{ name: 'x', types: ['float32[n, 4]'] }],
    turns: 1,
    time: null,
    ops: [{ id: 'n1', op: 'relu', type: 'float32[n, 4]', ns: null, kernel: '', kernel_name: '' }],
    count: 1,
    ...more
  };
}

function hint(text: string, line: number, more: Partial<ILineHints> = {}): ILineHints {
  const count = text.split('\n').length;
  return { line, first: line, last: line + count - 1, text, calls: [call()], marks: [], ...more };
}

/** Hints of the lines of `text` that begin with `lines`. */
function sourceOf(text: string, lines: readonly number[], path = ''): ISourceHints {
  const all = text.split('\n');
  return {
    cell: path === '' ? 'c1' : '',
    path,
    ...checksum(text),
    lines: lines.map(line => hint(all[line - 1]!, line))
  };
}

describe('the words of a hint', () => {
  const time = { least_ns: 1_200_000, most_ns: 1_200_000, share: 0.14, is_split: false };
  it.each<[string, Partial<IHintCall>]>([
    ['x: float32[n, 4]', {}],
    ['x: float32[n, 4] · 1.20 ms · 14%', { time }],
    ['x: float32[n, 4] · ×12', { turns: 12 }],
    ['x: float32[n, 4] · ×12, 0.800–1.40 ms · 14%', { turns: 12, time: { ...time, least_ns: 800_000, most_ns: 1_400_000 } }],
    ['x: float32[n, 4] · ×2, ≈0.900–1.20 ms · 14%', { turns: 2, time: { ...time, least_ns: 900_000, is_split: true } }],
    ['float32[4] | float32[8]', { values: [{ name: '', types: ['float32[4]', 'float32[8]'] }] }],
    ['a: f[1] … f[3], b: int64[]', { values: [{ name: 'a', types: ['f[1]', 'f[2]', 'f[3]'] }, { name: 'b', types: ['int64[]'] }] }]
  ])('%s', (wanted, more) => {
    expect(callText(call(more))).toBe(wanted);
  });

  it('tells calls of several cells and graphs apart', () => {
    const calls = [call(), call({ run: 5, cell: 'c2' }), call({ run: 5, cell: 'c2', title: 'other' })];
    expect(calls.map(one => labelOf(one, calls))).toEqual(['[3]', '[5] small', '[5] other']);
    expect(hintText(hint('x', 1, { calls }))).toBe(
      '[3] x: float32[n, 4]   [5] small x: float32[n, 4]   [5] other x: float32[n, 4]'
    );
    expect(hintText(hint('x', 1, { calls: [...calls, ...calls] }))).toContain('   +3');
    expect(labelOf(calls[0]!, [calls[0]!])).toBe('');
  });

  it('has the reason and the fix of what failed', () => {
    const mark = { kind: 'failed', code: 'ML201', says: 'no such thing', fix: 'make it', run: 2 } as const;
    expect(markText(mark)).toBe('An operation failed here:\nno such thing [ML201]\nFix: make it');
  });
});

describe('hints of an editor', () => {
  const TEXT = 'a = 1\nx = f(a)\n\ny = g(x)\ny = g(x)\nz = y';
  let view: EditorView;

  function open(text = TEXT, source: ISourceHints | null = sourceOf(text, [2, 4, 5])): void {
    view = new EditorView({ state: EditorState.create({ doc: text, extensions: [hintsField, history()] }) });
    view.dispatch({ effects: setHints.of(source) });
  }

  /** `line state` of each hint, in order. */
  function shown(): string[] {
    const hints = view.state.field(hintsField);
    const { doc } = view.state;
    const isOther = isOtherText(hints, doc);
    return hints.placed
      .filter(({ state }) => state !== 'gone')
      .map(one => `${lineOf(one, doc)} ${isOther ? 'stale' : one.state}`);
  }

  /** Replaces the first `from` of the document. */
  function edit(from: string, to: string, more: TransactionSpec = {}): void {
    const at = view.state.doc.toString().indexOf(from);
    view.dispatch({ changes: { from: at, to: at + from.length, insert: to }, ...more });
  }

  const START = ['2 fresh', '4 fresh', '5 fresh'];
  beforeEach(() => open());
  afterEach(() => view.destroy());

  it.each<[string, () => void, string[]]>([
    ['nothing', () => undefined, START],
    ['a line before', () => edit('a = 1', 'b = 0\na = 1'), ['3 fresh', '5 fresh', '6 fresh']],
    ['the end of the line', () => edit('f(a)', 'f(a)  # c'), ['2 stale', '4 fresh', '5 fresh']],
    ['the start of the line', () => edit('x = f', '# x = f'), ['2 stale', '4 fresh', '5 fresh']],
    ['Enter at its start', () => edit('x = f', '\nx = f'), ['3 fresh', '5 fresh', '6 fresh']],
    ['Enter at its end', () => edit('f(a)', 'f(a)\n'), ['2 fresh', '5 fresh', '6 fresh']],
    ['Enter within', () => edit('f(a)', '\nf(a)'), ['2 stale', '5 fresh', '6 fresh']],
    ['joined with the line before', () => edit('1\nx', '1x'), ['1 stale', '3 fresh', '4 fresh']],
    ['the line', () => edit('x = f(a)\n', ''), ['3 fresh', '4 fresh']],
    ['its text', () => edit('x = f(a)', ''), ['4 fresh', '5 fresh']],
    ['all', () => edit(TEXT, ''), []],
    ['all, for the same', () => edit(TEXT, TEXT), START],
    ['all, with lines before', () => edit(TEXT, `# new\n\n${TEXT}`), ['4 fresh', '6 fresh', '7 fresh']],
    ['one of two equal lines', () => edit('y = g(x)\n', ''), ['2 fresh', '4 fresh']]
  ])('follow an edit of %s, and its undo and redo', (_, change, wanted) => {
    change();
    expect(shown()).toEqual(wanted);
    undo(view);
    expect(shown()).toEqual(START);
    redo(view);
    expect(shown()).toEqual(wanted);
    undo(view);
    expect(shown()).toEqual(START);
  });

  it('are fresh again when the line is typed as it was', () => {
    edit('f(a)', 'f(ab)');
    expect(shown()[0]).toBe('2 stale');
    edit('f(ab)', 'f(a)');
    expect(shown()).toEqual(START);
  });

  it('go along with a line that is cut and pasted', () => {
    edit('x = f(a)\n', '');
    edit('z = y', 'x = f(a)\nz = y');
    expect(shown()).toEqual(['3 fresh', '4 fresh', '5 fresh']);
  });

  it('keep their places when the kernel tells more of them', () => {
    edit('a = 1', 'a = 1\nb = 2');
    edit('f(a)', 'f(b)');
    view.dispatch({ effects: setHints.of(sourceOf(TEXT, [2, 4, 5, 6])) });
    expect(shown()).toEqual(['3 stale', '5 fresh', '6 fresh', '7 fresh']);
    view.dispatch({ effects: setHints.of(null) });
    expect(shown()).toEqual([]);
  });

  it('are found by their text where the document has moved on', () => {
    open(`# new\n${TEXT.replace('x = f(a)', 'x = h(a)')}`, sourceOf(TEXT, [1, 2, 4, 5]));
    expect(shown()).toEqual(['2 fresh', '5 fresh', '6 fresh']);
  });

  it('stand at their line of a statement of several', () => {
    const text = 'y = f(\n  a\n  + b\n)\nz = y';
    const one = hint('y = f(\n  a\n  + b\n)', 1, { line: 2, first: 1, last: 4 });
    open(text, { ...sourceOf(text, []), lines: [one] });
    expect(shown()).toEqual(['2 fresh']);
    edit('+ b', '- b');
    expect(shown()).toEqual(['2 stale']);
    expect(hintsAt(view, 2)).toEqual([{ hint: one, isStale: true }]);
    expect(hintsAt(view, 1)).toEqual([]);
  });

  it('of a file are all greyed while it is not what was imported', () => {
    const source = sourceOf(TEXT, [2, 4], '/project/layer.py');
    open(TEXT, source);
    expect(shown()).toEqual(['2 fresh', '4 fresh']);
    edit('a = 1', 'a = 2');
    expect(shown()).toEqual(['2 stale', '4 stale']);
    edit('a = 2', 'a = 1');
    expect(shown()).toEqual(['2 fresh', '4 fresh']);
    open(`${TEXT}\n# é`, source);
    expect(shown()).toEqual(['2 stale', '4 stale']);
    edit('\n# é', '');
    expect(shown()).toEqual(['2 fresh', '4 fresh']);
  });
});

describe('the editors of the page', () => {
  const SOURCE = sourceOf('x = 1\ny = 2', [1, 2]);

  it('have nothing while hints are off, and theirs when they are on', async () => {
    const asked: unknown[] = [];
    const editors = new HintedEditors({ show: () => undefined }, (_view, model) => {
      asked.push(model);
      return SOURCE;
    });
    const model = {} as never;
    const view = new EditorView({ doc: 'x = 1\ny = 2', extensions: editors.extensionFor(model) });
    editors.give(view, SOURCE);
    expect(view.state.field(hintsField, false)).toBeUndefined();
    expect(asked).toEqual([]);
    editors.isOn = true;
    expect(view.dom.querySelectorAll('.jp-MaxLab-lineHint')).toHaveLength(2);
    expect(view.state.doc.toString()).toBe('x = 1\ny = 2');
    const mark = { kind: 'nan', code: '', says: 'sqrt makes NaN', fix: '', run: 1 } as const;
    const marked = { ...SOURCE, lines: SOURCE.lines.map(line => ({ ...line, marks: [mark] })) };
    editors.give(view, marked);
    expect(view.dom.querySelectorAll('.jp-MaxLab-lineMarks')).toHaveLength(1);
    editors.give(view, SOURCE);
    expect(view.dom.querySelectorAll('.jp-MaxLab-lineMarks')).toHaveLength(0);
    const late = new EditorView({ doc: 'x = 1', extensions: editors.extensionFor(model) });
    await vi.waitFor(() => expect(late.dom.querySelectorAll('.jp-MaxLab-lineHint')).toHaveLength(1));
    editors.give(view, marked);
    editors.isOn = false;
    expect(view.dom.querySelectorAll('.jp-MaxLab-lineHint, .jp-MaxLab-lineMarks')).toHaveLength(0);
    expect(view.state.field(hintsField, false)).toBeUndefined();
    late.destroy();
    view.destroy();
  });

  it('have cards that take what is told as text', () => {
    const shown: unknown[] = [];
    const view = new EditorView({ doc: 'x' });
    const evil = '<img src=x onerror=alert(1)>';
    const op = { id: 'n4', op: evil, type: evil, ns: 1200, kernel: 'k1', kernel_name: evil };
    const one = hint('x', 1, { calls: [call({ title: evil, ops: [op], count: 12 })] });
    const card = cardOf(view, 1, [{ hint: one, isStale: true }], {
      show: (_view, { graph }, ids, withSource) => shown.push(graph, ids, withSource)
    });
    expect(card.querySelector('img')).toBeNull();
    expect(card.textContent).toContain('11 more operations');
    expect(card.textContent).toContain('edited since it ran');
    card.querySelectorAll('button').forEach(button => button.click());
    expect(shown).toEqual(['g1', ['n4'], true, 'g1', ['n4'], false]);
    view.destroy();
  });
});

describe('the channel of a notebook', () => {
  let context: FakeContext & { connectionStatusChanged?: unknown };
  let channel: HintChannel;
  let sent: unknown[];
  let comm: { onMsg: (message: unknown) => void; onClose: () => void; isDisposed: boolean };
  let told: string[];
  let questions: number;
  let isServed: boolean;

  beforeEach(async () => {
    vi.useFakeTimers();
    const { Signal } = await import('@lumino/signaling');
    sent = [];
    told = [];
    questions = 0;
    isServed = false;
    context = new FakeContext();
    context.connectionStatusChanged = new Signal(context);
    const kernel = answering(() => {
      questions += 1;
      return isServed ? 'maxlab.hints' : '';
    });
    Object.assign(kernel, {
      createComm: () => {
        comm = {
          isDisposed: false,
          onMsg: () => undefined,
          onClose: () => undefined,
          open: (data: unknown) => sent.push(data),
          close: () => sent.push('close')
        } as never;
        return comm;
      }
    });
    context.session = { kernel };
    channel = new HintChannel(context.context);
    channel.changed.connect((_, sources) => {
      told.push(...sources.map(({ cell, path, lines }) => `${cell}${path} ${lines.length}`));
    });
    await vi.runAllTimersAsync();
  });
  afterEach(() => {
    channel.dispose();
    vi.useRealTimers();
  });

  const say = (revision: number, ...sources: ISourceHints[]): void =>
    comm.onMsg({ content: { data: { type: 'hints', protocol: 2, revision, sources } } });

  async function run(): Promise<void> {
    context.run();
    context.statusChanged.emit('idle');
    await vi.runAllTimersAsync();
  }

  it('asks after a cell until the kernel uses maxlab, and never again', async () => {
    expect(questions).toBe(1);
    context.statusChanged.emit('idle');
    await vi.runAllTimersAsync();
    expect(questions).toBe(1);
    isServed = true;
    await run();
    expect([questions, sent]).toEqual([2, [{ protocol: 2 }]]);
    await run();
    expect(questions).toBe(2);
  });

  it('keeps what it is told, forgets it with the kernel, and asks the new one', async () => {
    isServed = true;
    await run();
    say(0, sourceOf('x', [1]), sourceOf('y', [1], '/a.py'));
    expect(told).toEqual(['c1 1', '/a.py 1']);
    expect(channel.ofCell('c1')?.lines).toHaveLength(1);
    expect(channel.files.map(({ path }) => path)).toEqual(['/a.py']);
    say(1, { ...sourceOf('x', [1]), lines: [] });
    expect(channel.ofCell('c1')).toBeNull();
    context.statusChanged.emit('restarting');
    expect(told.slice(3)).toEqual(['/a.py 0']);
    expect(channel.files).toEqual([]);
    context.statusChanged.emit('idle');
    await vi.runAllTimersAsync();
    expect(sent.length).toBe(2);
  });

  it('asks for all again when it has missed something, and passes over what it cannot read', async () => {
    isServed = true;
    await run();
    say(0, sourceOf('x', [1]));
    comm.onMsg({ content: { data: { type: 'hints', protocol: 2, revision: 'one' } } });
    expect(channel.ofCell('c1')).not.toBeNull();
    say(7, sourceOf('x', [1]));
    await vi.runAllTimersAsync();
    expect(sent).toEqual([{ protocol: 2 }, 'close', { protocol: 2 }]);
    say(0, sourceOf('z', [1], '/z.py'));
    expect(channel.ofCell('c1')).toBeNull();
  });

  it('is told nothing more when it is switched off', async () => {
    isServed = true;
    await run();
    say(0, sourceOf('x', [1]));
    channel.dispose();
    expect(sent).toEqual([{ protocol: 2 }, 'close']);
    await run();
    expect(questions).toBe(2);
  });
});

describe('what is typed', () => {
  const IMPORT = 'from maxlab import engine, ops\n';
  const ALWAYS = ['maxlab.ops', 'maxlab.graph.ops'];
  it.each<[string, string[], string[]]>([
    ['import torch', [], []],
    [IMPORT, ['ops', ...ALWAYS], ['maxlab.nn']],
    ['from maxlab.graph import (Graph,\n  ops as O)', ['O', ...ALWAYS], ['maxlab.nn']],
    ['import maxlab as ml', [...ALWAYS, 'ml.ops', 'ml.graph.ops', 'ops'], ['maxlab.nn', 'ml.nn']],
    ['import maxlab.graph.ops as G', ['G', ...ALWAYS], ['maxlab.nn']],
    ['import maxlab.graph as G', ['G.ops', ...ALWAYS], ['maxlab.nn']],
    ['from maxlab import graph as G, nn', ['G.ops', 'ops', ...ALWAYS], ['nn', 'maxlab.nn']],
    ['import maxlab.nn as N', ['ops', ...ALWAYS], ['N', 'maxlab.nn']],
    ['import torch.nn as nn\nimport maxlab', ['ops', ...ALWAYS], ['maxlab.nn']],
    ['# maxlab\nfrom model import *', [...ALWAYS, 'ops'], ['maxlab.nn']]
  ])('%j calls ops %j and nn %j', (text, ops, nn) => {
    const found = [...modulesIn(text)];
    const called = (module: string): string[] => found.filter(pair => pair[1] === module).map(pair => pair[0]).sort();
    expect(called('ops')).toEqual([...ops].sort());
    expect(called('nn')).toEqual([...nn].sort());
  });

  const module = 'ops';
  it.each<[string, unknown]>([
    ['x = ops.so', { what: 'name', module, word: 'so' }],
    ['maxlab.ops.', { what: 'name', module, word: '' }],
    ['maxlab.nn.Li', { what: 'name', module: 'nn', word: 'Li' }],
    ['maxlab.nn.Linear(4, has', { what: 'argument', module: 'nn', call: 'Linear', word: 'has', given: new Set() }],
    ['nn.Li', null],
    ['torch.ops.so', null],
    ['ops', null],
    ['# ops.so', null],
    ["'ops.so", null],
    ['"""\nops.so', null],
    ["'it' + ops.so", { what: 'name', module, word: 'so' }],
    ['ops.softmax(', { what: 'argument', module, call: 'softmax', word: '', given: new Set() }],
    ['ops.softmax(f(a, [1, 2]), ax', { what: 'argument', module, call: 'softmax', word: 'ax', given: new Set() }],
    ['ops.softmax(\n  y,  # the ) one\n  axis=1, v', { what: 'argument', module, call: 'softmax', word: 'v', given: new Set(['axis']) }],
    ['ops.softmax(y)', null],
    ['ops.softmax(f(', null],
    ['ops.softmax(y == ', null],
    ['ops.sort(y, descending=', { what: 'value', module, call: 'sort', argument: 'descending', word: '' }],
    ['ops.cast(y, dtype=DType.fl', { what: 'value', module, call: 'cast', argument: 'dtype', word: 'DType.fl' }],
    ['ops.sort(ops.ab', { what: 'name', module, word: 'ab' }]
  ])('%j', (before, wanted) => {
    expect(typedAt(before, modulesIn(IMPORT))).toEqual(wanted);
  });

  it('is completed from the table', async () => {
    const table = await opsTable();
    const labels = (before: string): string[] =>
      itemsFor(typedAt(before, modulesIn(IMPORT))!, table).map(({ label }) => label);
    expect(labels('ops.softm')).toEqual(['softmax']);
    expect(labels('ops.').length + labels('maxlab.nn.').length).toBe(table.size);
    expect(labels('ops.')).not.toContain('Linear');
    expect(labels('maxlab.nn.Lin')).toEqual(['Linear', 'LinearV1']);
    expect(labels('maxlab.nn.Linear(4, has')).toEqual(['has_bias=']);
    expect(labels('ops.softmax(y, ')).toEqual(['value=', 'axis=']);
    expect(labels('ops.sort(y, descending=')).toEqual(['True', 'False']);
    expect(labels('ops.cast(y, dtype=DType.float3')).toEqual(['DType.float32']);
    expect(labels('ops.there_is_none(')).toEqual([]);
    const [item] = itemsFor({ what: 'name', module, word: 'relu' }, table);
    expect(item?.documentation).toMatch(/^ops\.relu\(x\)\n\n\w/);
  });

  it('has the checksum of the kernel', () => {
    expect(checksum('maxlab')).toEqual({ length: 6, crc: 2447770495 });
    expect(checksum('é🎉')).toEqual({ length: 6, crc: checksum('é🎉').crc });
  });
});
