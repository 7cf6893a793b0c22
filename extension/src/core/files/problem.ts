/** Why a file, or a part of it, cannot be shown: what is wrong, its code, and what to do about it. */

import { messageOf } from '../narrow';
import { SourceError } from './source';

/** What is wrong, with its code, and what to do about it, which may be empty. */
export function problemOf(error: unknown): { what: string; fix: string } {
  const isTold = error instanceof SourceError;
  const code = isTold && error.code !== '' ? ` [${error.code}]` : '';
  return { what: `${messageOf(error)}${code}`, fix: isTold ? error.fix : '' };
}

/** The same as one text. */
export function problemText(error: unknown): string {
  const { what, fix } = problemOf(error);
  return fix === '' ? what : `${what}\n${fix}`;
}
