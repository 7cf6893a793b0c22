/** The memory plan of a compiled model, as the kernel answers it, and what can be read off it. */

import { answer, number, objects, size, text, texts } from '../parts/read';

/** One stretch of memory and the steps between which something keeps it. */
export interface ISlot {
  id: string;
  kind: string;
  bytes: number;
  /** Place in the arena; null for memory outside of it. */
  offset: number | null;
  /** Indexes of steps, inclusive. */
  first: number;
  last: number;
  node: string | null;
  value: string | null;
  name: string;
  /** Who keeps it, in words; empty when nobody says. */
  holder: string;
}

export interface IMemoryPlan {
  /** Kernel of each step. */
  steps: string[];
  /** In the arena, in the order in which they begin. */
  arenaSlots: ISlot[];
  /** Outside of the arena, largest first. */
  otherSlots: ISlot[];
  arena: number;
  /** Bytes in use at each step, of the arena. */
  live: number[];
  peak: number;
  peakStep: number;
  /** Part of the arena that nothing uses when most is used. */
  fragmentation: number;
  /** Bytes outside of the arena: by what it is. */
  outside: { kind: string; bytes: number }[];
  dims: [string, number][];
}

const OUTSIDE = ['weights', 'packed', 'inputs', 'outputs'] as const;

/** The plan in an answer to “memory”; throws a sentence when it is none. */
export function readPlan(value: unknown): IMemoryPlan {
  const data = answer(value, 'memory');
  const steps = texts(data.steps);
  const end = Math.max(0, steps.length - 1);
  const slots = objects(data.slots).map((slot, i): ISlot => {
    const first = Math.min(end, Math.floor(size(slot.first)));
    const offset = number(slot.offset);
    return {
      id: text(slot.id) ?? `s${i}`,
      kind: text(slot.kind) ?? 'arena',
      bytes: size(slot.bytes),
      offset: offset !== null && offset >= 0 ? offset : null,
      first,
      last: Math.max(first, Math.min(end, Math.floor(number(slot.last) ?? end))),
      node: text(slot.node),
      value: text(slot.value),
      name: text(slot.name) ?? text(slot.value) ?? text(slot.id) ?? `slot ${i}`,
      holder: text(slot.holder) ?? ''
    };
  });
  const arenaSlots = slots.filter(slot => slot.offset !== null);
  arenaSlots.sort((a, b) => a.first - b.first || (a.offset ?? 0) - (b.offset ?? 0));
  const otherSlots = slots.filter(slot => slot.offset === null).sort((a, b) => b.bytes - a.bytes);
  const live = liveBytes(arenaSlots, steps.length);
  const top = arenaSlots.reduce((most, s) => Math.max(most, (s.offset ?? 0) + s.bytes), 0);
  const peakStep = Math.min(end, Math.floor(number(data.peakStep) ?? placeOfMost(live)));
  const peak = number(data.peak) ?? live[peakStep] ?? 0;
  const arena = Math.max(number(data.arena) ?? 0, top);
  const dims = Object.entries(
    typeof data.dims === 'object' && data.dims !== null ? data.dims : {}
  ).filter((entry): entry is [string, number] => typeof entry[1] === 'number');
  return {
    steps,
    arenaSlots,
    otherSlots,
    arena,
    live,
    peak,
    peakStep,
    fragmentation: number(data.fragmentation) ?? (arena > 0 ? 1 - peak / arena : 0),
    outside: OUTSIDE.map(kind => ({ kind, bytes: size(data[kind]) })).filter(o => o.bytes > 0),
    dims
  };
}

/** Bytes in use at each of `count` steps. */
export function liveBytes(slots: readonly ISlot[], count: number): number[] {
  const change = new Array<number>(count + 1).fill(0);
  for (const { first, last, bytes } of slots) {
    if (first < count) {
      change[first] = (change[first] ?? 0) + bytes;
      change[last + 1] = (change[last + 1] ?? 0) - bytes;
    }
  }
  const live: number[] = [];
  let sum = 0;
  for (let step = 0; step < count; step += 1) {
    sum += change[step] ?? 0;
    live.push(sum);
  }
  return live;
}

function placeOfMost(values: readonly number[]): number {
  return values.reduce((best, value, i) => (value > (values[best] ?? 0) ? i : best), 0);
}

/** The slots in use at a step, largest first. */
export function liveAt(plan: IMemoryPlan, step: number): ISlot[] {
  return plan.arenaSlots
    .filter(slot => slot.first <= step && step <= slot.last)
    .sort((a, b) => b.bytes - a.bytes);
}
