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

/** Front end to kernel. */
export type ClientMessage =
  | INeedBundle
  | INeedDocument
  | IProfileRequest
  | ISourceRequest
  | IReveal;

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

/** Kernel to front end. */
export type ServerMessage = IBundleMessage | IDocumentMessage | ISourceMessage | IProfileMessage;

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
