/** The layout of a container in which people put things; what they said of it comes as `IHeld`. */

import { at } from '../narrow';
import { num } from '../num';
import { linesOf, settle, type IHeld, type IUnheld } from './held';
import type { ILayoutContainer, ILayoutRequest, ILayoutResult, IMeasured } from './hierarchy';
import { between } from './route';

/** Ports keep this far from each other. */
const PORT_GAP = 12;

/** `byLayers` makes the layout that it would have if nothing had a place. */
export function layoutHeld(
  container: ILayoutContainer,
  held: IHeld,
  { w, h, srcOff, dstOff }: IMeasured,
  { nodeGap, layerGap }: Pick<ILayoutRequest, 'nodeGap' | 'layerGap'>,
  byLayers: () => ILayoutResult
): ILayoutResult {
  const { src, dst, turn, nIn, nOut } = container;
  const graph: IUnheld = { w, h, src, dst, srcOff, dstOff, turn, nIn, nOut, nodeGap, layerGap };
  const base = held.isKept ? null : byLayers();
  const settled = settle(graph, held, base);
  const lines = linesOf(graph, held, settled, base);
  const { padTop, padBottom, padLeft, padRight } = container;
  const inner = boundsOf(graph, settled, lines);
  const width = Math.max(container.minWidth, inner.w + padLeft + padRight);
  const height = Math.max(container.minHeight, inner.h + padTop + padBottom);
  const dx = padLeft + (width - inner.w - padLeft - padRight) / 2 - inner.x;
  const dy = padTop + (height - inner.h - padTop - padBottom) / 2 - inner.y;
  const x = settled.x.map(value => value + dx);
  const y = settled.y.map(value => value + dy);
  const n = w.length;
  const middle = (i: number): number => num(x[i]) + at(w, i) / 2;
  const ports = (first: number, count: number, ends: readonly number[], others: readonly number[], offset: ArrayLike<number>): Float64Array =>
    spread(
      Array.from({ length: count }, (_, p) => {
        const met = ends.flatMap((v, e) => (v === first + p && at(others, e) < n ? [middle(at(others, e)) + num(offset[e])] : []));
        return met.length === 0 ? width / 2 : met.reduce((sum, one) => sum + one, 0) / met.length;
      })
    );
  const inX = ports(n, nIn, src, dst, dstOff);
  const outX = ports(n + nIn, nOut, dst, src, srcOff);
  const paths = src.map((s, e) => {
    const t = at(dst, e);
    const known = lines[e] ?? null;
    if (known !== null) {
      return known.map((value, k) => value + (k % 2 === 0 ? dx : dy));
    }
    const isIn = s >= n;
    const isOut = t >= n;
    const sx = isIn ? num(inX[s - n]) : middle(s) + num(srcOff[e]);
    const sy = isIn ? 0 : num(y[s]) + at(h, s);
    const tx = isOut ? num(outX[t - n - nIn]) : middle(t) + num(dstOff[e]);
    const ty = isOut ? height : num(y[t]);
    return between(sx, sy, tx, ty);
  });
  return {
    w: width,
    h: height,
    x,
    y,
    inX,
    outX,
    paths,
    crossings: 0,
    columns: null,
    origin: { x: dx, y: dy },
    autoX: settled.autoX,
    autoY: settled.autoY
  };
}

/** What children and the lines between them take. */
function boundsOf(
  { w, h }: IUnheld,
  { x, y }: { x: Float64Array; y: Float64Array },
  lines: readonly (Float32Array | null)[]
): { x: number; y: number; w: number; h: number } {
  let [left, top, right, low] = [Infinity, Infinity, -Infinity, -Infinity];
  const cover = (px: number, py: number): void => {
    left = Math.min(left, px);
    top = Math.min(top, py);
    right = Math.max(right, px);
    low = Math.max(low, py);
  };
  w.forEach((width, i) => {
    cover(num(x[i]), num(y[i]));
    cover(num(x[i]) + width, num(y[i]) + at(h, i));
  });
  for (const line of lines) {
    for (let k = 0; line !== null && k < line.length; k += 2) {
      cover(num(line[k]), num(line[k + 1]));
    }
  }
  return right < left ? { x: 0, y: 0, w: 0, h: 0 } : { x: left, y: top, w: right - left, h: low - top };
}

/** The same places, with room between them. */
function spread(wanted: readonly number[]): Float64Array {
  const made = Float64Array.from(wanted);
  const order = Array.from(made.keys()).sort((a, b) => num(made[a]) - num(made[b]));
  for (let k = 1; k < order.length; k += 1) {
    const [left, own] = [at(order, k - 1), at(order, k)];
    made[own] = Math.max(num(made[own]), num(made[left]) + PORT_GAP);
  }
  return made;
}
