/** What Ctrl+C copies. */

/** The lines that are copied where `target` has the focus; the browser copies nothing of its own. */
export function copiedFrom(target: Element): string[] {
  const given: string[] = [];
  const copied = new Event('copy', { bubbles: true, cancelable: true });
  Object.assign(copied, { clipboardData: { setData: (_: string, text: string) => given.push(text) } });
  target.dispatchEvent(copied);
  if (given.length !== 1 || !copied.defaultPrevented) {
    throw new Error(`copied ${given.length} times`);
  }
  return given[0]!.trimEnd().split('\r\n');
}
