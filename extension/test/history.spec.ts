import { expect, it } from 'vitest';

import { Camera } from '../src/core/render/camera';
import { CameraHistory } from '../src/core/view/history';

function at(k: number, tx = 0, ty = 0): Camera {
  const camera = new Camera();
  camera.set(k, tx, ty);
  return camera;
}

function start(): { history: CameraHistory; go(k: number): void; zoom(): number } {
  const stage = { destination: at(1), flyTo: (to: Camera): void => void (history.leave(true), (stage.destination = to)) };
  const history = new CameraHistory(stage);
  return { history, go: k => stage.flyTo(at(k)), zoom: () => stage.destination.k };
}

it('goes back and forward through flights', () => {
  const { history, go, zoom } = start();
  expect([history.canGoBack, history.canGoForward]).toEqual([false, false]);
  go(2);
  go(3);
  history.back();
  expect(zoom()).toBe(2);
  history.back();
  expect(zoom()).toBe(1);
  expect([history.canGoBack, history.canGoForward]).toEqual([false, true]);
  history.back();
  history.forward();
  history.forward();
  expect(zoom()).toBe(3);
});

it('forgets what was ahead when the camera goes elsewhere', () => {
  const { history, go, zoom } = start();
  go(2);
  history.back();
  go(5);
  expect(history.canGoForward).toBe(false);
  history.back();
  expect(zoom()).toBe(1);
});

it('takes one turn of the wheel after another for one move', () => {
  const stage = { destination: at(1), flyTo: (to: Camera): void => void (stage.destination = to) };
  const history = new CameraHistory(stage);
  for (let step = 1; step <= 5; step += 1) {
    history.leave(false, 100 * step);
    stage.destination = at(1 + step);
  }
  history.leave(false, 5000);
  stage.destination = at(9);
  history.back();
  expect(stage.destination.k).toBe(6);
  history.back();
  expect(stage.destination.k).toBe(1);
});

it('a place that the camera never left is none', () => {
  const { history, go } = start();
  go(1);
  expect(history.canGoBack).toBe(false);
});
