/** Answers to the question "timeline" for tests and for looking at. */

import type { ITimelineAnswer } from '../src/proto/costs';
import type { IGraphDocument } from '../src/proto/document';

/** An answer whose columns are lists, as they are saved. */
export interface IAnswerShape extends ITimelineAnswer {
  columns: Record<'start' | 'dur' | 'track' | 'name' | 'kernel' | 'depth', number[]>;
}

export function emptyTimeline(): IAnswerShape {
  return {
    version: 1,
    unit: 'ns',
    name: 'graph',
    device: 'cpu',
    simulated: false,
    runs: 1,
    run: 0,
    t0: 0,
    n: 0,
    tracks: [],
    names: [],
    colors: {},
    kernels: [],
    columns: { start: [], dur: [], track: [], name: [], kernel: [], depth: [] }
  };
}

export function addSlice(
  to: IAnswerShape,
  track: number,
  name: string,
  start: number,
  dur: number,
  kernel = -1,
  depth = 0
): void {
  let index = to.names.indexOf(name);
  if (index < 0) {
    index = to.names.push(name) - 1;
  }
  const { columns } = to;
  columns.start.push(start);
  columns.dur.push(dur);
  columns.track.push(track);
  columns.name.push(index);
  columns.kernel.push(kernel);
  columns.depth.push(depth);
  to.n += 1;
}

/** The runs of a profiled document on `threads` threads, one after the other. */
export function timelineOf(document: IGraphDocument, threads = 2, runs = 1): IAnswerShape {
  const made = emptyTimeline();
  made.tracks.push({ name: 'runs', kind: 'python', process: 'Python' });
  for (let t = 0; t < threads; t += 1) {
    made.tracks.push({ name: `thread ${t}`, kind: 'thread', process: `${document.name} on cpu` });
  }
  const kernels = document.profile?.kernels ?? [];
  made.kernels = kernels.map(kernel => kernel.id);
  const names = new Map(document.kernels.map(kernel => [kernel.id, kernel.name]));
  let at = 0;
  const whole: [number, number][] = [];
  const rows: [number, string, number, number, number][] = [];
  for (let run = 0; run < runs; run += 1) {
    const begin = at;
    kernels.forEach((kernel, k) => {
      for (let t = 0; t < threads; t += 1) {
        // The last thread has a little less to do, as the last rows of a tensor often are fewer.
        const part = t === threads - 1 && threads > 1 ? 0.8 : 1;
        rows.push([t + 1, names.get(kernel.id) ?? kernel.id, at, kernel.ns * part, k]);
      }
      at += kernel.ns + 300;
    });
    whole.push([begin, at - begin]);
    at += 5_000;
  }
  for (const [begin, dur] of whole) {
    addSlice(made, 0, document.name, begin, dur);
  }
  rows.sort((a, b) => a[0] - b[0] || a[2] - b[2]);
  for (const [track, name, start, dur, kernel] of rows) {
    addSlice(made, track, name, start, dur, kernel);
  }
  return made;
}

/** Compiling, nested, before a run: what is asked with events. */
export function addEvents(made: IAnswerShape): void {
  const track = made.tracks.push({ name: 'compiler', kind: 'compile', process: 'Python' }) - 1;
  const calls = made.tracks.push({ name: 'main thread', kind: 'python', process: 'Python' }) - 1;
  const copies = made.tracks.push({ name: 'copies', kind: 'transfer', process: 'gpu:0' }) - 1;
  addSlice(made, track, 'load', -90_000, 80_000);
  addSlice(made, track, 'passes', -88_000, 30_000, -1, 1);
  addSlice(made, track, 'fold constants', -86_000, 12_000, -1, 2);
  addSlice(made, track, 'simplify', -73_000, 9_000, -1, 2);
  addSlice(made, track, 'cc', -55_000, 40_000, -1, 1);
  addSlice(made, calls, 'forward', -95_000, 400_000);
  addSlice(made, calls, 'tokenize', -94_000, 3_000, -1, 1);
  addSlice(made, copies, 'to device', -9_000, 8_000);
  addSlice(made, copies, 'cache hit', -3_000, 0, -1, 1);
}
