/** Writes stand-alone pages of the test fixtures to test/out, to look at and to measure. */

import { build } from 'esbuild';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const out = join(root, 'test', 'out');
await mkdir(out, { recursive: true });
const bundle = join(out, 'fixtures.mjs');
await build({
  absWorkingDir: root,
  entryPoints: ['test/fixtures.ts'],
  bundle: true,
  format: 'esm',
  outfile: bundle
});
const f = await import(pathToFileURL(bundle).href);
const script = await readFile(join(root, '..', 'maxlab', 'static', 'export.js'), 'utf8');
const pages = {
  small: f.threeOps(),
  minilm: f.transformer(),
  profiled: f.withProfile(f.transformer()),
  large: f.large(),
  wide: f.wide(),
  deep: f.withProfile(f.transformer(330)),
  broken: f.broken()
};
for (const [name, document] of Object.entries(pages)) {
  const json = JSON.stringify(document).replaceAll('<', '\\u003c');
  await writeFile(
    join(out, `${name}.html`),
    `<!doctype html><html><head><meta charset="utf-8"><title>${name}</title>` +
      '<style>html,body{margin:0;height:100%}</style></head><body>' +
      `<script type="application/json" id="maxlab-graph">${json}</script>` +
      `<script>${script.replaceAll('</script', '<\\/script')}</script></body></html>`
  );
}
