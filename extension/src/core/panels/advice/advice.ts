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

/** `predicted to save 520 µs, 65%, between 430 µs and 650 µs`, as a screen reader says it. */
export function spokenPrediction(action: IAdviceAction): string {
  const { predicted_ns: ns, predicted_share: share } = action;
  if (ns === null || share === null) {
    return 'no prediction';
  }
  const between = betweenText(action.low_ns ?? null, action.high_ns ?? null);
  const words = ns >= 0 ? 'predicted to save' : 'predicted to cost';
  return `${words} ${formatTime(Math.abs(ns))}, ${formatShare(Math.abs(share))}${between === '' ? '' : `, ${between}`}`;
}

/** `−430 µs to −650 µs`: an interval, the smaller change first; empty where there is none. */
export function intervalText(low: number | null, high: number | null): string {
  if (low === null || high === null) {
    return '';
  }
  const [from, to] = high < 0 ? [high, low] : [low, high];
  return `${formatSaving(from)} to ${formatSaving(to)}`;
}

/** The same as words; where it holds 0, that there may be no change. */
function betweenText(low: number | null, high: number | null): string {
  if (low === null || high === null) {
    return '';
  }
  if (low <= 0 && high >= 0) {
    return `between ${formatTime(-low)} slower and ${formatTime(high)} faster: it may change nothing`;
  }
  const [least, most] = [Math.abs(low), Math.abs(high)].sort((a, b) => a - b);
  return `between ${formatTime(least ?? 0)} and ${formatTime(most ?? 0)}`;
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
  const { max_abs: maxAbs, relative = null } = trial;
  if (maxAbs === null) {
    return 'an output is NaN in one of the two';
  }
  if (maxAbs === 0) {
    return 'bit for bit the same';
  }
  const of = relative === null ? '' : `, ${relative.toExponential(0)} of the largest number`;
  return `at most ${maxAbs.toPrecision(2)} apart${of}`;
}

function difference(before: number, after: number, format: (value: number) => string): string {
  const by = after - before;
  return by === 0 ? 'no change' : `${by > 0 ? '+' : '−'}${format(Math.abs(by))}`;
}

/** The rows of a trial: what, before, after, difference. */
export function rowsOf(trial: ITryAnswer): [string, string, string, string][] {
  return [
    ['time of a run (median)', formatTime(trial.before_ns), formatTime(trial.after_ns), formatSaving(trial.saved_ns)],
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
  /** Null where nothing was predicted. */
  predicted: ISpan | null;
  /** Null where the prediction has no interval. */
  expected: ISpan | null;
  measured: ISpan;
  interval: ISpan;
}

/** Bars of a prediction and of what was measured, on one scale that holds 0 and both. */
export function savingBars(trial: ITryAnswer): ISavingBars {
  const { predicted_ns: predictedNs, saved_ns: savedNs, low_ns: lowNs, high_ns: highNs } = trial;
  const { predicted_low_ns: leastNs = null, predicted_high_ns: mostNs = null } = trial;
  const all = [0, predictedNs ?? 0, leastNs ?? 0, mostNs ?? 0, savedNs, lowNs, highNs];
  const low = Math.min(...all);
  const high = Math.max(...all);
  const width = high - low || 1;
  const at = (ns: number): number => (ns - low) / width;
  const between = (a: number, b: number): ISpan => ({
    left: at(Math.min(a, b)),
    width: Math.abs(at(a) - at(b))
  });
  return {
    zero: at(0),
    predicted: predictedNs === null ? null : between(0, predictedNs),
    expected: leastNs === null || mostNs === null ? null : between(leastNs, mostNs),
    measured: between(0, savedNs),
    interval: between(lowNs, highNs)
  };
}
