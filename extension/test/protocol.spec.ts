/** The protocol from the page's side; `tests/lab/test_protocol.py` reads the same table from Python's. */

import { describe, expect, it } from 'vitest';

import document from '../../tests/lab/document-1.json?raw';
import messages from '../../tests/lab/messages.json?raw';
import { readAnswer } from '../src/proto/answers';
import { readMessage } from '../src/proto/border';
import { isDashboardClientMessage, isDashboardServerMessage, isMachineNow } from '../src/proto/dashboard';
import { isGraphDocument } from '../src/proto/document';
import { isEditorClientMessage, isEditorOpen, isEditorServerMessage } from '../src/proto/editor';
import { isHintsMessage, isHintsOpen } from '../src/proto/hints';
import { isLiveListing } from '../src/proto/live';
import { PROTOCOL, isCellCancel, isCellProgress, isClientMessage, isServerMessage } from '../src/proto/messages';
import { parseDocument } from '../src/proto/parse';
import { ANSWERS, type QuestionName } from '../src/proto/questions';
import { ShapeError, Trail, anyOf, isNumber, isText, list, optional, record, type Shape } from '../src/proto/shape';
import { upgraded } from '../src/proto/upgrade';
import { runsOf } from '../src/core/panels/runs/data';
import { planOf } from '../src/core/panels/memory/plan';
import { rooflineOf } from '../src/core/panels/roofline/data';
import { timelineOf } from '../src/core/panels/timeline/data';

interface ITable {
  good: Record<string, unknown[]>;
  answers: Record<QuestionName, unknown[]>;
  bad: { type: string; message: unknown; problem: string }[];
}

const TABLE = JSON.parse(messages) as ITable;
const OLD = JSON.parse(document) as Record<string, unknown> & { answers: Record<string, unknown> };

const SHAPES: Record<string, Shape<unknown>> = {
  ClientMessage: isClientMessage,
  ServerMessage: isServerMessage,
  DashboardClientMessage: isDashboardClientMessage,
  DashboardServerMessage: isDashboardServerMessage,
  EditorOpen: isEditorOpen,
  EditorClientMessage: isEditorClientMessage,
  EditorServerMessage: isEditorServerMessage,
  MachineNow: isMachineNow,
  CellProgress: isCellProgress,
  CellCancel: isCellCancel,
  HintsOpen: isHintsOpen,
  HintsMessage: isHintsMessage,
  LiveListing: isLiveListing,
  GraphDocument: isGraphDocument
};

const questions = Object.keys(ANSWERS) as QuestionName[];

function problems(shape: Shape<unknown>, value: unknown): string[] {
  const trail = new Trail();
  const isGood = shape(value, trail);
  expect(isGood).toBe(trail.length === 0);
  return trail.listed();
}

describe('the table of messages', () => {
  it('is read whole', () => {
    expect(Object.keys(TABLE.good).sort()).toEqual(Object.keys(SHAPES).sort());
    for (const [type, samples] of Object.entries(TABLE.good)) {
      for (const message of samples) {
        expect(problems(SHAPES[type]!, message), type).toEqual([]);
      }
    }
    expect(Object.keys(TABLE.answers).sort()).toEqual([...questions].sort());
    for (const what of questions) {
      for (const answer of TABLE.answers[what]) {
        expect(readAnswer(what, answer)).toEqual(answer);
      }
    }
  });

  it.each(TABLE.bad.map(({ type, message, problem }) => [type, problem, message] as const))(
    'refuses a %s: %s',
    (type, problem, message) => {
      expect(problems(SHAPES[type]!, message)[0]).toBe(problem);
    }
  );

  it('is refused with every field missing, or of another kind', () => {
    const mutate = (shape: Shape<unknown>, whole: Record<string, unknown>): void => {
      for (const key of Object.keys(whole)) {
        const odd = { ...whole, [key]: Symbol(key) };
        if (shape(odd, new Trail())) {
          // Only what is declared as `object` may be anything.
          expect(['data', 'doc'], key).toContain(key);
        }
      }
    };
    for (const [type, samples] of Object.entries(TABLE.good)) {
      samples.forEach(message => {
        if (typeof message === 'object' && message !== null && !Array.isArray(message)) {
          mutate(SHAPES[type]!, message as Record<string, unknown>);
        }
      });
    }
    for (const what of questions) {
      TABLE.answers[what].forEach(answer => mutate(ANSWERS[what], answer as Record<string, unknown>));
    }
  });

  it('says that a message is of another version', () => {
    const [first] = TABLE.good.ServerMessage!.slice(1);
    expect(readMessage(isServerMessage, first)).toEqual(first);
    const other = { ...(first as object), protocol: PROTOCOL + 1 };
    expect(() => readMessage(isServerMessage, other)).toThrow(
      `it speaks version ${PROTOCOL + 1} of the protocol, this page version ${PROTOCOL}`
    );
    expect(() => readMessage(isServerMessage, null)).toThrow(ShapeError);
  });
});

