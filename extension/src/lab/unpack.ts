/** Documents saved in outputs: plain JSON, or JSON packed with zlib in base64. */

export class PackedDocumentError extends Error {}

/** More than this unpacks to is refused: a few kB of packed zeros must not fill the memory of the page. */
const MAX_BYTES = 256 * 1024 * 1024;

/** The document in `data`: itself, or what `{encoding: "deflate+base64", data: "…"}` holds. */
export async function unpack(data: unknown, limit = MAX_BYTES): Promise<unknown> {
  if (typeof data !== 'object' || data === null || !('encoding' in data)) {
    return data;
  }
  const { encoding, data: text } = data as { encoding: unknown; data?: unknown };
  if (encoding !== 'deflate+base64' || typeof text !== 'string') {
    throw new PackedDocumentError(
      `expected a document in the encoding "deflate+base64", got ${JSON.stringify(encoding)}`
    );
  }
  let bytes: Uint8Array;
  try {
    bytes = Uint8Array.from(atob(text), char => char.charCodeAt(0));
  } catch {
    throw new PackedDocumentError('the saved document is not base64 text');
  }
  return JSON.parse(await inflate(bytes, limit)) as unknown;
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
      const { done, value } = await reader.read();
      if (done) {
        return text + decoder.decode();
      }
      size += value.byteLength;
      if (size > limit) {
        await reader.cancel();
        throw new PackedDocumentError(`the saved document unpacks to more than ${limit} bytes`);
      }
      text += decoder.decode(value, { stream: true });
    }
  } catch (error) {
    if (error instanceof PackedDocumentError) {
      throw error;
    }
    throw new PackedDocumentError('the saved document is damaged: it cannot be unpacked');
  }
}
