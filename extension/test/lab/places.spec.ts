import { describe, expect, it } from 'vitest';

import { executionOf, serverPath } from '../../src/lab/places';

describe('places of source lines', () => {
  it('knows cells from files', () => {
    expect(executionOf('cell [12]')).toBe(12);
    expect(executionOf('/home/me/model.py')).toBeNull();
    expect(executionOf('cell [x]')).toBeNull();
  });

  it('finds files below the folder of the server, and no others', () => {
    expect(serverPath('/home/me/work/a/model.py', '/home/me/work')).toBe('a/model.py');
    expect(serverPath('/home/me/work/a/model.py', '/home/me/work/')).toBe('a/model.py');
    expect(serverPath('/home/me/workshop/model.py', '/home/me/work')).toBeNull();
    expect(serverPath('/usr/lib/model.py', '')).toBeNull();
  });
});
