/** Adds a style sheet once per document or shadow root; the last view to go takes it away. */

import { STYLES } from './css';

const STYLE_ID = 'jp-MaxLab-styles';
const users = new WeakMap<Node, Map<string, number>>();

export function addStyles(element: Element, id = STYLE_ID, text = STYLES): () => void {
  const root = element.getRootNode();
  const home: Document | ShadowRoot = root instanceof ShadowRoot ? root : element.ownerDocument;
  const parent = home instanceof Document ? home.head : home;
  if (parent.querySelector(`#${id}`) === null) {
    const style = element.ownerDocument.createElement('style');
    style.id = id;
    style.textContent = text;
    parent.append(style);
  }
  const counts = users.get(parent) ?? new Map<string, number>();
  users.set(parent, counts);
  counts.set(id, (counts.get(id) ?? 0) + 1);
  return () => {
    const left = (counts.get(id) ?? 1) - 1;
    counts.set(id, left);
    if (left === 0) {
      parent.querySelector(`#${id}`)?.remove();
    }
  };
}
