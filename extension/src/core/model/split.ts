/** How the time of a kernel that computes several operations is split among them. */

import { SPLIT_MODEL, type IKernelProfile, type IProfile } from '../../proto/document';

/** The part of the time of `kernel` of each of the operations `ids`, from 0 to 1. */
export function partsOf(kernel: IKernelProfile, ids: readonly string[]): readonly number[] {
  const { parts } = kernel;
  return parts?.length === ids.length ? parts : ids.map(() => 1 / ids.length);
}

/** By what the times of `profile` are split, as it is said to the reader. */
export function splitBy(profile: IProfile): string {
  return profile.kernels.some(kernel => kernel.parts !== undefined)
    ? SPLIT_MODEL
    : 'equal parts: this file does not say how much work each is';
}
