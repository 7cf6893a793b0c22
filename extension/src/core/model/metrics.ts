/** Sizes of everything in the scene, in world units (CSS pixels at zoom 1). */

export const METRICS = {
  labelFont: 13,
  smallFont: 11,
  edgeFont: 10.5,
  headerFont: 12.5,
  minWidth: 100,
  /** From this zoom names have room in the least size in which they can be read. */
  nameZoom: 0.5,
  leastName: 11,
  maxWidth: 280,
  /** Widths are rounded up to this, so that columns of unlike nodes share their edges. */
  widthStep: 20,
  padX: 14,
  /** Lines of an item: its name, and each of the others; a line for time or notes is always kept. */
  rowLabel: 17,
  rowSmall: 15,
  padY: 3,
  pill: 28,
  scopeHeight: 62,
  /** Extra outline of a folded run, drawn as sheets behind it. */
  stack: 6,
  boxHeader: 30,
  boxPadX: 18,
  boxPadY: 16,
  boxPadTop: 4,
  nodeGap: 26,
  edgeGap: 14,
  layerGap: 20,
  stubGap: 20
} as const;

/** Width of `text` at `px` in the interface font; replaced by tests and workers. */
export type Measure = (text: string, px: number, isBold?: boolean) => number;

/** A measure that needs no canvas: average advance of a proportional face. */
export const roughMeasure: Measure = (text, px, isBold = false) =>
  text.length * px * (isBold ? 0.58 : 0.54);

/** Width of `text` in the fixed-width face: its advance is six tenths of the size in practice. */
export function monoWidth(text: string, px: number): number {
  return text.length * px * 0.605;
}

/** `text` cut to `limit` characters with an ellipsis. */
export function clip(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`;
}
