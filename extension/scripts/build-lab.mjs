/**
 * Puts the bundled graph view where the compiled plugins import it (`lib/core`, `lib/widget`).
 *
 * The view carries its style sheet and its layout worker as text, which only the bundler of `build-core.mjs`
 * puts in; `tsc` has compiled the plugins before. In JupyterLab the widget mounts `lab/graph-view`, so that
 * the settings hold for it and the commands know it.
 */

import { build } from 'esbuild';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { workerSource } from './build-core.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Leaves the import of `name` in the output, as one of `path`. */
function lead(name, path) {
  return {
    name: `lead-${name}`,
    setup({ onResolve }) {
      const filter = new RegExp(`^${name.replace(/[./]/g, '\\$&')}$`);
      onResolve({ filter }, () => ({ path, external: true }));
    }
  };
}

const common = {
  absWorkingDir: root,
  bundle: true,
  target: 'es2020',
  loader: { '.css': 'text' },
  define: { __MAXLAB_WORKER__: JSON.stringify(await workerSource()) }
};

await build({
  ...common,
  entryPoints: ['src/core/index.ts'],
  format: 'esm',
  outfile: join(root, 'lib/core/index.js')
});
await build({
  ...common,
  entryPoints: ['src/widget/index.ts'],
  format: 'esm',
  outfile: join(root, 'lib/widget/index.js'),
  plugins: [lead('../core', '../lab/graph-view')]
});
