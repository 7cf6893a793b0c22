import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.spec.ts'],
    setupFiles: ['test/setup.ts'],
    environment: 'node',
    // Timing tests share two cores with whatever else runs.
    testTimeout: 30_000
  }
});
