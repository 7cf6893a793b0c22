/** The memory plan of a compiled model: what can be read off the kernel's answer. */

import type { IMemoryAnswer, IMemorySlot } from '../../../proto/checks';

export interface IMemoryPlan {
  /** Kernel of each step. */
  steps: string[];
  /** In the arena, in the order in which they begin. */
  arenaSlots: IMemorySlot[];
  /** Outside of the arena, largest first. */
  otherSlots: IMemorySlot[];
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

/** The plan of an answer; throws a sentence when it makes no sense. */
export function planOf(answer: IMemoryAnswer): IMemoryPlan {
  const { steps, slots, arena, peak, peak_step: peakStep, fragmentation, dims } = answer;
  checkPlaces(answer);
  const arenaSlots = slots.filter(slot => slot.offset !== null);
  arenaSlots.sort((a, b) => a.first - b.first || startOf(a) - startOf(b));
  const otherSlots = slots.filter(slot => slot.offset === null).sort((a, b) => b.bytes - a.bytes);
  const { weights, packed, inputs, outputs } = answer;
  return {
    steps,
    arenaSlots,
    otherSlots,
    arena,
    live: liveBytes(arenaSlots, steps.length),
    peak,
    peakStep,
    fragmentation,
    outside: Object.entries({ weights, packed, inputs, outputs })
      .map(([kind, bytes]) => ({ kind, bytes }))
      .filter(({ bytes }) => bytes > 0),
    dims: Object.entries(dims)
  };
}

/** Where a slot begins in the arena; those outside of it come first. */
function startOf(slot: IMemorySlot): number {
  return slot.offset ?? -1;
}

/** Throws unless slots lie in the arena, and between steps that there are. */
function checkPlaces({ slots, steps, arena }: IMemoryAnswer): void {
  for (const { id, first, last, bytes, offset } of slots) {
    const isPlaced = bytes >= 0 && (offset === null || (offset >= 0 && offset + bytes <= arena));
    if (!isPlaced || first < 0 || last < first || last >= Math.max(1, steps.length)) {
      throw new Error(
        `The memory plan makes no sense: the slot ${id} does not lie in its arena, or names steps ` +
          'that there are not.'
      );
    }
  }
}

/** Bytes in use at each of `count` steps. */
export function liveBytes(slots: readonly IMemorySlot[], count: number): number[] {
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

/** The slots in use at a step, largest first. */
export function liveAt(plan: IMemoryPlan, step: number): IMemorySlot[] {
  return plan.arenaSlots
    .filter(slot => slot.first <= step && step <= slot.last)
    .sort((a, b) => b.bytes - a.bytes);
}
