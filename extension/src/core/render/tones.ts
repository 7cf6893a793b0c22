/**
 * An overlay of the graph: what a panel has to say about operations, painted on them instead of their
 * heat. A tone is a colour and a sign, so that it never rests on colour alone.
 */

import type { GraphModel } from '../model/graph';
import type { IItem, IScene } from '../model/scene';
import type { ITheme } from './theme';
import { oklch, css } from './color';

/** From what matters least to what matters most: a folded box shows the last of those inside it. */
export const TONES = ['quiet', 'neutral', 'info', 'good', 'fused', 'warn', 'bad'] as const;

export type Tone = (typeof TONES)[number];

export interface IToneNote {
  tone: Tone;
  /** A few words in the place of the time, such as `3 ulp`; may be empty. */
  text: string;
}

/** Notes by id of the operation; operations that are not in it fade. */
export type Overlay = ReadonlyMap<string, IToneNote>;

export const SIGNS: Record<Tone, string> = {
  quiet: '',
  neutral: '',
  info: '+',
  good: '✓',
  fused: '⋈',
  warn: '!',
  bad: '✗'
};

export interface IToneColors {
  fill: string;
  border: string;
  stripe: string;
}

const HUES: Record<Tone, number> = {
  quiet: 262,
  neutral: 262,
  info: 240,
  good: 150,
  fused: 305,
  warn: 75,
  bad: 25
};

export function toneColors(tone: Tone, theme: ITheme): IToneColors {
  if (tone === 'quiet' || tone === 'neutral') {
    return { fill: theme.surface, border: theme.line, stripe: '' };
  }
  const hue = HUES[tone];
  if (theme.isStrong) {
    const ink = css(theme.isDark ? oklch(0.8, 0.14, hue) : oklch(0.45, 0.16, hue));
    return { fill: theme.surface, border: ink, stripe: ink };
  }
  return theme.isDark
    ? {
        fill: css(oklch(0.32, 0.07, hue)),
        border: css(oklch(0.62, 0.12, hue)),
        stripe: css(oklch(0.74, 0.14, hue))
      }
    : {
        fill: css(oklch(0.95, 0.045, hue)),
        border: css(oklch(0.66, 0.13, hue)),
        stripe: css(oklch(0.56, 0.16, hue))
      };
}

/** The notes of items: of a folded box, the most serious one inside and how many there are of it. */
export function notesOf(model: GraphModel, scene: IScene, overlay: Overlay): Map<IItem, IToneNote> {
  const found = new Map<IItem, IToneNote>();
  const counts = new Map<IItem, number>();
  for (const { node, index } of model.nodes) {
    const note = overlay.get(node.id);
    const item = scene.ofNode[index];
    if (note === undefined || item === null || item === undefined) {
      continue;
    }
    if (item.node !== null) {
      found.set(item, note);
      continue;
    }
    const known = found.get(item);
    const rank = known === undefined ? -1 : TONES.indexOf(known.tone);
    if (TONES.indexOf(note.tone) > rank) {
      found.set(item, note);
      counts.set(item, 1);
    } else if (known?.tone === note.tone) {
      counts.set(item, (counts.get(item) ?? 1) + 1);
    }
  }
  for (const [item, count] of counts) {
    const note = found.get(item);
    if (note !== undefined && count > 1) {
      found.set(item, { tone: note.tone, text: `${count} × ${note.text || note.tone}` });
    }
  }
  return found;
}

/** What is written on an item. */
export function noteText(note: IToneNote): string {
  const sign = SIGNS[note.tone];
  return sign === '' ? note.text : note.text === '' ? sign : `${sign} ${note.text}`;
}
