/** Messages between the notebook widget and its Python model, beside the synced traits. */

import type { LineSpan } from './document';

/** Front end to kernel. */
export type ClientMessage =
  /** The view was opened and the `doc` trait is null: send the document in parts. */
  | { type: 'need_document' }
  /** The user pressed Profile. */
  | { type: 'profile' }
  /** The generated text of a kernel is wanted and the document left it out. */
  | { type: 'source'; kernel: string }
  /** The user asked to see a source line in its editor. */
  | { type: 'reveal'; file: string; line: number; col: number; node: string };

/** Kernel to front end. */
export type ServerMessage =
  /**
   * Part `index` of `count` of the document; the bytes are in the first buffer. The parts joined are
   * UTF-8 JSON, compressed with zlib when `encoding` is `deflate`.
   */
  | {
      type: 'document';
      revision: number;
      index: number;
      count: number;
      encoding: 'json' | 'deflate';
    }
  | { type: 'source'; kernel: string; source: string; lines: LineSpan[] }
  | { type: 'profile'; status: 'running' | 'done' | 'failed'; message?: string };

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
}
