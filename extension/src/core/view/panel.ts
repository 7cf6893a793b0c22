/** What a panel of the dock is, and what it may ask of the view that it stands in. */

import type { GraphModel } from '../model/graph';
import type { Timing } from '../model/timing';
import type { ITheme } from '../render/theme';
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
  ask<T>(what: string, args?: Readonly<Record<string, unknown>>): Promise<IAnswer<T>>;
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

export interface IColumnRef {
  buffer: number;
  dtype: 'f8' | 'f4' | 'i4' | 'i2' | 'u4' | 'u1';
}

export type Column = Float64Array | Float32Array | Int32Array | Int16Array | Uint32Array | Uint8Array;

const ARRAYS = {
  f8: Float64Array,
  f4: Float32Array,
  i4: Int32Array,
  i2: Int16Array,
  u4: Uint32Array,
  u1: Uint8Array
} as const;

/** The column that `ref` is or names; throws a sentence when it is neither. */
export function readColumn(ref: unknown, buffers: readonly ArrayBuffer[]): Column {
  if (Array.isArray(ref)) {
    return Float64Array.from(ref, Number);
  }
  const { buffer, dtype } = (ref ?? {}) as Partial<IColumnRef>;
  const bytes = buffers[buffer ?? -1];
  const Kind = ARRAYS[dtype ?? 'f8'] as (typeof ARRAYS)['f8'] | undefined;
  if (bytes === undefined || Kind === undefined || bytes.byteLength % Kind.BYTES_PER_ELEMENT !== 0) {
    throw new Error('a column of the answer is missing or cannot be read');
  }
  return new Kind(bytes);
}
