/** Answers of the Jupyter server that are JSON and numbers in one. */

export class ReplyError extends Error {}

/** What a server answers, in its parts: 4 bytes with the length of the JSON part, that part, the buffer. */
export function divided(reply: ArrayBuffer): [unknown, Uint8Array] {
  const whole = new Uint8Array(reply);
  if (whole.length < 4) {
    throw new ReplyError('the server answered with too few bytes');
  }
  const length = new DataView(reply).getUint32(0);
  const json: unknown = JSON.parse(new TextDecoder().decode(whole.subarray(4, 4 + length)));
  return [json, whole.subarray(4 + length)];
}
