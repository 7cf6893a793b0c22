/** One HTML file that shows a graph in any browser, with no server: the page that `to_html()` makes. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import type { IGraphDocument } from '../proto/document';
import { refusedBy } from './file-server';

/** Text that may stand between tags, and in a quoted attribute. */
function escapeText(text: string): string {
  const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  return text.replace(/[&<>"]/g, char => names[char] ?? char);
}

/** The script that draws the document of its page: the server's part of maxlab has it, as Python's does. */
async function fetchScript(settings: ServerConnection.ISettings): Promise<string> {
  const url = URLExt.join(settings.baseUrl, 'maxlab/pages/script');
  const response = await ServerConnection.makeRequest(url, {}, settings);
  const text = await response.text();
  if (!response.ok) {
    throw refusedBy(response.status, text.slice(0, 4000));
  }
  return text;
}

/** The whole page for `document`. */
export function makePage(document: IGraphDocument, script: string): string {
  // A closing tag inside a string of the data or the script would end the element.
  const json = JSON.stringify(document).replace(/</g, '\\u003c');
  const code = script.replace(/<\/script/gi, '<\\/script');
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeText(document.name)}</title>
<style>html, body, #maxlab-view { height: 100%; margin: 0; }</style>
</head>
<body>
<div id="maxlab-view"></div>
<script type="application/json" id="maxlab-graph">${json}</script>
<script>${code}</script>
</body>
</html>
`;
}

export async function exportPage(
  document: IGraphDocument,
  settings: ServerConnection.ISettings
): Promise<string> {
  return makePage(document, await fetchScript(settings));
}
