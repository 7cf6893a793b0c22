/** Reads answers of the kernel and those that were saved with a document, also by an older maxlab. */

import type { IGraphDocument } from './document';
import { ANSWERS, VERSIONS, type IQuestions, type QuestionName } from './questions';
import { ShapeError, Trail, fits, isAnything, kindOf, optional, record } from './shape';
import { upgraded } from './upgrade';

const isVersioned = record({ version: optional(isAnything) });

/** The answer in `value`; throws a ShapeError, a sentence to show, when it is none. */
export function readAnswer<K extends QuestionName>(
  what: K,
  value: unknown
): IQuestions[K]['answer'] {
  const answer = upgraded(what, value);
  if (fits(isVersioned, answer) && answer.version !== VERSIONS[what]) {
    const found = answer.version === undefined ? 'no version' : `version ${kindOf(answer.version)}`;
    throw new ShapeError(`The answer to “${what}” has ${found}`, [
      `this page reads version ${VERSIONS[what]}. ` +
        'Reload the page: it is of another version than the kernel.'
    ]);
  }
  const trail = new Trail();
  if (ANSWERS[what](answer, trail)) {
    return answer;
  }
  const [first, ...more] = trail.listed();
  const left = more.length === 0 ? '' : ` (and ${more.length} more)`;
  throw new ShapeError(`The answer to “${what}” cannot be read`, [
    `${first}${left}. Reload the page: it may be of another version than the kernel.`
  ]);
}

/** What was saved with a document as the answer to `what`, unread; undefined when nothing was. */
export function savedAnswer({ answers }: IGraphDocument, what: QuestionName): unknown {
  return answers === undefined ? undefined : new Map(Object.entries(answers)).get(what);
}
