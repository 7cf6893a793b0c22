/** Changes in words, and how they are painted on the graph. */

import { formatTime } from '../../model/format';
import type { IToneNote, Overlay, Tone } from '../../render/tones';
import type { IRunEstimate, IRunPair, IRunRow, RunState } from '../../../proto/told';

export const STATE_WORDS: Record<RunState, string> = {
  slower: 'slower',
  faster: 'faster',
  same: 'same',
  unclear: 'no difference shown',
  few: 'too few runs to tell',
  new: 'new',
  gone: 'gone'
};

export const STATE_TONES: Record<RunState, Tone> = {
  slower: 'bad',
  faster: 'good',
  new: 'info',
  gone: 'warn',
  same: 'neutral',
  unclear: 'neutral',
  few: 'neutral'
};

/** Signs beside the words, so that nothing rests on colour. */
export const STATE_SIGNS: Record<RunState, string> = {
  slower: '▲',
  faster: '▼',
  new: '+',
  gone: '−',
  same: '=',
  unclear: '?',
  few: '…'
};

export const OVERLAY_LEGEND = '✗ slower   ✓ faster   + new   plain: same, or no difference shown';

/** `+5.0%` for a ratio of 1.05; `?` when it is not known. */
export function formatChange(ratio: number | null): string {
  if (ratio === null) {
    return '?';
  }
  const percent = 100 * (ratio - 1);
  const digits = Math.abs(percent) >= 99.95 ? 0 : 1;
  const text = Math.abs(percent).toFixed(digits);
  return `${percent < 0 && Number(text) !== 0 ? '−' : '+'}${text}%`;
}

/** The change that an estimate tells of; empty where it tells of none. */
export function changeOf(found: IRunEstimate): string {
  return hasBoth(found) && found.state !== 'few' ? formatChange(found.ratio) : '';
}

/** `+1.2% to +3.4%`; empty when there is no interval. */
export function formatInterval({ ratio, low, high, state }: IRunEstimate): string {
  if (ratio === null || state === 'few') {
    return '';
  }
  const isOpen = low === null || low <= 0;
  return `${isOpen ? '…' : formatChange(low)} to ${high === null ? '…' : formatChange(high)}`;
}

export function formatDelta(ns: number): string {
  return `${ns < 0 ? '−' : '+'}${formatTime(Math.abs(ns))}`;
}

export function hasBoth({ state }: IRunEstimate): boolean {
  return state !== 'new' && state !== 'gone';
}

/** `slower`, and what else there is to know of a row. */
export function verdict(row: IRunRow): string {
  const more = row.regrouped ? ', other kernels' : row.code === 'changed' ? ', other code' : '';
  return `${STATE_SIGNS[row.state]} ${STATE_WORDS[row.state]}${more}`;
}

/** One sentence on a whole comparison. */
export function summary(pair: IRunPair, names: readonly [string, string]): string {
  const { wall } = pair;
  const counts = (['slower', 'faster', 'new', 'gone'] as const)
    .map(state => [state, pair.rows.filter(row => row.state === state).length] as const)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${count} ${state}`);
  const kernels = counts.length > 0 ? `; kernels: ${counts.join(', ')}` : '; no kernel is shown to differ';
  return (
    `${names[0]} to ${names[1]}: one run ${formatTime(wall.before)} to ${formatTime(wall.after)}, ` +
    `${[changeOf(wall), STATE_WORDS[wall.state]].filter(Boolean).join(', ')}${kernels}`
  );
}

/** What a comparison paints on the operations of the graph: of several rows, what matters most. */
export function overlayOf(pair: IRunPair): Overlay {
  const overlay = new Map<string, IToneNote>();
  // Rows come with what matters first; the first to name an operation stays.
  for (const row of pair.rows) {
    const text = row.state === 'slower' || row.state === 'faster' ? formatChange(row.ratio) : row.state === 'new' ? 'new' : '';
    for (const node of row.nodes) {
      if (!overlay.has(node)) {
        overlay.set(node, { tone: STATE_TONES[row.state], text });
      }
    }
  }
  return overlay;
}

export interface IForest {
  /** Places from 0 to 1 of the ends of the interval, of the ratio, and of no change. */
  low: number;
  high: number;
  at: number;
  zero: number;
}

/** The largest change that any row is drawn with; intervals beyond it are cut. */
export function widestChange(rows: readonly IRunRow[]): number {
  const logs = rows.filter(row => changeOf(row) !== '').map(row => Math.abs(Math.log(row.ratio ?? 1)));
  const sorted = logs.filter(Number.isFinite).sort((a, b) => a - b);
  const nearMost = sorted[Math.floor(sorted.length * 0.9)] ?? 0;
  return Math.min(Math.log(8), Math.max(Math.log(1.1), nearMost * 1.5));
}

/** Where a row's interval is drawn on an axis of logarithms that ends at `widest` on both sides. */
export function forestOf(row: IRunEstimate, widest: number): IForest | null {
  if (row.ratio === null || row.ratio <= 0 || changeOf(row) === '') {
    return null;
  }
  const place = (ratio: number | null, open: number): number => {
    const log = ratio === null || ratio <= 0 ? open : Math.log(ratio);
    return Math.min(1, Math.max(0, 0.5 + log / (2 * widest)));
  };
  return {
    low: place(row.low, -Infinity),
    high: place(row.high, Infinity),
    at: place(row.ratio, 0),
    zero: 0.5
  };
}
