import { describe, expect, it } from 'vitest';

import { Camera } from '../src/core/render/camera';
import { contrast, luminance, parseColor, type Rgb } from '../src/core/render/color';
import { Grid } from '../src/core/render/grid';
import { detailAt, Detail } from '../src/core/render/frame';
import { edgeDistance, paint, type IDrawn } from '../src/core/render/painter';
import { makePicture, type IPicture } from '../src/core/render/picture';
import { makeTheme, type ITheme } from '../src/core/render/theme';
import { StubContext } from './canvas';
import { broken, large, threeOps, transformer, withProfile } from './fixtures';
import { allBoxes, layOut, load } from './scene';

const THEMES: [string, ITheme][] = [
  ['light', makeTheme(false, null)],
  ['dark', makeTheme(true, null)],
  ['JupyterLab light', makeTheme(false, [255, 255, 255])],
  ['JupyterLab dark', makeTheme(true, [17, 17, 17])]
];

function pictureOf(document: Parameters<typeof load>[0], open?: 'all'): IPicture {
  const model = load(document);
  const { scene, timing } = layOut(model, open === 'all' ? allBoxes(model) : undefined);
  return makePicture(model, scene, timing);
}

function draw(
  picture: IPicture,
  camera: Camera,
  isHeat = false,
  theme = THEMES[0]![1]
): { ctx: StubContext; drawn: IDrawn } {
  const ctx = new StubContext();
  const drawn = paint(
    {
      ctx: ctx.real,
      theme,
      direction: picture.scene.direction,
      camera,
      width: 1000,
      height: 700,
      dpr: 2,
      isHeat,
      edgeAlpha: 1,
      detail: detailAt(camera.k)
    },
    picture
  );
  return { ctx, drawn };
}

function fit(picture: IPicture): Camera {
  return Camera.fit(picture.bounds, 1000, 700, 20, 1);
}

describe('drawing', () => {
  it('writes names, weights and types of a small graph', () => {
    const picture = pictureOf(threeOps());
    const { ctx, drawn } = draw(picture, fit(picture));
    expect(drawn).toEqual({ items: 5, edges: 4 });
    expect(ctx.texts()).toEqual(
      expect.arrayContaining(['mul', 'add', 'gelu', 'x', '▪ scale f32[2048]', 'f32[batch, 2048]'])
    );
  });

  it.each([
    ['always', 0.44, true],
    ['zoomed', 0.44, false],
    ['zoomed', 1, true]
  ] as const)('says what edges carry %s at zoom %s: %s', (types, k, isSaid) => {
    const picture = pictureOf(threeOps());
    const camera = new Camera();
    camera.set(k, 100, 20);
    const said = (types: 'always' | 'zoomed' | 'never'): number => {
      const ctx = new StubContext();
      const place = { camera, width: 1000, height: 700, dpr: 1, detail: detailAt(k) };
      paint({ ...place, ctx: ctx.real, theme: THEMES[0]![1], isHeat: false, direction: 'down', edgeAlpha: 1, types }, picture);
      return ctx.texts().length;
    };
    expect(said(types) > said('never')).toBe(isSaid);
  });

  it('says how many identical layers a folded box stands for', () => {
    const model = load(transformer(6));
    const { scene, timing } = layOut(model, new Set(['encoder']));
    const picture = makePicture(model, scene, timing);
    const camera = fit(picture);
    camera.zoomAt(1 / camera.k, 500, 350);
    expect(draw(picture, camera).ctx.texts()).toContain('layers ×6');
  });

  it('numbers heat, marks splits with ≈ and hatches them', () => {
    const picture = pictureOf(withProfile(transformer(2)), 'all');
    const camera = new Camera();
    const hot = [...picture.heat.entries()].find(([item, h]) => h.cost.approx && item.node !== null)!;
    camera.set(1, 500 - hot[0].x, 350 - hot[0].y);
    const cold = draw(picture, camera, false);
    const warm = draw(picture, camera, true);
    expect(warm.ctx.texts().some(t => /^≈[\d.]+ (µs|ms) · /.test(t))).toBe(true);
    expect(warm.ctx.count('clip')).toBeGreaterThan(cold.ctx.count('clip'));
    for (const [item, heat] of picture.heat) {
      expect(heat.t).toBeGreaterThanOrEqual(0);
      expect(heat.t).toBeLessThanOrEqual(1);
      expect(heat.text.includes('≈')).toBe(heat.cost.approx);
      expect(heat.text.startsWith('Σ ')).toBe(item.count > 1);
      expect(item.kind).not.toBe('input');
    }
  });

  it('marks the operation that failed', () => {
    const picture = pictureOf(broken());
    expect([...picture.errors].map(i => i.label)).toEqual(['matmul']);
    expect(draw(picture, fit(picture)).ctx.texts()).toContain('!');
  });

  it('draws only what is in view', () => {
    const picture = pictureOf(large(3000));
    const camera = new Camera();
    camera.set(1, 0, 0);
    const near = draw(picture, camera);
    const far = draw(picture, fit(picture));
    expect(near.drawn.items).toBeLessThan(150);
    expect(far.drawn.items).toBe(picture.scene.items.length);
  });

  it('leaves out detail from afar, so that ten thousand operations stay a few calls each', () => {
    const picture = pictureOf(large(10_000));
    const { ctx } = draw(picture, fit(picture));
    expect(ctx.texts()).toEqual([]);
    expect(ctx.count('stroke')).toBeLessThan(20);
    expect(ctx.count('bezierCurveTo')).toBe(0);
    expect([0.05, 0.2, 0.4, 1].map(detailAt)).toEqual([
      Detail.Dots,
      Detail.Shapes,
      Detail.Names,
      Detail.Full
    ]);
  });

  it('never hands the canvas a number that is not one', () => {
    for (const document of [threeOps(), withProfile(transformer(2)), broken()]) {
      const picture = pictureOf(document, 'all');
      for (const k of [0.05, 0.2, 0.4, 1]) {
        const camera = fit(picture);
        camera.zoomAt(k / camera.k, 500, 350);
        for (const { name, args } of draw(picture, camera, true).ctx.calls) {
          const bad = args.flat().filter(a => typeof a === 'number' && !Number.isFinite(a));
          expect(bad, name).toEqual([]);
        }
      }
    }
  });
});

