/** Notes that are changed without a kernel: the steps of `tests/lab/laid.json`, which Python does too. */

import { describe, expect, it } from 'vitest';

import { NotesDesk, noteDifference } from '../../src/lab/editor/desk';
import { emptyDocument, nameOf } from '../../src/lab/editor/empty';
import { notesTextOf, placed, readNotes, withNotes } from '../../src/lab/editor/notes-text';
import { isChangeArgs, type IChangeArgs } from '../../src/proto/changes';
import { applyDifference } from '../../src/core/model/difference';
import { EMPTY_DOCUMENT } from '../../src/core/model/graph';
import { fits } from '../../src/proto/shape';

interface ICase {
  before: string;
  steps: IChangeArgs[];
  said: [string, boolean, boolean][];
  after: string;
}

declare const process: { env: Record<string, string | undefined> };

const file = process.env.MAXLAB_LAID ?? '../../../tests/lab/laid.json';
const read: { default: string } = await import(/* @vite-ignore */ `${file}?raw`);
const cases: ICase[] = JSON.parse(read.default);

function deskOf(text: string): { desk: NotesDesk; text: () => string } {
  const host = {
    text,
    put(now: string): void {
      host.text = now;
    }
  };
  return { desk: new NotesDesk(host), text: () => host.text };
}

const args = (given: Partial<IChangeArgs> & { do: IChangeArgs['do'] }): IChangeArgs => ({
  name: '',
  on: [],
  op: '',
  operand: 0,
  fields: {},
  ...given
});

describe('the desk', () => {
  it.each(cases.map((one, number) => [number, one] as const))('writes what a kernel writes: case %i', (_, one) => {
    const { desk, text } = deskOf(one.before);
    one.steps.forEach((step, number) => {
      expect(fits(isChangeArgs, step)).toBe(true);
      const answer = desk.change(step);
      expect([answer?.said, answer?.can_undo, answer?.can_redo]).toEqual(one.said[number]);
    });
    expect(text()).toBe(one.after);
    while (desk.canUndo) {
      desk.change(args({ do: 'undo' }));
    }
    expect(text()).toBe(one.before);
  });

  it('leaves what changes the graph to a kernel', () => {
    const { desk, text } = deskOf(emptyDocument('g'));
    for (const step of ['add', 'remove', 'input', 'paste', 'group', 'draft'] as const) {
      expect(desk.change(args({ do: step }))).toBeNull();
    }
    expect(text()).toBe(emptyDocument('g'));
    expect(() => desk.change(args({ do: 'comment', fields: { text: ' ' } }))).toThrow('nothing is given');
  });

  it('leads a document that is drawn to the notes of the text', () => {
    for (const { before, after } of cases) {
      const drawn = [before, after].reduce((document, text) => {
        const difference = noteDifference(document, text);
        return difference === null ? document : (applyDifference(document, difference) ?? document);
      }, EMPTY_DOCUMENT);
      const { places, folds, comments } = readNotes(notesTextOf(after));
      const byKey = (list: readonly { key: string }[]): object => Object.fromEntries(list.map(one => [one.key, one]));
      expect(byKey(drawn.places ?? [])).toEqual(byKey(places));
      expect([drawn.folds ?? {}, drawn.comments ?? []]).toEqual([folds, comments]);
      expect(noteDifference(drawn, after)).toBeNull();
    }
  });
});

describe('the text of a document', () => {
  it.each([
    '{"version":1,"graph":{"name":"a\\"}b"},"format":"maxlab.document"}',
    '\ufeff{\r\n\t"graph" : {"ops": []} ,\r\n\t"version" : 1\r\n}\r\n',
    '{"layout": {"grid": 8.0, "places": {"n0": {"x": 1e2, "y": 2, "z": 1.0}}}, "version": 1}'
  ])('keeps every byte that is not about notes: %j', text => {
    const before = notesTextOf(text);
    const laid = withNotes(text, placed(before, [{ key: 'n9', x: 1, y: 2, pinned: true }]));
    expect(readNotes(notesTextOf(laid)).places).toContainEqual({ key: 'n9', x: 1, y: 2, pinned: true });
    expect(JSON.parse(laid.trim())).toMatchObject({ version: 1 });
    expect(withNotes(laid, before)).toBe(text);
  });

  it.each([
    ['untitled.mlgraph', 'untitled'],
    ['a.b/two words.v2.mlgraph', 'two words.v2'],
    ['folder/.mlgraph', 'graph'],
    ['plain', 'graph']
  ])('calls the graph of %j %j', (path, name) => {
    expect(nameOf(path)).toBe(name);
  });
});
