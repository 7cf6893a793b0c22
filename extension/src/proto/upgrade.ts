/**
 * Upgrades saved answers of older versions: notebooks and exported pages keep them for years.
 *
 * Version 1 of some answers had keys in camel case. Each step names the keys that were renamed and
 * what holds them, and leaves all else as it is: names of dims, values and the like are data.
 */

import { fits, isAnything, list, oneOf, record, table } from './shape';

type Fields = Readonly<Record<string, unknown>>;
type Names = Readonly<Record<string, string>>;

interface IStep {
  /** Keys of the answer itself, old name to new. */
  readonly own: Names;
  /** Keys of the records in its lists, by the list. */
  readonly inside?: Readonly<Record<string, Names>>;
  /** What version 2 says that version 1 did not. */
  readonly added?: Fields;
}

const DIFFERENCES: Names = {
  maxUlp: 'max_ulp',
  maxAbs: 'max_abs',
  maxRel: 'max_rel',
  nanWanted: 'nan_wanted',
  infWanted: 'inf_wanted'
};

/** From version 1 to version 2, by question. */
const STEPS: ReadonlyMap<string, IStep> = new Map<string, IStep>([
  ['roofline', { own: { measuredAt: 'measured_at' } }],
  ['advice', { own: {}, inside: { actions: { canTry: 'can_try' } } }],
  ['memory', { own: { peakStep: 'peak_step' } }],
  [
    'compare',
    {
      own: { canRepro: 'can_repro' },
      inside: { nodes: DIFFERENCES, outputs: DIFFERENCES },
      added: { kind: 'comparison' }
    }
  ]
]);

const isFields = table(isAnything);
const isList = list(isFields);
const isBefore = record({ version: oneOf(1) });

function renamed(fields: object, names: Names): Fields {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]): [string, unknown] => [names[key] ?? key, value])
  );
}

/** `value`, an answer to `what`, in the newest version; anything that is none stays as it is. */
export function upgraded(what: string, value: unknown): unknown {
  const step = STEPS.get(what);
  if (step === undefined || !fits(isBefore, value)) {
    return value;
  }
  const entries = Object.entries(renamed(value, step.own)).map(([key, inner]): [string, unknown] => {
    const names = step.inside?.[key];
    const isOld = names !== undefined && fits(isList, inner);
    return [key, isOld ? inner.map(item => renamed(item, names)) : inner];
  });
  return { ...Object.fromEntries(entries), ...step.added, version: 2 };
}
