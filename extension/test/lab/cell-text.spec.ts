/** Writing to the shared model of a cell. */

import { YCodeCell } from '@jupyter/ydoc';
import { expect, test } from 'vitest';

import { setText, takeBack } from '../../src/lab/code/cell-text';

test('one step of the undo of the cell, apart from what is typed before and after', () => {
  const cell = YCodeCell.create();
  cell.setSource('x = 1\ny = relu(x)\n');
  cell.updateSource(4, 5, '2');
  setText(cell, 'x = 2\nz = 3\ny = tanh(x)\n');
  expect(cell.getSource()).toBe('x = 2\nz = 3\ny = tanh(x)\n');
  cell.undo();
  expect(cell.getSource()).toBe('x = 2\ny = relu(x)\n');
  cell.redo();
  expect(cell.getSource()).toBe('x = 2\nz = 3\ny = tanh(x)\n');
  expect(takeBack(cell, 'x = 2\ny = relu(x)\n', cell.getSource())).toBeNull();
  expect(cell.getSource()).toBe('x = 2\ny = relu(x)\n');
});

test('nothing is taken back of a cell that was changed since', () => {
  const cell = YCodeCell.create();
  cell.setSource('a');
  setText(cell, 'b');
  cell.updateSource(1, 1, 'c');
  expect(takeBack(cell, 'a', 'b')).toContain('changed since');
  expect(cell.getSource()).toBe('bc');
});
