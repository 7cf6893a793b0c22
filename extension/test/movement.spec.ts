import { describe, expect, it } from 'vitest';

import type { IGraphDocument } from '../src/proto/document';
import { large, wide } from './fixtures';
import { arranged, movement } from './movement';

const GRAPHS: Record<string, () => IGraphDocument> = {
  'a deep network of 1,000 operations': () => large(1000),
  'forty lanes of 1,000 operations': () => wide(1000),
  'a deep network, every tenth operation placed': () => arranged(large(1000)),
  'forty lanes, every tenth operation placed': () => arranged(wide(1000))
};

describe('an operation that is put into a graph', () => {
  for (const [name, make] of Object.entries(GRAPHS)) {
    it(name, ({ task }) => {
      const made = movement(make());
      // Which `python -m benchmarks.movement` tells.
      Object.assign(task.meta, { movement: made });
      expect(made.mean).toBeLessThan(2);
    });
  }
});
