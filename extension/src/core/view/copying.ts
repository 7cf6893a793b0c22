/** Copies text to the clipboard: for every button that says it does. */

import { button, el, icon } from './dom';

const SAID_MS = 1600;
/** Screen readers read what changes in a status that they know of: it is one a moment before. */
const READ_MS = 50;

/** Copies `text`; false where the browser does not let a page copy. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether something is marked that a browser would copy. */
function isMarked(): boolean {
  const { activeElement } = document;
  if (activeElement instanceof HTMLInputElement) {
    return activeElement.selectionStart !== activeElement.selectionEnd;
  }
  return document.getSelection()?.isCollapsed === false;
}

/**
 * A button that copies a table as CSV. What the browser calls copying, such as Ctrl+C, does the same
 * while the focus is inside of one of `places` and no text is marked.
 */
export function csvButton(csv: () => string, ...places: HTMLElement[]): HTMLElement {
  const said = el('span', 'jp-MaxLab-copied');
  const say = (text: string): void => {
    // A status only while it says something: the view around it has one of its own, for all else.
    said.setAttribute('role', 'status');
    setTimeout(() => (said.textContent = text), READ_MS);
    setTimeout(() => {
      said.textContent = '';
      said.removeAttribute('role');
    }, SAID_MS);
  };
  const copy = button('jp-MaxLab-iconButton', 'Copy as CSV', () => {
    void copyText(csv()).then(isDone => say(isDone ? 'Copied' : 'The browser does not let a page copy'));
  });
  copy.append(icon('copy'));
  for (const place of places) {
    place.addEventListener('copy', event => {
      if (!isMarked() && event.clipboardData !== null) {
        event.clipboardData.setData('text/plain', csv());
        event.preventDefault();
        event.stopPropagation();
        say('Copied');
      }
    });
  }
  return el('span', 'jp-MaxLab-copyCsv', copy, said);
}
