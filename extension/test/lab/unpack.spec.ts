import { describe, expect, it } from 'vitest';

import { PackedDocumentError, unpack } from '../../src/lab/unpack';

const DOCUMENT = { format: 'maxlab.graph', version: 1, name: 'Größe × 6', nodes: [] };

async function packed(text: string): Promise<{ encoding: string; data: string }> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream('deflate'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return { encoding: 'deflate+base64', data: btoa(String.fromCharCode(...bytes)) };
}

describe('unpack', () => {
  it('gives back what was packed, in any alphabet', async () => {
    expect(await unpack(await packed(JSON.stringify(DOCUMENT)))).toEqual(DOCUMENT);
  });

  it('lets a plain document through', async () => {
    expect(await unpack(DOCUMENT)).toBe(DOCUMENT);
  });

  it.each([
    [{ encoding: 'zip', data: '' }, 'got "zip"'],
    [{ encoding: 'deflate+base64' }, 'expected a document'],
    [{ encoding: 'deflate+base64', data: '%%%' }, 'base64'],
    [{ encoding: 'deflate+base64', data: 'AAAA' }, 'damaged']
  ])('refuses %j and says why', async (data, words) => {
    const refused = unpack(data);
    await expect(refused).rejects.toThrow(PackedDocumentError);
    await expect(refused).rejects.toThrow(words);
  });

  it('refuses to fill the memory of the page', async () => {
    const bomb = await packed(' '.repeat(2_000_000));
    expect(bomb.data.length).toBeLessThan(10_000);
    await expect(unpack(bomb, 1_000_000)).rejects.toThrow('more than 1000000 bytes');
  });
});
