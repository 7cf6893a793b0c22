// @vitest-environment jsdom
/** The map of a graph: where it is, what it frames, and how it moves the view. */

import { beforeEach, describe, expect, it, vi } from 'vitest';

import { Camera } from '../src/core/render/camera';
import { makePicture, type IPicture } from '../src/core/render/picture';
import { makeTheme } from '../src/core/render/theme';
import { toneColors } from '../src/core/render/tones';
import { Minimap } from '../src/core/view/minimap';
import { Stage } from '../src/core/view/stage';
import { StubContext } from './canvas';
import { transformer } from './fixtures';
import { installPage } from './page';
import { allBoxes, layOut, load } from './scene';

const THEME = makeTheme(false, null);

let stage: Stage;
let picture: IPicture;
let minimap: Minimap;
let laidOut: ReturnType<typeof layOut>;

/** Puts the camera so that the graph is `share` times as high as the window, from its upper left corner on. */
function look(share: number): void {
  const k = (share * stage.height) / picture.bounds.h;
  stage.camera.set(k, -picture.bounds.x * k, -picture.bounds.y * k);
  minimap.update(THEME);
}

const frame = (): { top: number; height: number } => {
  const { style } = minimap.element.querySelector<HTMLElement>('.jp-MaxLab-minimapFrame')!;
  return { top: Number(/, ([\d.]+)px\)/.exec(style.transform)?.[1]), height: Number.parseFloat(style.height) };
};
const mapHeight = (): number => Number.parseFloat(minimap.element.querySelector('canvas')!.style.height);

beforeEach(() => {
  installPage();
  const model = load(transformer(6));
  laidOut = layOut(model, allBoxes(model));
  const { scene, timing } = laidOut;
  picture = makePicture(model, scene, timing);
  stage = new Stage(THEME);
  document.body.append(stage.element);
  stage.measure();
  stage.setPicture(picture, null);
  minimap = new Minimap(stage);
  stage.element.append(minimap.element);
});

describe('the map of a graph', () => {
  it('is there where the graph does not fit', () => {
    const whole = Camera.fit(picture.bounds, stage.width, stage.height, 20, 1);
    stage.camera.set(whole.k, whole.tx, whole.ty);
    minimap.update(THEME);
    expect(minimap.element.hidden).toBe(true);
    look(3);
    expect(minimap.element.hidden).toBe(false);
  });

  it('shows what a check says, not the times behind it', () => {
    const contexts: StubContext[] = [];
    HTMLCanvasElement.prototype.getContext = (() => {
      const made = new StubContext();
      contexts.push(made);
      return made;
    }) as never;
    const { model, scene, timing } = laidOut;
    const [first] = scene.items.filter(item => item.node !== null && item.container === null);
    const overlay = new Map([[first!.node!.node.id, { tone: 'bad' as const, text: 'wrong' }]]);
    stage.isHeat = true;
    stage.setPicture(makePicture(model, scene, timing, overlay), null);
    contexts.length = 0;
    look(3);
    const fills = contexts.flatMap(({ calls }) => calls.filter(({ name }) => name === 'fillRect')).map(({ fill }) => fill);
    expect(fills.filter(fill => fill === toneColors('bad', THEME).stripe)).toHaveLength(1);
    expect(fills.filter(fill => THEME.ramp.includes(fill))).toEqual([]);
  });

  it('is not there when nobody wants it, and comes back', () => {
    look(3);
    minimap.setWanted(false, THEME);
    expect([minimap.element.hidden, minimap.isWanted]).toEqual([true, false]);
    minimap.setWanted(true, THEME);
    expect(minimap.element.hidden).toBe(false);
  });

  it('goes by itself over a narrow drawing, and is still wanted', () => {
    look(3);
    stage.width = 470;
    minimap.update(THEME);
    expect([minimap.element.hidden, minimap.isWanted]).toEqual([true, true]);
    stage.width = 490;
    minimap.update(THEME);
    expect(minimap.element.hidden).toBe(false);
  });

  it('frames the part that is in view', () => {
    look(4);
    expect(frame().top).toBe(0);
    expect(frame().height / mapHeight()).toBeCloseTo(1 / 4);
    stage.camera.set(stage.camera.k, stage.camera.tx, stage.camera.ty - stage.height);
    minimap.update(THEME);
    expect(frame().top / mapHeight()).toBeCloseTo(1 / 4);
  });

  it('moves the view by the arrow keys, a third of it at a time, and keeps them to itself', () => {
    look(4);
    const { ty } = stage.camera;
    const heard = vi.fn();
    stage.element.addEventListener('keydown', heard);
    const press = (key: string): KeyboardEvent => {
      const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true });
      minimap.element.dispatchEvent(event);
      return event;
    };
    expect(press('ArrowDown').defaultPrevented).toBe(true);
    expect(stage.camera.ty).toBeCloseTo(ty - stage.height / 3);
    press('ArrowUp');
    expect(stage.camera.ty).toBeCloseTo(ty);
    expect(heard).not.toHaveBeenCalled();
    press('x');
    expect(heard).toHaveBeenCalledOnce();
  });

  it('puts the middle of the view where the pointer is pressed', () => {
    look(4);
    minimap.element.setPointerCapture = vi.fn();
    const at = { clientX: 0, clientY: mapHeight() / 2, bubbles: true };
    minimap.element.dispatchEvent(Object.assign(new MouseEvent('pointerdown', at), { pointerId: 1 }));
    const { bounds } = picture;
    expect(stage.camera.worldY(stage.height / 2)).toBeCloseTo(bounds.y + bounds.h / 2);
  });

  it('lets go of its canvas', () => {
    look(3);
    minimap.dispose();
    expect(minimap.element.querySelector('canvas')!.width).toBe(0);
  });
});
