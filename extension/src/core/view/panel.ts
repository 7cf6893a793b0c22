/** What a panel of the dock is, and what it may ask of the view that it stands in. */

import type { IQuestions, QuestionName } from '../../proto/questions';
import type { GraphModel } from '../model/graph';
import type { Timing } from '../model/timing';
import type { ITheme } from '../render/theme';
import type { IColumnRef } from '../../proto/costs';
import type { Overlay } from '../render/tones';

export interface IAnswer<T> {
  data: T;
  /** Columns that `data` names by their index; none when the answer was saved. */
  buffers: readonly ArrayBuffer[];
  /** True when the answer was saved with the graph and nobody was asked. */
  isSaved: boolean;
}

/** What panels see of a view. */
export interface IPanelView {
  readonly model: GraphModel;
  readonly timing: Timing;
  readonly theme: ITheme;
  /** Ids of the selected operations. */
  readonly selection: readonly string[];
  /** Why nobody answers questions beyond what was saved; null while a kernel does. */
  readonly notLive: string | null;
  readonly reducedMotion: boolean;
  /** Selects operations by id, and unfolds what hides them. */
  select(ids: readonly string[]): void;
  /**
   * Asks the kernel; the error of a rejection is a sentence to show. Without arguments an answer that
   * was saved with the graph serves where there is no kernel.
   */
  ask<K extends QuestionName>(
    what: K,
    args?: IQuestions[K]['args']
  ): Promise<IAnswer<IQuestions[K]['answer']>>;
  /** Paints operations in tones instead of heat, until null is set; `legend` says what they mean. */
  setOverlay(overlay: Overlay | null, legend?: string): void;
  /** Opens the line where an operation was written, where the page can; false where it cannot. */
  reveal(id: string): boolean;
  /** Tells a screen reader. */
  say(text: string): void;
  /** Runs a command of the view, such as `profile`. */
  execute(command: string): boolean;
}

export interface IPanelHost {
  readonly view: IPanelView;
}

export interface IPanel {
  readonly element: HTMLElement;
  /** There is a new document or profile. */
  update(): void;
  /** The selection was changed elsewhere. */
  selected(ids: readonly string[]): void;
  /** The room of the panel has changed, or the theme has. */
  resized(): void;
  /** The panel was brought to the front (true) or went behind another (false). */
  shown?(isShown: boolean): void;
  dispose(): void;
}

export interface IPanelType {
  readonly id: string;
  readonly title: string;
  /** One sentence for the tooltip of the tab. */
  readonly hint: string;
  /** Style rules; class names start with `jp-MaxLab-`. */
  readonly css: string;
  /** Why there is nothing to show now; null when there is. */
  isAvailable(view: IPanelView): string | null;
  make(host: IPanelHost): IPanel;
}

export type Column = Float64Array | Float32Array | Int32Array | Int16Array | Uint32Array | Uint8Array;

/** Bytes of an entry and the view of a buffer, by the name of the type. */
const ARRAYS: Record<IColumnRef['dtype'], [number, (bytes: ArrayBuffer) => Column]> = {
  f8: [8, bytes => new Float64Array(bytes)],
  f4: [4, bytes => new Float32Array(bytes)],
  i4: [4, bytes => new Int32Array(bytes)],
  i2: [2, bytes => new Int16Array(bytes)],
  u4: [4, bytes => new Uint32Array(bytes)],
  u1: [1, bytes => new Uint8Array(bytes)]
};

/** The column that `ref` is or names; throws a sentence when its buffer is not there. */
export function readColumn(ref: IColumnRef | number[], buffers: readonly ArrayBuffer[]): Column {
  if (Array.isArray(ref)) {
    return Float64Array.from(ref);
  }
  const bytes = buffers[ref.buffer];
  const [size, view] = ARRAYS[ref.dtype];
  if (bytes === undefined || bytes.byteLength % size !== 0) {
    throw new Error('a column of the answer is missing or cannot be read');
  }
  return view(bytes);
}
