/** Slices and spans of the timeline in words: for tooltips, screen readers and measured spans. */

import { FAMILY_NAMES } from '../../model/families';
import { formatShare, formatTime, plural } from '../../model/format';
import { lineOf, opsOf } from '../kernels';
import type { TimelineModel } from './model';
import type { IHit } from './rows';
import type { ISpan } from './window';
import { num } from '../../num';

function trackOf(data: TimelineModel, slice: number): string {
  const track = data.timeline.tracks[data.timeline.track[slice] ?? -1];
  return [track?.name ?? '', track?.process ?? ''].filter(Boolean).join(' · ');
}

/** Share of the timeline that a slice takes. */
function shareOf(data: TimelineModel, slice: number): string {
  const { length } = data.timeline;
  return length > 0 ? `${formatShare(data.dur(slice) / length)} of the timeline` : '';
}

/** Of a step of a loop, the time of one turn; the slice has that of all. */
function eachOf(data: TimelineModel, slice: number): string {
  const turns = data.timeline.turns[slice] ?? 1;
  return turns > 1 ? `, ${formatTime(data.dur(slice) / turns)} a turn` : '';
}

/** What the tooltip of a hit says; the first line is its title. */
export function hitLines(data: TimelineModel, hit: IHit): string[] {
  const { slice } = hit;
  const kernel = data.kernelOf(slice);
  const lines = [
    data.title(slice),
    `${formatTime(data.dur(slice))}${eachOf(data, slice)} · ${shareOf(data, slice)} · at ${formatTime(data.start(slice))}`,
    trackOf(data, slice)
  ];
  if (kernel !== null) {
    const profile = data.timing.kernel(kernel);
    const whole =
      profile === undefined
        ? ''
        : ` · median ${formatTime(profile.ns)}, ${formatShare(data.timing.share(profile.ns))} of all kernels`;
    lines.push(
      `kernel ${kernel} · ${FAMILY_NAMES[data.familyOf(kernel)]}${whole}`,
      opsOf(data, kernel),
      lineOf(data, kernel)
    );
  }
  if (hit.count > 1) {
    lines.push(`the longest of ${plural(hit.count, 'slice')} here: zoom in to see them`);
  }
  return lines.filter(Boolean);
}

/** One sentence about a slice. */
export function describeSlice(data: TimelineModel, slice: number): string {
  const kernel = data.kernelOf(slice);
  return [
    data.title(slice),
    kernel === null ? '' : `kernel ${kernel}`,
    formatTime(data.dur(slice)),
    shareOf(data, slice),
    `at ${formatTime(data.start(slice))}`,
    trackOf(data, slice)
  ]
    .filter(Boolean)
    .join(', ');
}

/** What the whole timeline is, for those who do not see it. */
export function describeTimeline(data: TimelineModel): string {
  const { timeline } = data;
  const top = data
    .totals(3)
    .map(total => `${total.label} ${formatTime(total.ns)}`)
    .join(', ');
  return (
    `Timeline of ${formatTime(timeline.length)}, ${plural(timeline.n, 'slice')} on ` +
    `${plural(timeline.tracks.length, 'track')}. Most time: ${top}. ` +
    'Arrow keys go from slice to slice, Enter selects, plus and minus zoom, A and D move.'
  );
}

/** What a span holds: its length, and how busy the threads and streams are in it. */
export function measuredText(data: TimelineModel, { from, to }: ISpan): string {
  let busy = 0;
  let slices = 0;
  const { workers } = data;
  for (const lane of workers) {
    busy += lane.busy(from, to);
    const first = lane.after(from);
    const last = lane.after(to, first);
    slices += last - first + (last < lane.length && num(lane.starts[last]) < to ? 1 : 0);
  }
  const room = workers.length * (to - from);
  const part = room > 0 ? ` · ${formatShare(busy / room)} busy` : '';
  return `${formatTime(to - from)} · ${plural(slices, 'slice')}${part}`;
}
