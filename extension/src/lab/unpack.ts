/** Documents saved in outputs: plain JSON, or JSON packed with zlib in base64. */

import { fits } from '../core';
import { isPacked } from '../proto/document';
import { isAnything, record } from '../proto/shape';

export class PackedDocumentError extends Error {}

/** Whether a document says that it is packed, in whatever way. */
const hasEncoding = record({ encoding: isAnything });

/** More than this unpacks to is refused: a few kB of packed zeros must not fill the memory of the page. */
const MAX_BYTES = 256 * 1024 * 1024;

/** The document in `data`: itself, or what `{encoding: "deflate+base64", data: "…"}` holds. */
export async function unpack(data: unknown, limit = MAX_BYTES): Promise<unknown> {
  if (!fits(hasEncoding, data)) {
    return data;
  }
  if (!fits(isPacked, data)) {
    throw new PackedDocumentError(
      `expected a document in the encoding "deflate+base64", got ${JSON.stringify(data.encoding)}`
    );
  }
  let bytes: Uint8Array;
  try {
    bytes = Uint8Array.from(atob(data.data), char => char.charCodeAt(0));
  } catch {
    throw new PackedDocumentError('the saved document is not base64 text');
  }
  const document: unknown = JSON.parse(await inflate(bytes, limit));
  return document;
}

async function inflate(bytes: Uint8Array, limit: number): Promise<string> {
  const reader = new Blob([bytes])
    .stream()
    .pipeThrough(new DecompressionStream('deflate'))
    .getReader();
  const decoder = new TextDecoder();
  let text = '';
  let size = 0;
  try {
    for (;;) {
      const part = await reader.read();
      if (part.done || !(part.value instanceof Uint8Array)) {
        return text + decoder.decode();
      }
      size += part.value.byteLength;
      if (size > limit) {
        await reader.cancel();
        throw new PackedDocumentError(`the saved document unpacks to more than ${limit} bytes`);
      }
      text += decoder.decode(part.value, { stream: true });
    }
  } catch (error) {
    if (error instanceof PackedDocumentError) {
      throw error;
    }
    throw new PackedDocumentError('the saved document is damaged: it cannot be unpacked');
  }
}
