/** What the colours of a graph mean: read by the legend of a view, and by that of a picture in a file. */

import type { IOverlay } from '../../proto/document';
import { formatMs, formatShare } from './format';
import { numberText } from './numbers';
import { shareAt, type Timing } from './timing';

export interface ITick {
  /** Where it stands, from 0 at the lower end to 1. */
  at: number;
  text: string;
  /** The same said otherwise, below it; empty for nothing. */
  share: string;
}

export interface IScale {
  title: string;
  /** From the lower end to the upper one; empty where the tones are only named. */
  colors: readonly string[];
  ticks: readonly ITick[];
  note: string;
  /** True where `note` is about what is hatched. */
  isHatched: boolean;
}

export interface IRamps {
  readonly ramp: readonly string[];
  readonly diverging: readonly string[];
}

/** Tones that `title` says in words. */
export function scaleOfTones(title: string): IScale | null {
  return title === '' ? null : { title, colors: [], ticks: [], note: '', isHatched: false };
}

/** The colours of numbers of the user's own. */
export function scaleOfNumbers(theme: IRamps, overlay: IOverlay): IScale {
  const { low, high, unit, title, colors, combine } = overlay;
  const middle = colors === 'diverging' && low < 0 && high > 0 ? 0 : (low + high) / 2;
  return {
    title: unit === '' ? title : `${title} · ${unit}`,
    colors: colors === 'diverging' ? theme.diverging : theme.ramp,
    ticks: [low, middle, high].map((value, n) => ({ at: n / 2, text: numberText(value, ''), share: '' })),
    note: combine === 'sum' ? 'Σ folded boxes show the sum' : 'folded boxes show the greatest',
    isHatched: false
  };
}

/** The colours of times; null where nothing was timed. */
export function scaleOfTimes(theme: IRamps, timing: Timing): IScale | null {
  if (timing.totalNs <= 0) {
    return null;
  }
  const isShort = timing.totalNs < 1e6; // where thousandths of a millisecond are most there is
  // Times of a simulated GPU are not a GPU's: that has to stand where the times stand.
  const device = timing.profile?.device ?? 'cpu';
  const where = device === 'cpu' ? '' : ` · ${device}`;
  return {
    title: `kernel time · ${isShort ? 'µs' : 'ms'}, share of all kernels${where}`,
    colors: theme.ramp,
    ticks: [0, 1 / 3, 2 / 3, 1].map(at => {
      const share = shareAt(at);
      const ns = timing.totalNs * share;
      return { at, text: formatMs(isShort ? 1000 * ns : ns), share: formatShare(share) };
    }),
    note: '≈ split of a shared kernel',
    isHatched: true
  };
}
