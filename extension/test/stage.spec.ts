// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { GraphView } from '../src/core';
import { ANIMATION_MS, elapsed } from '../src/core/view/stage';
import { StubContext } from './canvas';
import { transformer } from './fixtures';

const frames: FrameRequestCallback[] = [];
let view: GraphView;
let context: StubContext;

/** A context that refuses what browsers refuse. */
class StrictContext extends StubContext {
  isBroken = false;

  constructor() {
    super();
    const plain = this as unknown as Record<string, (...args: unknown[]) => void>;
    const round = plain['roundRect']!;
    plain['roundRect'] = (...args: unknown[]): void => {
      const radius = Number(args[4]);
      if (radius < 0 || this.isBroken) {
        throw new RangeError(`Radius value ${radius} is negative.`);
      }
      round(...args);
    };
  }
}

/** Runs the frames that are waited for, at a time of the page. */
function frame(now: number): void {
  frames.splice(0).forEach(call => call(now));
}

beforeEach(async () => {
  context = new StrictContext();
  HTMLCanvasElement.prototype.getContext = (() => context) as never;
  for (const [name, size] of [['clientWidth', 900], ['clientHeight', 500]] as const) {
    Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => size });
  }
  globalThis.ResizeObserver = class {
    constructor(private readonly _call: () => void) {}
    observe(): void {
      this._call();
    }
    unobserve(): void {}
    disconnect(): void {}
  } as never;
  vi.stubGlobal('requestAnimationFrame', (call: FrameRequestCallback) => frames.push(call));
  view = new GraphView(document.body);
  view.setDocument(transformer());
  await view.layoutDone();
  frame(performance.now());
  view.stage.finishMotion();
});

afterEach(() => {
  view.dispose();
  frames.length = 0;
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

async function fold(): Promise<void> {
  const box = view.scene!.items.find(item => item.box !== null && item.container !== null)!.box!;
  await view.setExpanded(box, false);
  await view.layoutDone();
  expect(view.stage.isMoving).toBe(true);
}

it('an animation is never before its beginning or after its end', () => {
  expect(elapsed(1000, 400)).toBe(0);
  expect(elapsed(1000, 1000 + ANIMATION_MS / 2)).toBe(0.5);
  expect(elapsed(1000, 9000)).toBe(1);
});

it('draws a frame whose time lies before the fold that it is the first of', async () => {
  const told = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  await fold();
  frame(performance.now() - 500);
  expect(view.scene!.items.every(item => item.w >= 0 && item.h >= 0)).toBe(true);
  expect(told).not.toHaveBeenCalled();
  frame(performance.now() + 2 * ANIMATION_MS);
  expect(view.stage.isMoving).toBe(false);
});

it('goes on after a frame that cannot be drawn', async () => {
  const told = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  await fold();
  const strict = context as StrictContext;
  strict.isBroken = true;
  frame(performance.now());
  expect(told).toHaveBeenCalledTimes(1);
  expect(view.stage.isMoving).toBe(false);
  strict.isBroken = false;
  const item = view.scene!.items[0]!;
  const { x, y } = view.stage.clientRect(item);
  expect(view.stage.hit(x + 4, y + 4)?.item).toBe(item);
  const before = context.count('roundRect');
  frame(performance.now());
  expect(context.count('roundRect')).toBeGreaterThan(before);
});
