/**
 * Messages between the notebook widget and its Python model, and the widget's synced traits.
 *
 * Generated from `maxlab/lab/protocol.py` by `scripts/gen_protocol.py`: change it there.
 */

import type { LineSpan } from './document';

/** The page has not loaded the code of the view yet. Sent by the loader, once a page. */
export interface INeedBundle {
  type: 'need_bundle';
}

/** The view was opened and the `doc` trait is null: send the document in parts. */
export interface INeedDocument {
  type: 'need_document';
}

/** The user pressed Profile. */
export interface IProfileRequest {
  type: 'profile';
}

/** The generated text of a kernel is wanted and the document left it out. */
export interface ISourceRequest {
  type: 'source';
  kernel: string;
}

/** The user asked to see a source line in its editor. */
export interface IReveal {
  type: 'reveal';
  file: string;
  line: number;
  col: number;
  node: string;
}

/** A panel asks `what` about the thing that is shown; one `answer` with the same id follows. */
export interface IAsk {
  type: 'ask';
  id: number;
  what: string;
  args: Record<string, unknown>;
}

/** Front end to kernel. */
export type ClientMessage =
  | INeedBundle
  | INeedDocument
  | IProfileRequest
  | ISourceRequest
  | IReveal
  | IAsk;

/** The code of the view, a JavaScript module, in the first buffer. Read by the loader. */
export interface IBundleMessage {
  type: 'bundle';
  version: string;
}

/**
 * Part `index` of `count` of the document; the bytes are in the first buffer.
 *
 * The parts joined are UTF-8 JSON, compressed with zlib when `encoding` is `deflate`.
 */
export interface IDocumentMessage {
  type: 'document';
  revision: number;
  index: number;
  count: number;
  encoding: 'json' | 'deflate';
}

/** The generated text of one kernel. */
export interface ISourceMessage {
  type: 'source';
  kernel: string;
  source: string;
  lines: LineSpan[];
}

/** How the run that the user asked for goes; `message` says why it failed. */
export interface IProfileMessage {
  type: 'profile';
  status: 'running' | 'done' | 'failed';
  message?: string;
}

/** The answer to a question. `data` may refer to the buffers of the message by their index. */
export interface IAnswerMessage {
  type: 'answer';
  id: number;
  ok: boolean;
  data: unknown;
  /** Why there is no answer, as a sentence; empty when there is one. */
  error: string;
}

/** Kernel to front end. */
export type ServerMessage =
  | IBundleMessage
  | IDocumentMessage
  | ISourceMessage
  | IProfileMessage
  | IAnswerMessage;

/** Traits of the widget model, all synced. */
export interface IWidgetTraits {
  /** The graph document, or null when it is sent in parts. */
  doc: unknown;
  /** Ids of the selected nodes. */
  selection: string[];
  /** Height of the view in CSS pixels. */
  height: number;
  theme: 'auto' | 'light' | 'dark';
  /** Empty while a kernel stands behind the view; otherwise why it cannot profile. */
  not_live: string;
  /** Grows whenever the kernel has a newer document. */
  revision: number;
}

/**
 * Somebody looks at the dashboard: send what is newer than `cursor`, now and as it comes.
 *
 * Sent again every ten seconds; a kernel that is not told so for thirty stops sending.
 */
export interface IWatch {
  type: 'watch';
  cursor: string;
}

/** The user pressed Start: sample every `period` seconds. */
export interface IStartMonitor {
  type: 'start';
  period: number;
}

/** The user pressed Stop. */
export interface IStopMonitor {
  type: 'stop';
}

/** All samples between these seconds are wanted: what was sent of them was thinned out. */
export interface IDetailRequest {
  type: 'detail';
  start: number;
  end: number;
}

/** The user wants the recording as a file. */
export interface IRecordingRequest {
  type: 'recording';
}

/** Dashboard to kernel. */
export type DashboardClientMessage =
  | INeedBundle
  | IWatch
  | IStartMonitor
  | IStopMonitor
  | IDetailRequest
  | IRecordingRequest;

/** New samples (in the first buffer), marks and state. `dashboard/store.py` has its fields. */
export interface IFrameMessage {
  type: 'frame';
  version: number;
}

/** The samples of a stretch of time, in the first buffer. */
export interface IDetailMessage {
  type: 'detail';
  start: number;
  end: number;
}

/** The recording as a file, in the first buffer. */
export interface IRecordingMessage {
  type: 'recording';
}

/** Why what the user asked for was not done. */
export interface IFailedMessage {
  type: 'failed';
  message: string;
}

/** Kernel to dashboard. */
export type DashboardServerMessage =
  | IFrameMessage
  | IDetailMessage
  | IRecordingMessage
  | IFailedMessage;

/** Traits of the dashboard's widget model, all synced. */
export interface IDashboardTraits {
  kind: 'dashboard';
  /** Height in CSS pixels; 0 is that of the charts. */
  height: number;
  theme: 'auto' | 'light' | 'dark';
  /** Empty while a kernel stands behind the view; otherwise why it cannot record. */
  not_live: string;
}
