/** What a hint says at the end of its line. */

import { formatShare, formatTime } from '../../core';
import type { IHintCall, IHintMark, IHintTime, IHintValue, ILineHints } from '../../proto/hints';

/** Calls that a line tells of; the card has all. */
const MOST_CALLS = 3;

/** A variable and what it holds: `x: float32[batch, 10]`. */
export function valueText({ name, types }: IHintValue): string {
  const [first = '', second] = types;
  const last = types[types.length - 1] ?? '';
  const all = second === undefined ? first : types.length === 2 ? `${first} | ${second}` : `${first} … ${last}`;
  return name === '' ? all : `${name}: ${all}`;
}

const UNITS: Readonly<Record<string, number>> = { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 };

/** The time of one turn, or that of the fastest and the slowest: `0.800–1.40 ms`. */
export function timeText({ least_ns, most_ns, is_split }: IHintTime): string {
  const least = formatTime(least_ns);
  const most = formatTime(most_ns);
  const about = is_split ? '≈' : '';
  if (least === most) {
    return `${about}${most}`;
  }
  const [, unit = ''] = most.split(' ');
  const shown = least_ns / (UNITS[unit] ?? 1);
  return `${about}${shown < 0.1 ? least : shown.toPrecision(3)}–${most}`;
}

/** What one call of a line made, how often, and what that takes. */
export function callText({ values, turns, time }: IHintCall): string {
  const parts = [values.map(valueText).join(', ')];
  const often = turns > 1 ? `×${turns}` : '';
  if (time === null) {
    parts.push(often);
  } else {
    parts.push([often, timeText(time)].filter(part => part !== '').join(', '), formatShare(time.share));
  }
  return parts.filter(part => part !== '').join(' · ');
}

/** What tells a call of a line from the others: the number of its run, or the name of its graph. */
export function labelOf(call: IHintCall, calls: readonly IHintCall[]): string {
  if (calls.length < 2) {
    return '';
  }
  const runs = new Set(calls.map(({ run }) => run));
  const titles = calls.filter(({ run }) => run === call.run).map(({ title }) => title);
  const title = titles.length > 1 && call.title !== '' ? call.title : '';
  return [runs.size > 1 ? `[${call.run}]` : '', title].filter(part => part !== '').join(' ');
}

/** What stands at the end of a line; empty where nothing does. */
export function hintText({ calls }: ILineHints): string {
  const told = calls.slice(0, MOST_CALLS).map(call => {
    const label = labelOf(call, calls);
    const text = callText(call);
    return label === '' ? text : `${label} ${text}`;
  });
  const left = calls.length - told.length;
  return [...told, ...(left > 0 ? [`+${left}`] : [])].filter(text => text !== '').join('   ');
}

const KINDS: Record<IHintMark['kind'], string> = {
  nan: 'NaN began here',
  inf: 'An infinity began here',
  failed: 'An operation failed here'
};

/** What went wrong, in a few words. */
export function markTitle({ kind }: IHintMark): string {
  return KINDS[kind];
}

/** All that is known of a mark, a line each. */
export function markText(mark: IHintMark): string {
  const code = mark.code === '' ? '' : ` [${mark.code}]`;
  const fix = mark.fix === '' ? [] : [`Fix: ${mark.fix}`];
  return [`${markTitle(mark)}:`, `${mark.says}${code}`, ...fix].join('\n');
}
