/** Actions and trials in words and bars. */

import type { IAdviceAction, ITryAnswer } from '../../../proto/costs';
import { formatBytes, formatShare, formatTime } from '../../model/format';

/** `−520 µs` for a saving, `+12 µs` for a cost: what happens to the time of a run. */
export function formatSaving(ns: number): string {
  if (Math.abs(ns) < 0.5) {
    return '±0 ns';
  }
  return `${ns > 0 ? '−' : '+'}${formatTime(Math.abs(ns))}`;
}

/** `saves 520 µs of a run, 65%`, as a screen reader says it. */
export function spokenPrediction(action: IAdviceAction): string {
  const { predicted_ns: ns, predicted_share: share } = action;
  return ns >= 0
    ? `predicted to save ${formatTime(ns)}, ${formatShare(share)}`
    : `predicted to cost ${formatTime(-ns)}, ${formatShare(-share)}`;
}

export function verdict(trial: ITryAnswer): string {
  if (!trial.clear) {
    return 'No difference can be shown: the interval holds 0.';
  }
  const change = trial.before_ns > 0 ? formatShare(Math.abs(trial.saved_ns) / trial.before_ns) : '';
  return trial.saved_ns > 0 ? `Faster by ${change}.` : `Slower by ${change}.`;
}

/** What happened to the outputs, in words. */
export function outputs(trial: ITryAnswer): string {
  const { max_abs: maxAbs, max_ulp: maxUlp } = trial;
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
export function rowsOf(trial: ITryAnswer): [string, string, string, string][] {
  return [
    ['time of a run', formatTime(trial.before_ns), formatTime(trial.after_ns), formatSaving(trial.saved_ns)],
    [
      'bytes moved',
      formatBytes(trial.before_bytes),
      formatBytes(trial.after_bytes),
      difference(trial.before_bytes, trial.after_bytes, formatBytes)
    ],
    [
      'kernels',
      String(trial.before_kernels),
      String(trial.after_kernels),
      difference(trial.before_kernels, trial.after_kernels, String)
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
export function savingBars(trial: ITryAnswer): ISavingBars {
  const { predicted_ns: predictedNs, saved_ns: savedNs, low_ns: lowNs, high_ns: highNs } = trial;
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