describe('themes', () => {
  const rgb = (text: string): Rgb => parseColor(text)!;

  it.each(THEMES)('%s: text reaches 4.5:1 on what it lies on', (_, theme) => {
    const pairs: [string, string][] = [
      [theme.text, theme.background],
      [theme.muted, theme.background],
      [theme.text, theme.surface],
      [theme.muted, theme.surface],
      [theme.text, theme.boxFill],
      [theme.muted, theme.boxFill],
      [theme.text, theme.terminalFill],
      [theme.muted, theme.terminalFill],
      [theme.error, theme.errorFill],
      [theme.accent, theme.surface],
      ...theme.scopeFill.map((fill): [string, string] => [theme.text, fill]),
      ...theme.scopeFill.map((fill): [string, string] => [theme.edgeLabel, fill]),
      ...theme.ramp.map((fill, i): [string, string] => [theme.rampText[i]!, fill]),
      ...Object.values(theme.family).map((f): [string, string] => [f.title, f.fill]),
      ...Object.values(theme.family).map((f): [string, string] => [theme.muted, f.fill]),
      ...Object.values(theme.family).map((f): [string, string] => [theme.chipText, f.fill])
    ];
    const poor = pairs.filter(([a, b]) => contrast(rgb(a), rgb(b)) < 4.5);
    expect(poor.map(([a, b]) => `${a} on ${b}: ${contrast(rgb(a), rgb(b)).toFixed(2)}`)).toEqual([]);
  });

  it.each(THEMES)('%s: heat is ordered by lightness alone', (_, theme) => {
    const light = theme.ramp.map(c => luminance(rgb(c)));
    const sorted = [...light].sort((a, b) => (theme.isDark ? a - b : b - a));
    expect(light).toEqual(sorted);
    expect(new Set(theme.ramp).size).toBe(theme.ramp.length);
  });
});

describe('index and camera', () => {
  it('finds exactly what touches a window', () => {
    const grid = new Grid<number>(50);
    const boxes: [number, number, number, number][] = [];
    let seed = 3;
    const random = (n: number): number => {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      return (seed % n) - n / 2;
    };
    for (let i = 0; i < 400; i += 1) {
      const x = random(4000);
      const y = random(4000);
      boxes.push([x, y, x + Math.abs(random(i % 40 === 0 ? 3000 : 120)), y + Math.abs(random(90))]);
      grid.add(i, ...boxes[i]!);
    }
    for (let round = 0; round < 50; round += 1) {
      const x = random(4000);
      const y = random(4000);
      const w = Math.abs(random(round % 5 === 0 ? 6000 : 300));
      const expected = boxes.flatMap(([x0, y0, x1, y1], i) =>
        x0 <= x + w && x1 >= x && y0 <= y + w && y1 >= y ? [i] : []
      );
      expect(grid.query(x, y, x + w, y + w)).toEqual(expected);
    }
  });

  it('zooms about the pointer and fits what it is given', () => {
    const camera = Camera.fit({ x: 100, y: 50, w: 400, h: 900 }, 800, 600, 20, 1);
    expect(camera.worldX(400)).toBeCloseTo(300);
    expect(camera.worldY(300)).toBeCloseTo(500);
    const before = [camera.worldX(123), camera.worldY(45)];
    camera.zoomAt(1.7, 123, 45);
    expect(camera.worldX(123)).toBeCloseTo(before[0]!);
    expect(camera.worldY(45)).toBeCloseTo(before[1]!);
  });

  it('measures the distance to a drawn edge', () => {
    const straight = Float32Array.of(0, 0, 0, 100);
    expect(edgeDistance(straight, 3, 50)).toBeCloseTo(3);
    const bend = Float32Array.of(0, 0, 100, 100);
    expect(edgeDistance(bend, 50, 50)).toBeLessThan(1);
    expect(edgeDistance(bend, 0, 100)).toBeGreaterThan(20);
  });
});
