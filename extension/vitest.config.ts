import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.spec.ts'],
    setupFiles: ['test/setup.ts'],
    environment: 'node',
    // Files share what they import: loading it anew for each takes longer than all tests. In any order they pass.
    isolate: false,
    // Tests of large graphs share two cores with whatever else runs.
    testTimeout: 30_000
  }
});
