// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { makeTheme } from '../src/core/render/theme';
import { Input, type IGrip, type IInputHost } from '../src/core/view/input';
import { Stage } from '../src/core/view/stage';
import { installPage } from './page';

const host = (grip: IGrip | null): IInputHost => ({
  hasKeys: true,
  isInGraph: () => true,
  wheel: () => 'scroll',
  ownsWheel: () => true,
  run: () => true,
  hovered: () => undefined,
  grip: () => grip,
  clicked: vi.fn(),
  toggled: () => undefined,
  doubled: () => undefined,
  moved: vi.fn(),
  hint: () => undefined
});

const grip = (): { [K in keyof IGrip]: ReturnType<typeof vi.fn> } => ({
  moved: vi.fn(),
  dropped: vi.fn(),
  cancelled: vi.fn()
});

function open(given: IGrip | null) {
  const root = document.createElement('div');
  const stage = new Stage(makeTheme(false, null));
  stage.element.setPointerCapture = () => undefined;
  root.append(stage.element);
  document.body.append(root);
  const asked = host(given);
  const input = new Input(root, stage, asked);
  const pointer = (type: string, x: number, y: number, pointerId = 1): void => {
    const event = new MouseEvent(type, { clientX: x, clientY: y, button: 0, bubbles: true });
    Object.defineProperty(event, 'pointerId', { value: pointerId });
    stage.element.dispatchEvent(event);
  };
  return { root, stage, asked, input, pointer };
}

describe('what a press takes hold of', () => {
  beforeEach(installPage);

  it('follows the pointer, and the camera stays', () => {
    const held = grip();
    const { stage, asked, pointer } = open(held);
    const { tx, ty } = stage.camera;
    pointer('pointerdown', 10, 10);
    pointer('pointermove', 12, 11);
    expect(held.moved).not.toHaveBeenCalled();
    pointer('pointermove', 40, 30);
    pointer('pointerup', 50, 60);
    expect(held.moved).toHaveBeenCalledWith(40, 30);
    expect(held.dropped).toHaveBeenCalledWith(50, 60);
    expect([stage.camera.tx, stage.camera.ty]).toEqual([tx, ty]);
    expect(asked.clicked).not.toHaveBeenCalled();
  });

  it('is clicked when it does not move', () => {
    const held = grip();
    const { asked, pointer } = open(held);
    pointer('pointerdown', 10, 10);
    pointer('pointerup', 11, 10);
    expect(held.dropped).not.toHaveBeenCalled();
    expect(asked.clicked).toHaveBeenCalledOnce();
  });

  it('is let go by Escape, a second finger and the browser', () => {
    const held = grip();
    const { root, asked, input, pointer } = open(held);
    const drag = (): void => {
      pointer('pointerdown', 10, 10);
      pointer('pointermove', 40, 30);
    };
    drag();
    root.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
    pointer('pointermove', 80, 80);
    pointer('pointerup', 80, 80);
    drag();
    pointer('pointerdown', 90, 90, 2);
    pointer('pointerup', 90, 90, 2);
    pointer('pointerup', 40, 30);
    drag();
    pointer('pointercancel', 40, 30);
    expect(held.cancelled).toHaveBeenCalledTimes(3);
    expect(held.dropped).not.toHaveBeenCalled();
    expect(asked.clicked).not.toHaveBeenCalled();
    expect(input.cancelDrag()).toBe(false);
  });

  it('moves the camera where there is nothing', () => {
    const { stage, pointer } = open(null);
    const { tx } = stage.camera;
    pointer('pointerdown', 10, 10);
    pointer('pointermove', 40, 30);
    expect(stage.camera.tx - tx).toBe(30);
  });
});
