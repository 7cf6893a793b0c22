/**
 * Counts the tokens of TypeScript files, without comments, line ends and white space.
 *
 *   node size.mjs EXTENSION ROOT     prints JSON: file below ROOT -> number of tokens
 */

import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative, resolve } from 'node:path';

const [extension, root] = process.argv.slice(2).map(path => resolve(path));
const ts = createRequire(join(extension, 'package.json'))('typescript');
const TRIVIA = new Set([
  ts.SyntaxKind.SingleLineCommentTrivia,
  ts.SyntaxKind.MultiLineCommentTrivia,
  ts.SyntaxKind.NewLineTrivia,
  ts.SyntaxKind.WhitespaceTrivia,
  ts.SyntaxKind.EndOfFileToken
]);

/** Every token of a syntax tree: its leaves, which know where a template or an expression begins. */
function tokens(node, file) {
  const children = node.getChildren(file);
  if (children.length === 0) {
    return ts.isJSDoc(node) || TRIVIA.has(node.kind) || node.getWidth(file) === 0 ? 0 : 1;
  }
  return ts.isJSDoc(node) ? 0 : children.reduce((sum, child) => sum + tokens(child, file), 0);
}

const counts = {};
for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
  if (entry.isFile() && /\.tsx?$/.test(entry.name)) {
    const path = join(entry.parentPath ?? entry.path, entry.name);
    const file = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true);
    counts[relative(root, path)] = tokens(file, file);
  }
}
process.stdout.write(JSON.stringify(counts));
