/**
 * Stand-alone page: draws the document that the page itself carries, without any request.
 *
 * The document is in `<script type="application/json" id="maxlab-graph">`, or, compressed, as base64 of
 * zlib bytes in `<script type="application/octet-stream" id="maxlab-graph">`.
 */

import { fromBase64, GraphView, inflate, type ThemeName } from '../core';

async function readDocument(script: Element): Promise<string> {
  const text = script.textContent ?? '';
  return script.getAttribute('type') === 'application/json' ? text : inflate(fromBase64(text));
}

async function main(): Promise<void> {
  const host = document.getElementById('maxlab-view') ?? document.body;
  const wanted = document.documentElement.dataset.theme;
  const theme: ThemeName = wanted === 'light' || wanted === 'dark' ? wanted : 'auto';
  const view = new GraphView(host, {
    theme,
    height: 'fill',
    isPage: true,
    noProfile: 'this page is a snapshot without a kernel'
  });
  const script = document.getElementById('maxlab-graph');
  if (script === null) {
    view.showProblems('This page carries no graph', ['the element with id "maxlab-graph" is missing']);
    return;
  }
  try {
    view.setDocument(await readDocument(script));
  } catch (error) {
    view.showProblems('This graph cannot be read', [String(error)]);
  }
}

if (document.readyState === 'loading') {
  document.addEventListener('DOMContentLoaded', () => void main());
} else {
  void main();
}
