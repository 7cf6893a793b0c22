/**
 * What a dashboard is sent: frames with new samples. The other side is `maxlab/lab/dashboard/store.py`.
 *
 * A frame is a JSON part and a buffer: `count` times (float64, seconds since the first sample of the
 * recording), then `count` rows of `width` values (float32, NaN where there is none).
 */

export interface IColumn {
  key: string;
  device: string;
  quantity: string;
  unit: string;
  label: string;
  /** The most that it can be; null when there is no such. */
  top: number | null;
  /** Whether a value is the mean of a window that ends at the sample. */
  average: boolean;
  /** Length of that window in seconds; null when it reaches back to the sample before. */
  window: number | null;
}

export interface IMark {
  id: string;
  start: number;
  /** Seconds that it took; null while it lasts. */
  took: number | null;
  kind: string;
  name: string;
  count: number;
  pid: number;
}

export interface IState {
  running: boolean;
  replay: boolean;
  title: string;
  label: string;
  /** Seconds from one sample to the next. */
  period: number;
  /** What GPUs are called. */
  names: Record<string, string>;
  /** Why the recording ended; empty while it goes on. */
  ended: string;
  /** Milliseconds of the calendar at second 0; 0 when they are not known. */
  epoch: number;
  /** The second that it is now. */
  now: number;
  recorded: boolean;
}

/** Number, name and bytes of a process that holds memory of a GPU. */
export type Process = [number, string, number];

/** Who held memory of each GPU from this second on. */
export interface IProcessTable {
  time: number;
  held: Record<string, Process[]>;
}

export interface IFrame {
  reset: boolean;
  cursor: string;
  /** The cursor that it continues; null when it begins anew. */
  from: string | null;
  columns: IColumn[] | null;
  times: Float64Array;
  /** Row by row. */
  values: Float32Array;
  /** Seconds at which a new run of samples begins, with a gap before. */
  breaks: number[];
  marks: IMark[];
  problems: Record<string, string>;
  /** What has changed, oldest first. */
  processes: IProcessTable[];
  state: IState;
  /** Whether samples were left out, so that a closer look needs to ask for them. */
  thin: boolean;
}

export interface IDetail {
  start: number;
  end: number;
  times: Float64Array;
  values: Float32Array;
}

export class FrameError extends Error {}

export const FRAME_VERSION = 1;

type Fields = Record<string, unknown>;

function fieldsOf(value: unknown, what: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new FrameError(`${what} is not an object`);
  }
  return value as Fields;
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const number = (value: unknown): number => (typeof value === 'number' ? value : 0);
const numberOrNull = (value: unknown): number | null =>
  typeof value === 'number' ? value : null;
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

function columnOf(value: unknown): IColumn {
  const fields = fieldsOf(value, 'a column');
  const windowNs = numberOrNull(fields.window_ns);
  return {
    key: text(fields.key),
    device: text(fields.device),
    quantity: text(fields.quantity),
    unit: text(fields.unit),
    label: text(fields.label),
    top: numberOrNull(fields.top),
    average: fields.average === true,
    window: windowNs === null ? null : windowNs / 1e9
  };
}

function markOf(value: unknown): IMark {
  const [id, start, took, kind, name, count, pid] = list(value);
  return {
    id: text(id),
    start: number(start),
    took: numberOrNull(took),
    kind: text(kind),
    name: text(name),
    count: number(count),
    pid: number(pid)
  };
}

function textsOf(value: unknown): Record<string, string> {
  const entries = Object.entries(fieldsOf(value ?? {}, 'a table of texts'));
  return Object.fromEntries(entries.map(([key, one]) => [key, text(one)]));
}

function processesOf(value: unknown): Record<string, Process[]> {
  const entries = Object.entries(fieldsOf(value ?? {}, 'a table of processes'));
  return Object.fromEntries(
    entries.map(([gpu, rows]) => [
      gpu,
      list(rows).map((row): Process => {
        const [pid, name, bytes] = list(row);
        return [number(pid), text(name), number(bytes)];
      })
    ])
  );
}

export function stateOf(value: unknown): IState {
  const fields = fieldsOf(value, 'the state');
  return {
    running: fields.running === true,
    replay: fields.replay === true,
    title: text(fields.title),
    label: text(fields.label),
    period: number(fields.period),
    names: textsOf(fields.names),
    ended: text(fields.ended),
    epoch: number(fields.epoch),
    now: number(fields.now),
    recorded: fields.recorded === true
  };
}

/** The times and values that `body` says are in `bytes`. */
function samplesOf(body: Fields, bytes: Uint8Array): { times: Float64Array; values: Float32Array } {
  const count = number(body.count);
  const width = number(body.width);
  if (bytes.byteLength !== count * 8 + count * width * 4) {
    throw new FrameError(
      `expected ${count} samples of ${width} columns, got ${bytes.byteLength} bytes`
    );
  }
  // A copy: what arrives may begin at any byte, and typed arrays begin at multiples of their size.
  const copy = bytes.slice().buffer;
  return {
    times: new Float64Array(copy, 0, count),
    values: new Float32Array(copy, count * 8, count * width)
  };
}

/** The frame in `body` and `bytes`, checked. Fields of later versions are left out. */
export function readFrame(body: unknown, bytes: Uint8Array): IFrame {
  const fields = fieldsOf(body, 'the frame');
  if (fields.type !== 'frame') {
    throw new FrameError(`expected a frame, got ${JSON.stringify(fields.type)}`);
  }
  if (fields.version !== FRAME_VERSION) {
    throw new FrameError(
      `the kernel sends frames of version ${String(fields.version)}, this page reads ` +
        `${FRAME_VERSION}: reload the page, or restart the kernel`
    );
  }
  return {
    reset: fields.reset === true,
    cursor: text(fields.cursor),
    from: typeof fields.from === 'string' ? fields.from : null,
    columns: Array.isArray(fields.columns) ? fields.columns.map(columnOf) : null,
    ...samplesOf(fields, bytes),
    breaks: list(fields.breaks).map(number),
    marks: list(fields.marks).map(markOf),
    problems: textsOf(fields.problems),
    processes: list(fields.processes).map(entry => {
      const [time, held] = list(entry);
      return { time: number(time), held: processesOf(held) };
    }),
    state: stateOf(fields.state),
    thin: fields.thin === true
  };
}

/** The closer look in `body` and `bytes`, checked. */
export function readDetail(body: unknown, bytes: Uint8Array): IDetail {
  const fields = fieldsOf(body, 'the detail');
  return { start: number(fields.start), end: number(fields.end), ...samplesOf(fields, bytes) };
}

/** Splits what a server answers: 4 bytes with the length of the JSON part, that part, the buffer. */
export function unpackReply(reply: ArrayBuffer): { body: unknown; bytes: Uint8Array } {
  const whole = new Uint8Array(reply);
  if (whole.length < 4) {
    throw new FrameError('the server answered with too few bytes');
  }
  const length = new DataView(reply).getUint32(0);
  const json = new TextDecoder().decode(whole.subarray(4, 4 + length));
  return { body: JSON.parse(json) as unknown, bytes: whole.subarray(4 + length) };
}