describe('shapes', () => {
  const shape = record({
    name: isText,
    sizes: optional(list(anyOf({ number: isNumber, text: isText })))
  });

  it('collect what is wrong, at most twenty', () => {
    expect(problems(shape, { name: 'a', more: 1 })).toEqual([]);
    expect(problems(shape, { sizes: [1, null, 'b', {}] })).toEqual([
      'name: it is missing',
      'sizes[1]: expected text or a number, got null',
      'sizes[3]: expected text or a number, got an object'
    ]);
    const many = problems(shape, { name: 'a', sizes: new Array(50).fill(null) });
    expect(many).toHaveLength(21);
    expect(many[20]).toBe('and 30 more');
  });

  it('do not take inherited fields for a tag', () => {
    expect(problems(isServerMessage, { type: 'constructor' })[0]).toContain('type: expected');
    expect(problems(isServerMessage, { type: '__proto__' })[0]).toContain('type: expected');
  });
});

describe('a notebook of the version before', () => {
  it('opens, with every answer upgraded', () => {
    const parsed = parseDocument(JSON.parse(JSON.stringify(OLD)));
    expect(parsed).toMatchObject({ ok: true, warnings: [] });
    const { answers } = OLD;
    expect(Object.keys(answers).sort()).toEqual([
      'advice',
      'compare',
      'compile',
      'memory',
      'roofline',
      'runs',
      'timeline'
    ]);
    for (const [what, answer] of Object.entries(answers)) {
      expect(() => readAnswer(what as QuestionName, answer), what).not.toThrow();
    }
    expect(planOf(readAnswer('memory', answers.memory)).peakStep).toBe(
      (answers.memory as { peakStep: number }).peakStep
    );
    expect(readAnswer('advice', answers.advice).actions[0]).toMatchObject({ id: 'fuse', can_try: false });
    const compared = readAnswer('compare', answers.compare);
    expect(compared.kind === 'comparison' && compared.nodes[1]).toMatchObject({ max_ulp: 349, inf_wanted: 0 });
    expect(rooflineOf(readAnswer('roofline', answers.roofline)).dropped).toBe(0);
    expect(runsOf(readAnswer('runs', answers.runs)).kind).toBe('history');
    expect(timelineOf(readAnswer('timeline', answers.timeline)).dropped).toBe(0);
  });

  it('keeps names that are data, and what is not of the version before', () => {
    const memory = { ...(OLD.answers.memory as object), dims: { peakStep: 3 } };
    expect(readAnswer('memory', memory).dims).toEqual({ peakStep: 3 });
    for (const value of [null, 7, [], { version: 2 }, { version: 1 }]) {
      expect(upgraded('timeline', value)).toBe(value);
    }
    expect(upgraded('memory', 'x')).toBe('x');
    expect(() => readAnswer('memory', { version: 1, slots: 3 })).toThrow('steps: it is missing');
  });
});
