/** Bundles the graph view for notebooks (`widget.js`, a module) and for exported pages (`export.js`). */

import { build } from 'esbuild';
import { copyFile, mkdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const outdir = process.env.MAXLAB_STATIC_DIR ?? join(root, '..', 'maxlab', 'static');

const common = {
  absWorkingDir: root,
  bundle: true,
  minify: true,
  target: 'es2020',
  // The scene's text has ≈ and ×; escaping keeps the bundles safe under any page encoding.
  charset: 'ascii',
  legalComments: 'none',
  // Private members only: nothing outside a bundle sees them.
  mangleProps: /^_[a-z]/
};

/** The layout worker is bundled first and carried inside the other bundles as text. */
export async function workerSource() {
  const result = await build({
    ...common,
    entryPoints: ['src/core/layout/worker.ts'],
    format: 'iife',
    write: false
  });
  return result.outputFiles[0].text;
}

async function main() {
  const define = { __MAXLAB_WORKER__: JSON.stringify(await workerSource()) };
  await mkdir(outdir, { recursive: true });
  const targets = [
    ['src/widget/index.ts', 'widget.js', 'esm'],
    ['src/export/index.ts', 'export.js', 'iife']
  ];
  // The one library that a bundle carries, and the terms on which it may.
  const terms = join(root, 'node_modules', 'uplot', 'LICENSE');
  await copyFile(terms, join(outdir, 'LICENSE-uplot.txt'));
  for (const [entry, name, format] of targets) {
    const outfile = join(outdir, name);
    await build({ ...common, entryPoints: [entry], outfile, format, define });
    console.log(`${name} ${((await stat(outfile)).size / 1000).toFixed(1)} kB`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await main();
}
