import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.spec.ts'],
    setupFiles: ['test/setup.ts'],
    environment: 'node',
    // Tests of large graphs share two cores with whatever else runs.
    testTimeout: 30_000
  }
});
