/** Actions and trials, as the kernel answers “advice”, “experiments” and “try”. */

import { formatBytes, formatShare, formatTime } from '../../model/format';
import { answer, number, objects, size, text, texts } from '../parts/read';

export interface IAction {
  id: string;
  kind: string;
  title: string;
  why: string;
  kernels: string[];
  nodes: string[];
  /** Nanoseconds that a run saves; negative where it costs. */
  predictedNs: number;
  predictedShare: number;
  /** Code, or what to change. */
  how: string;
  canTry: boolean;
  /** What may happen to results: `nothing`, `rounding` or `precision`. */
  changes: string;
}

export interface ITrial {
  id: string;
  beforeNs: number;
  afterNs: number;
  savedNs: number;
  /** The interval of the saving. */
  lowNs: number;
  highNs: number;
  /** Whether the interval leaves out 0. */
  isClear: boolean;
  predictedNs: number;
  runs: number;
  beforeBytes: number;
  afterBytes: number;
  beforeKernels: number;
  afterKernels: number;
  maxUlp: number | null;
  maxAbs: number | null;
}

/** The actions of an answer; one without an id or a title is left out. */
export function readActions(value: unknown): IAction[] {
  return objects(answer(value, 'advice').actions).flatMap(data => {
    const id = text(data.id);
    const title = text(data.title);
    return id === null || title === null
      ? []
      : [
          {
            id,
            title,
            kind: text(data.kind) ?? '',
            why: text(data.why) ?? '',
            kernels: texts(data.kernels),
            nodes: texts(data.nodes),
            predictedNs: number(data.predicted_ns) ?? 0,
            predictedShare: number(data.predicted_share) ?? 0,
            how: text(data.how) ?? '',
            canTry: data.canTry === true,
            changes: text(data.changes) ?? ''
          }
        ];
  });
}

/** The trial of an answer; throws a sentence when it is none. */
export function readTrial(value: unknown): ITrial {
  const data = answer(value, 'try');
  const saved = number(data.saved_ns);
  if (saved === null) {
    throw new Error('The kernel told no times of this trial.');
  }
  return {
    id: text(data.id) ?? '',
    beforeNs: size(data.before_ns),
    afterNs: size(data.after_ns),
    savedNs: saved,
    lowNs: number(data.low_ns) ?? saved,
    highNs: number(data.high_ns) ?? saved,
    isClear: data.clear === true,
    predictedNs: number(data.predicted_ns) ?? 0,
    runs: size(data.runs),
    beforeBytes: size(data.before_bytes),
    afterBytes: size(data.after_bytes),
    beforeKernels: size(data.before_kernels),
    afterKernels: size(data.after_kernels),
    maxUlp: number(data.max_ulp),
    maxAbs: number(data.max_abs)
  };
}

/** `−520 µs` for a saving, `+12 µs` for a cost: what happens to the time of a run. */
export function formatSaving(ns: number): string {
  if (Math.abs(ns) < 0.5) {
    return '±0 ns';
  }
  return `${ns > 0 ? '−' : '+'}${formatTime(Math.abs(ns))}`;
}

/** `saves 520 µs of a run, 65%`, as a screen reader says it. */
export function spokenPrediction(action: IAction): string {
  const { predictedNs: ns, predictedShare: share } = action;
  return ns >= 0
    ? `predicted to save ${formatTime(ns)}, ${formatShare(share)}`
    : `predicted to cost ${formatTime(-ns)}, ${formatShare(-share)}`;
}

export function verdict(trial: ITrial): string {
  if (!trial.isClear) {
    return 'No difference can be shown: the interval holds 0.';
  }
  const change = trial.beforeNs > 0 ? formatShare(Math.abs(trial.savedNs) / trial.beforeNs) : '';
  return trial.savedNs > 0 ? `Faster by ${change}.` : `Slower by ${change}.`;
}

/** What happened to the outputs, in words. */
export function outputs(trial: ITrial): string {
  const { maxAbs, maxUlp } = trial;
  if (maxAbs === null) {
    return 'an output is NaN in one of the two';
  }
  if (maxAbs === 0) {
    return 'bit for bit the same';
  }
  const ulp = maxUlp === null ? '' : ` (${Number(maxUlp.toPrecision(3)).toLocaleString('en-US')} ulp of the largest)`;
  return `${maxAbs.toPrecision(2)} apart at most${ulp}`;
}

function difference(before: number, after: number, format: (value: number) => string): string {
  const by = after - before;
  return by === 0 ? 'no change' : `${by > 0 ? '+' : '−'}${format(Math.abs(by))}`;
}

/** The rows of a trial: what, before, after, difference. */
export function rowsOf(trial: ITrial): [string, string, string, string][] {
  return [
    ['time of a run', formatTime(trial.beforeNs), formatTime(trial.afterNs), formatSaving(trial.savedNs)],
    [
      'bytes moved',
      formatBytes(trial.beforeBytes),
      formatBytes(trial.afterBytes),
      difference(trial.beforeBytes, trial.afterBytes, formatBytes)
    ],
    [
      'kernels',
      String(trial.beforeKernels),
      String(trial.afterKernels),
      difference(trial.beforeKernels, trial.afterKernels, String)
    ]
  ];
}

export interface ISpan {
  /** From the left edge, as a fraction of the width. */
  left: number;
  width: number;
}

export interface ISavingBars {
  zero: number;
  predicted: ISpan;
  measured: ISpan;
  interval: ISpan;
}

/** Bars of a prediction and of what was measured, on one scale that holds 0 and both. */
export function savingBars(trial: ITrial): ISavingBars {
  const { predictedNs, savedNs, lowNs, highNs } = trial;
  const low = Math.min(0, predictedNs, savedNs, lowNs);
  const high = Math.max(0, predictedNs, savedNs, highNs);
  const width = high - low || 1;
  const at = (ns: number): number => (ns - low) / width;
  const between = (a: number, b: number): ISpan => ({
    left: at(Math.min(a, b)),
    width: Math.abs(at(a) - at(b))
  });
  return {
    zero: at(0),
    predicted: between(0, predictedNs),
    measured: between(0, savedNs),
    interval: between(lowNs, highNs)
  };
}
