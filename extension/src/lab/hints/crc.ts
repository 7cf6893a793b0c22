/** The checksum by which the kernel knows the text that it ran. */

const TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit += 1) {
    value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  }
  return value;
});

/** Length and CRC-32 of `text` in UTF-8. */
export function checksum(text: string): { length: number; crc: number } {
  const bytes = new TextEncoder().encode(text);
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc = (TABLE[(crc ^ byte) & 255] ?? 0) ^ (crc >>> 8);
  }
  return { length: bytes.length, crc: (crc ^ 0xffffffff) >>> 0 };
}
