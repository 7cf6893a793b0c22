/** How a mean over a window is drawn: as wide as the window was, never as a line through points. */

import type uPlot from 'uplot';

/** Samples closer than this many device pixels are drawn joined: gaps between them would only flicker. */
const JOINED_PX = 4;

/** A window is drawn at least this wide, in CSS pixels. */
const LEAST_PX = 3;

export interface IStep {
  /** Seconds: the value is the mean from `start` to `end`. */
  start: number;
  end: number;
  value: number;
  /** Whether it begins where the step before ended. */
  isJoined: boolean;
}

/**
 * The steps of samples `from` to `to`, both included. A window never reaches over the sample before it;
 * `window` null is one that reaches just there. The first sample of all has none to reach to.
 */
export function stepsOf(
  times: ArrayLike<number>,
  values: ArrayLike<number | null | undefined>,
  from: number,
  to: number,
  window: number | null,
  joinBelow: number
): IStep[] {
  const steps: IStep[] = [];
  let last: IStep | null = null;
  for (let n = Math.max(from, 0); n <= to && n < times.length; n += 1) {
    const end = times[n];
    if (end === undefined) {
      break;
    }
    const value = values[n] ?? null;
    const before = times[n - 1] ?? null;
    if (value === null || (before === null && window === null)) {
      last = null;
      continue;
    }
    const reach = end - (window ?? Infinity);
    let start = before === null ? reach : Math.max(reach, before);
    if (before !== null && last !== null && end - before < joinBelow) {
      start = before;
    }
    const isJoined: boolean = last !== null && start <= last.end;
    last = { start, end, value, isJoined };
    steps.push(last);
  }
  return steps;
}

/** A path builder of uPlot for a column whose values are means. */
export function stepPaths(window: number | null, isFilled: boolean): uPlot.Series.PathBuilder {
  return (u, index, from, to) => {
    const stroke = new Path2D();
    const fill = new Path2D();
    const scaleKey = u.series[index]?.scale ?? 'y';
    const x = (time: number): number => u.valToPos(time, 'x', true);
    const y = (value: number): number => u.valToPos(value, scaleKey, true);
    const times = u.data[0];
    const values = u.data[index] ?? [];
    const perSecond = x(1) - x(0);
    const floor = y(0);
    const ratio = u.bbox.width / Math.max(u.over.clientWidth, 1);
    const steps = stepsOf(times, values, from, to, window, JOINED_PX / perSecond);
    steps.forEach((step, n) => {
      const [right, top] = [x(step.end), y(step.value)];
      // A window of milliseconds would be thinner than a hair.
      const isAlone = !step.isJoined && steps[n + 1]?.isJoined !== true;
      const left = isAlone ? Math.min(x(step.start), right - LEAST_PX * ratio) : x(step.start);
      if (step.isJoined) {
        stroke.lineTo(left, top);
      } else {
        stroke.moveTo(left, top);
      }
      stroke.lineTo(right, top);
      if (isFilled || isAlone) {
        // Windows with gaps between them are bars: their tops alone would be hard to see.
        fill.rect(left, top, right - left, floor - top);
      }
    });
    return { stroke, fill, flags: 0 };
  };
}
