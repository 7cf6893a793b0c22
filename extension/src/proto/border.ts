/** Reads messages: their version first, so that a page of another version says that it is one. */

import { PROTOCOL } from './messages';
import { ShapeError, fits, isAnything, isText, isWhole, kindOf, optional, read, record, type Shape } from './shape';

/** What each message says of itself, whatever its version. */
const isVersioned = record({ protocol: isWhole });
const isTyped = record({ type: optional(isAnything) });
const isNamed = record({ type: isText });

/** `content`, a message of the kernel; throws a ShapeError, a sentence to show, when it is none. */
export function readMessage<T>(shape: Shape<T>, content: unknown): T {
  if (fits(isVersioned, content) && content.protocol !== PROTOCOL) {
    throw new ShapeError('The kernel cannot be understood', [
      `it speaks version ${content.protocol} of the protocol, this page version ${PROTOCOL}. ` +
        'Reload the page, or restart the kernel.'
    ]);
  }
  const type = kindOf(fits(isTyped, content) ? content.type : content);
  return read(shape, content, `The message ${type} of the kernel cannot be read`);
}

/** The `type` of a message that cannot be read, as far as it says one. */
export function typeOf(content: unknown): string {
  return fits(isNamed, content) ? content.type : '';
}
