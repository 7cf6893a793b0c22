/** Where the rows of the timeline are: names of processes, and tracks with their lanes. */

import type { ITrack } from './data';
import type { Lane } from './lanes';
import type { ISpan } from './window';
import { at } from '../../narrow';
import { num } from '../../num';

export const LANE_PX = 17;
export const LANE_GAP = 1;
const TRACK_GAP = 7;
const GROUP_PX = 20;

export interface ILaneRow {
  lane: Lane;
  y: number;
}

export interface ITrackRow {
  track: ITrack;
  index: number;
  y: number;
  h: number;
  lanes: ILaneRow[];
}

export interface IGroupRow {
  label: string;
  y: number;
}

export interface IRows {
  tracks: ITrackRow[];
  groups: IGroupRow[];
  /** Rows of all tracks from top to bottom; those without slices left out. */
  lanes: ILaneRow[];
  height: number;
}

/** Places tracks, those of one process together; names of processes only when there are several. */
export function placeRows(tracks: readonly ITrack[], lanes: readonly (readonly Lane[])[]): IRows {
  const processes = new Map<string, number[]>();
  tracks.forEach((track, index) => {
    const list = processes.get(track.process) ?? [];
    processes.set(track.process, list);
    list.push(index);
  });
  const rows: IRows = { tracks: [], groups: [], lanes: [], height: 0 };
  let y = 4;
  for (const [process, members] of processes) {
    if (processes.size > 1 && process !== '') {
      rows.groups.push({ label: process, y });
      y += GROUP_PX;
    }
    for (const index of members) {
      const own: ILaneRow[] = (lanes[index] ?? []).map((lane, level) => ({
        lane,
        y: y + level * (LANE_PX + LANE_GAP)
      }));
      const h = Math.max(1, own.length) * (LANE_PX + LANE_GAP) - LANE_GAP;
      rows.tracks.push({ track: at(tracks, index), index, y, h, lanes: own });
      rows.lanes.push(...own.filter(row => row.lane.length > 0));
      y += h + TRACK_GAP;
    }
  }
  rows.height = y;
  return rows;
}

export interface IHit {
  slice: number;
  /** Slices that share the pixel. */
  count: number;
  row: ILaneRow;
}

/** Marks of a pixel are hard to aim at: those this near count when there is nothing at the place. */
const REACH_PX = 2.5;

/** The slice that is drawn in a lane at `x` pixels of a window `width` wide. */
export function hitLane(row: ILaneRow, window: ISpan, width: number, x: number): IHit | null {
  const { lane } = row;
  const { starts, ends, slices, length } = lane;
  const pixel = (window.to - window.from) / width;
  const isWide = (i: number): boolean => num(ends[i]) - num(starts[i]) >= pixel;
  const found = (from: number, to: number, narrowOnly: boolean): IHit | null => {
    let first = lane.after(from);
    let last = lane.after(to, first);
    if (last < length && num(starts[last]) < to) {
      last += 1;
    }
    if (narrowOnly) {
      // Wide slices can only be the outer ones: they are drawn beside the mark.
      first += first < last && isWide(first) ? 1 : 0;
      last -= first < last && isWide(last - 1) ? 1 : 0;
    }
    return first < last
      ? { slice: num(slices[lane.longest(first, last)]), count: last - first, row }
      : null;
  };
  const time = window.from + x * pixel;
  const exact = lane.at(time);
  if (exact >= 0 && isWide(exact)) {
    return { slice: num(slices[exact]), count: 1, row };
  }
  const column = window.from + Math.floor(x) * pixel;
  return (
    found(column, column + pixel, true) ??
    found(time - REACH_PX * pixel, time + REACH_PX * pixel, false)
  );
}

/** The slice at a place of the drawing; `y` counts from the first row. */
export function hitRows(
  rows: IRows,
  window: ISpan,
  width: number,
  x: number,
  y: number
): IHit | null {
  const row = rows.lanes.find(one => y >= one.y && y < one.y + LANE_PX + LANE_GAP);
  return row === undefined ? null : hitLane(row, window, width, x);
}
