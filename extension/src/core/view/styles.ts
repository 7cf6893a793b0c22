/** Adds the style sheet once per document or shadow root; the last view to go takes it away. */

import { STYLES } from './css';

const STYLE_ID = 'jp-MaxLab-styles';
const users = new WeakMap<Node, number>();

export function addStyles(element: Element): () => void {
  const root = element.getRootNode();
  const home: Document | ShadowRoot = root instanceof ShadowRoot ? root : element.ownerDocument;
  const parent = home instanceof Document ? home.head : home;
  if (parent.querySelector(`#${STYLE_ID}`) === null) {
    const style = element.ownerDocument.createElement('style');
    style.id = STYLE_ID;
    style.textContent = STYLES;
    parent.append(style);
  }
  users.set(parent, (users.get(parent) ?? 0) + 1);
  return () => {
    const left = (users.get(parent) ?? 1) - 1;
    users.set(parent, left);
    if (left === 0) {
      parent.querySelector(`#${STYLE_ID}`)?.remove();
    }
  };
}
