/** What colours items: their time, or numbers of the user's own. */

import type { IOverlay } from '../../proto/document';
import type { IBox } from './boxes';
import type { GraphModel } from './graph';
import type { IItem, IScene } from './scene';
import { NO_COST, type ICost } from './timing';

export interface IHeat {
  /** 0 (cold) to 1 (hot): the place on the scale of colours. */
  t: number;
  cost: ICost;
  /** `1.24 ms · 14%`, with `≈` in front of a split. */
  text: string;
  /** `14%` alone, where there is no room for all of it. */
  share: string;
}

/** A number in at most three digits that count, with its unit. */
export function numberText(value: number, unit: string): string {
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(3)));
  return `${text.replace('-', '−')}${unit === '' ? '' : ` ${unit}`}`;
}

/** The numbers of `overlay` on the items of `scene`; a box has that of its scope, or of what is in it. */
export function numbersOf(model: GraphModel, scene: IScene, overlay: IOverlay): Map<IItem, IHeat> {
  const { values, scopes, low, high, unit, combine } = overlay;
  const boxes = new Map<IBox, number>();
  for (const { node, box: home } of model.nodes) {
    const value = values[node.id];
    for (let box: IBox | null = value === undefined ? null : home; box !== null; box = box.parent) {
      const before = boxes.get(box);
      const own = value ?? 0;
      boxes.set(box, before === undefined ? own : combine === 'sum' ? before + own : Math.max(before, own));
    }
  }
  const found = new Map<IItem, IHeat>();
  for (const item of scene.items) {
    const scope = item.box === null ? undefined : scopes[item.box.path];
    const combined = item.box === null ? undefined : boxes.get(item.box);
    const value = item.node !== null ? values[item.node.node.id] : (scope ?? combined);
    if (value === undefined) {
      continue;
    }
    const isCombined = item.node === null && scope === undefined;
    const text = numberText(value, unit);
    const t = high > low ? Math.min(1, Math.max(0, (value - low) / (high - low))) : 1;
    const mark = isCombined ? (combine === 'sum' ? 'Σ ' : 'max ') : '';
    found.set(item, { t, cost: NO_COST, text: `${mark}${text}`, share: text });
  }
  return found;
}
