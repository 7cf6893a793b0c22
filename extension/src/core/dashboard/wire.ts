/**
 * What a dashboard is sent, as it draws it: frames with new samples. The messages are declared in
 * `maxlab/lab/protocol/dashboard.py`; the other side is `maxlab/lab/dashboard/store.py`.
 *
 * A frame is a JSON part and a buffer: `count` times (float64, seconds since the first sample of the
 * recording), then `count` rows of `width` values (float32, NaN where there is none).
 */

import { readMessage } from '../../proto/border';
import {
  isDetailMessage,
  isFrameMessage,
  type IDetailMessage,
  type IFrameMessage,
  type IMetricColumn,
  type IMonitorState,
  type ISamples,
  type KernelOwner,
  type ProcessRow,
  type UserRow
} from '../../proto/dashboard';
import type { Shape } from '../../proto/shape';
import { divided, ReplyError } from '../reply';

export interface IColumn extends Omit<IMetricColumn, 'window_ns'> {
  /** Seconds of the window that a mean is of; null when it reaches back to the sample before. */
  window: number | null;
}

export type IState = IMonitorState;
export type Process = ProcessRow;

export interface IMark {
  id: string;
  start: number;
  /** Seconds that it took; null while it lasts. */
  took: number | null;
  kind: string;
  name: string;
  count: number;
  pid: number;
  /** Of a cell: its id in the notebook, and its first line; both may be empty. */
  cell: string;
  line: string;
}

/** What processes of the user take of the host from this second on. */
export interface IUserTable {
  time: number;
  rows: UserRow[];
  /** Id and notebook of each kernel, by the number of its process. */
  kernels: Record<string, KernelOwner>;
}

/** Who held memory of each GPU from this second on. */
export interface IProcessTable {
  time: number;
  held: Record<string, Process[]>;
}

interface ISampled {
  times: Float64Array;
  /** Row by row. */
  values: Float32Array;
}

export interface IFrame
  extends ISampled,
    Omit<IFrameMessage, 'continues' | 'columns' | 'marks' | 'processes' | 'users'> {
  /** The cursor that it continues; null when it begins anew. */
  continues: string | null;
  columns: IColumn[] | null;
  marks: IMark[];
  /** What has changed, oldest first. */
  processes: IProcessTable[];
  /** Likewise. */
  users: IUserTable[];
}

export interface IDetail extends ISampled, IDetailMessage {}

/** The times and values that a message says are in `bytes`. */
function samplesOf({ count, width }: ISamples, bytes: Uint8Array): ISampled {
  if (bytes.byteLength !== count * 8 + count * width * 4) {
    throw new ReplyError(
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

function columnOf({ window_ns: nanoseconds, ...column }: IMetricColumn): IColumn {
  return { ...column, window: nanoseconds === null ? null : nanoseconds / 1e9 };
}

/** The frame of a message and its buffer. */
export function frameOf(message: IFrameMessage, bytes: Uint8Array): IFrame {
  return {
    ...message,
    ...samplesOf(message, bytes),
    continues: message.continues ?? null,
    columns: message.columns?.map(columnOf) ?? null,
    marks: message.marks.map(([id, start, took, kind, name, count, pid, cell, line]) => ({
      id,
      start,
      took,
      kind,
      name,
      count,
      pid,
      cell,
      line
    })),
    processes: message.processes.map(([time, held]) => ({ time, held })),
    users: message.users.map(([time, rows, kernels]) => ({ time, rows, kernels }))
  };
}

/** The closer look of a message and its buffer. */
export function detailOf(message: IDetailMessage, bytes: Uint8Array): IDetail {
  return { ...message, ...samplesOf(message, bytes) };
}

/** The frame in a server's answer; throws a sentence to show when there is none. */
export function readFrame(reply: ArrayBuffer): IFrame {
  const [message, bytes] = unpacked(isFrameMessage, reply);
  return frameOf(message, bytes);
}

/** The closer look in a server's answer; throws a sentence to show when there is none. */
export function readDetail(reply: ArrayBuffer): IDetail {
  const [message, bytes] = unpacked(isDetailMessage, reply);
  return detailOf(message, bytes);
}

/** The message and the buffer in a server's answer. */
export function unpacked<T>(shape: Shape<T>, reply: ArrayBuffer): [T, Uint8Array] {
  const [message, bytes] = divided(reply);
  return [readMessage(shape, message), bytes];
}
