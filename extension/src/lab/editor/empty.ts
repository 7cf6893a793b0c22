/** The text of a document in which nothing has been built yet, as Python writes it. */

/** The whole text of a document whose graph is called `name`, and is empty. */
export function emptyDocument(name: string): string {
  const lines = [
    '{',
    ' "format": "maxlab.document",',
    ' "graph": {',
    '  "inputs": [],',
    `  "name": ${JSON.stringify(name)},`,
    '  "ops": []',
    ' },',
    ' "version": 1',
    '}'
  ];
  return `${lines.join('\n')}\n`;
}

/** What the graph of a new document at `path` is called: its file without the ending. */
export function nameOf(path: string): string {
  const file = path.slice(path.lastIndexOf('/') + 1);
  const dot = file.lastIndexOf('.');
  return (dot < 0 ? '' : file.slice(0, dot)) || 'graph';
}
