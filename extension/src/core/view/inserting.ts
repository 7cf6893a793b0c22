/** Programs of a view that are to become cells of a notebook: whoever has one takes the event. */

/** The event that a view sends, with the program as its detail. */
export const INSERT_CODE = 'maxlab:insert-code';

/** Sends a program to whoever has a notebook; false where nobody takes it. */
export function insertCode(from: HTMLElement, code: string): boolean {
  const options = { bubbles: true, composed: true, cancelable: true, detail: { code } };
  return !from.dispatchEvent(new CustomEvent(INSERT_CODE, options));
}
