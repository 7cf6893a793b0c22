/**
 * Draws the part of a picture that is in view: boxes, edges, nodes, then text, each in as few path
 * calls as the styles allow, with less detail the further out the camera is.
 */

import type { ISurface } from './surface';
import type { IEdge, IItem } from '../model/scene';
import { METRICS } from '../model/metrics';
import { cropped, Detail, EDGE_TEXT_ZOOM, inFlow, OUTSIDE_PX, screenRect, snap, type IFrame, type IScreenRect } from './frame';
import { paintBoxHeader, paintEdgeLabels, paintFarTitles, paintItemText } from './labels';
import { drawnLines } from './meeting';
import type { IPicture } from './picture';
import { rampIndex, scaleColors, scopeFill } from './theme';
import { toneColors } from './tones';
import { at } from '../narrow';
import { num } from '../num';

/** How far the control points of a bend lie from its ends, as a part of its height. */
const CURVE_REACH = 0.55;

/** Of the corners of a turn, in world units. */
const TURN_RADIUS = 9;

export interface IDrawn {
  items: number;
  edges: number;
}

/** Draws one frame; returns how much was in view. */
export function paint(frame: IFrame, picture: IPicture, isMoving = false): IDrawn {
  const { ctx, theme, camera, width, height, dpr } = frame;
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, width, height);
  const x0 = camera.worldX(0) - 20;
  const y0 = camera.worldY(0) - 20;
  const x1 = camera.worldX(width) + 20;
  const y1 = camera.worldY(height) + 20;
  // While boxes move, the index is of the places they move to.
  const items = isMoving ? picture.scene.items : picture.items.query(x0, y0, x1, y1);
  const edges = frame.edgeAlpha > 0 ? picture.edges.query(x0, y0, x1, y1) : [];
  const boxes: IItem[] = [];
  const leaves: IItem[] = [];
  for (const item of items) {
    (item.container !== null ? boxes : leaves).push(item);
  }
  paintBoxes(frame, boxes);
  ctx.globalAlpha = frame.edgeAlpha;
  inFlow(frame, flow => paintEdges(flow, edges));
  ctx.globalAlpha = 1;
  paintLeaves(frame, picture, leaves);
  for (const box of boxes) {
    paintBoxHeader(frame, picture, box);
  }
  if (frame.detail === Detail.Full) {
    paintItemText(frame, picture, leaves);
  } else {
    paintFarTitles(frame, picture, leaves);
  }
  const { types = 'zoomed' } = frame;
  const hasTypes = types === 'always' || (types === 'zoomed' && camera.k >= EDGE_TEXT_ZOOM);
  if (hasTypes && frame.edgeAlpha === 1) {
    paintEdgeLabels(frame, picture.labels.query(x0, y0, x1, y1), picture.items);
  }
  return { items: items.length, edges: edges.length };
}

function outline(ctx: ISurface, r: IScreenRect, radius: number, dpr: number): void {
  const half = 0.5 / dpr;
  ctx.roundRect(r.x + half, r.y + half, r.w - 2 * half, r.h - 2 * half, radius);
}

function paintBoxes(frame: IFrame, boxes: readonly IItem[]): void {
  const { ctx, theme, camera, dpr } = frame;
  ctx.lineWidth = 1;
  for (const box of boxes) {
    const r = cropped(frame, screenRect(frame, box));
    ctx.beginPath();
    outline(ctx, r, Math.min(10, 10 * camera.k + 1), dpr);
    ctx.fillStyle = scopeFill(theme, box.depth);
    ctx.fill();
    ctx.strokeStyle = theme.scopeLine;
    if (box.kind === 'run') {
      ctx.setLineDash([5, 4]);
      ctx.stroke();
      ctx.setLineDash([]);
    } else {
      ctx.stroke();
    }
  }
}

/** Adds the curve of an edge: straight where it runs down, an S where it changes columns. */
export function traceEdge(frame: IFrame, edge: IEdge, start: number): void {
  for (const points of linesIn(frame, edge)) {
    // A line that begins at a port of its own shares no trunk, and its points are others.
    const first = points[0] === edge.points[0] ? start : 0;
    if (edge.isTurn) {
      traceTurn(frame, points, points.length / 2);
    } else if (edge.isAround) {
      traceAround(frame, points, first);
    } else {
      traceDown(frame, points, first);
    }
  }
}

function linesIn({ meetings = null, camera }: IFrame, edge: IEdge): readonly Float32Array[] {
  return drawnLines(edge, meetings, camera.k);
}

/** Adds the way of a turn: straight lines with round corners, up to the point `end`. */
function traceTurn(frame: IFrame, points: Float32Array, end: number): void {
  const { ctx, camera } = frame;
  const { k, tx, ty } = camera;
  const at = (i: number): [number, number] => [num(points[2 * i]) * k + tx, num(points[2 * i + 1]) * k + ty];
  ctx.moveTo(...at(0));
  for (let i = 1; i + 1 < end; i += 1) {
    ctx.arcTo(...at(i), ...at(i + 1), TURN_RADIUS * k);
  }
  ctx.lineTo(...at(end - 1));
}

/** Adds a line around the end of a column: round corners where it turns, an S where it bends. */
function traceAround(frame: IFrame, points: Float32Array, start: number): void {
  const { ctx, camera } = frame;
  const { k, tx, ty } = camera;
  const at = (i: number): [number, number] => [num(points[2 * i]) * k + tx, num(points[2 * i + 1]) * k + ty];
  const n = points.length / 2;
  let before = at(start);
  ctx.moveTo(...before);
  for (let i = start + 1; i < n; i += 1) {
    const here = at(i);
    const isDown = Math.abs(here[0] - before[0]) < 0.7;
    const isAcross = Math.abs(here[1] - before[1]) < 0.7;
    if (frame.detail === Detail.Dots) {
      ctx.lineTo(...here);
    } else if (!isDown && !isAcross) {
      const reach = Math.max(Math.abs(here[1] - before[1]) * CURVE_REACH, 10 * k);
      ctx.bezierCurveTo(before[0], before[1] + reach, here[0], here[1] - reach, ...here);
    } else if (i + 1 < n && isAcross !== Math.abs(at(i + 1)[1] - here[1]) < 0.7) {
      ctx.arcTo(...here, ...at(i + 1), TURN_RADIUS * k);
    } else {
      ctx.lineTo(...here);
    }
    before = here;
  }
}

function traceDown(frame: IFrame, points: Float32Array, start: number): void {
  const { ctx, camera, height } = frame;
  const { k, tx, ty } = camera;
  const isStraight = frame.detail === Detail.Dots;
  let px = num(points[start * 2]) * k + tx;
  let py = num(points[start * 2 + 1]) * k + ty;
  let isDown = false;
  for (let i = start * 2 + 2; i < points.length; i += 2) {
    const x = num(points[i]) * k + tx;
    const y = num(points[i + 1]) * k + ty;
    // Long edges are mostly out of view; the canvas would still rasterise all of them.
    if (Math.max(y, py) < -OUTSIDE_PX || Math.min(y, py) > height + OUTSIDE_PX) {
      isDown = false;
      px = x;
      py = y;
      continue;
    }
    if (!isDown) {
      ctx.moveTo(px, py);
      isDown = true;
    }
    if (isStraight || Math.abs(x - px) < 0.7) {
      ctx.lineTo(x, y);
    } else {
      const reach = Math.max(Math.abs(y - py) * CURVE_REACH, 10 * k);
      ctx.bezierCurveTo(px, py + reach, x, y - reach, x, y);
    }
    px = x;
    py = y;
  }
}

/** Distance of a point of the flow from the drawn curve, in world units; curves are sampled. */
export function edgeDistance(points: Float32Array, x: number, y: number): number {
  let best = Number.POSITIVE_INFINITY;
  for (let i = 2; i < points.length; i += 2) {
    const x0 = num(points[i - 2]);
    const y0 = num(points[i - 1]);
    const x1 = num(points[i]);
    const y1 = num(points[i + 1]);
    // The lines of a turn across are straight.
    const steps = Math.abs(x1 - x0) < 0.7 || Math.abs(y1 - y0) < 0.05 ? 1 : 12;
    const reach = steps === 1 ? 0 : Math.max(Math.abs(y1 - y0) * CURVE_REACH, 10);
    let px = x0;
    let py = y0;
    for (let s = 1; s <= steps; s += 1) {
      const t = s / steps;
      const u = 1 - t;
      // The control points of `traceEdge`: the same x as their ends, `reach` above or below.
      const qx = steps === 1 ? x1 : (u * u * u + 3 * u * u * t) * x0 + (3 * u * t * t + t * t * t) * x1;
      const qy =
        steps === 1
          ? y1
          : u * u * u * y0 + 3 * u * u * t * (y0 + reach) + 3 * u * t * t * (y1 - reach) + t * t * t * y1;
      best = Math.min(best, segmentDistance(x, y, px, py, qx, qy));
      px = qx;
      py = qy;
    }
  }
  return best;
}

function segmentDistance(x: number, y: number, ax: number, ay: number, bx: number, by: number): number {
  const dx = bx - ax;
  const dy = by - ay;
  const length = dx * dx + dy * dy;
  const t = length === 0 ? 0 : Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / length));
  return Math.hypot(x - ax - t * dx, y - ay - t * dy);
}

function paintEdges(frame: IFrame, edges: readonly IEdge[]): void {
  const { ctx, theme, camera, detail } = frame;
  ctx.strokeStyle = theme.edge;
  const isStraight = detail === Detail.Dots;
  const thin = isStraight ? 0.6 : Math.max(0.9, Math.min(1.6, 1.35 * camera.k));
  for (const isThick of [false, true]) {
    let count = 0;
    ctx.beginPath();
    for (const edge of edges) {
      if (edge.values.length > 1 === isThick && edge.points.length >= 4 && !edge.isTurn) {
        traceEdge(frame, edge, edge.start);
        count += 1;
      }
    }
    if (count > 0) {
      ctx.lineWidth = isThick ? thin * 1.9 : thin;
      ctx.stroke();
    }
  }
  const turns = edges.filter(edge => edge.isTurn && edge.points.length >= 4);
  if (turns.length > 0) {
    ctx.lineWidth = thin;
    ctx.setLineDash([5 * camera.k, 4 * camera.k]);
    ctx.beginPath();
    turns.forEach(edge => traceTurn(frame, edge.points, edge.end));
    ctx.stroke();
    ctx.setLineDash([]);
  }
  if (detail >= Detail.Names) {
    paintArrows(frame, edges, theme.edge);
  }
}

/** Arrow heads where edges end at something that is not a border they pass through. */
export function paintArrows(frame: IFrame, edges: readonly IEdge[], color: string): void {
  const { ctx, camera } = frame;
  const { k, tx, ty } = camera;
  const size = Math.max(3.2, 6.5 * k);
  ctx.fillStyle = color;
  ctx.beginPath();
  for (const edge of edges) {
    const { to } = edge;
    if (to === null || to.container !== null) {
      continue;
    }
    for (const points of linesIn(frame, edge)) {
      if (points.length >= 4) {
        const x = num(points[points.length - 2]) * k + tx;
        const y = num(points[points.length - 1]) * k + ty;
        ctx.moveTo(x, y);
        ctx.lineTo(x - size * 0.55, y - size);
        ctx.lineTo(x + size * 0.55, y - size);
        ctx.closePath();
      }
    }
  }
  ctx.fill();
}

/** Groups items by key, so that each style is one path. */
interface IStyledItems {
  style: IStyle;
  items: IItem[];
}

/** The items by fill and border, so that each style is set once. */
function groups(frame: IFrame, picture: IPicture, items: readonly IItem[]): Iterable<IStyledItems> {
  const found = new Map<string, IStyledItems>();
  for (const item of items) {
    const style = styleOf(frame, picture, item);
    const key = `${style.fill}|${style.border}|${style.isDashed}`;
    const group = found.get(key);
    if (group === undefined) {
      found.set(key, { style, items: [item] });
    } else {
      group.style = style;
      group.items.push(item);
    }
  }
  return found.values();
}

interface IStyle {
  /** Not whole yet. */
  isDashed: boolean;
  fill: string;
  border: string;
  stripe: string;
}

function styleOf(frame: IFrame, picture: IPicture, item: IItem): IStyle {
  const { theme } = frame;
  if (picture.errors.has(item)) {
    const isDashed = item.node?.isDraft === true;
    return { fill: theme.errorFill, border: theme.error, stripe: isDashed ? '' : theme.error, isDashed };
  }
  if (item.kind === 'input' || item.kind === 'output') {
    return { fill: theme.terminalFill, border: theme.terminalBorder, stripe: '', isDashed: false };
  }
  if (picture.notes !== null) {
    return { ...toneColors(picture.notes.get(item)?.tone ?? 'quiet', theme), isDashed: false };
  }
  if (frame.isHeat) {
    const heat = picture.heat.get(item);
    if (heat !== undefined) {
      const { fill } = scaleColors(theme, picture.isDiverging, heat.t);
      return { fill, border: theme.scopeLine, stripe: '', isDashed: false };
    }
    return { fill: theme.surface, border: theme.line, stripe: '', isDashed: false };
  }
  if (item.node === null) {
    return { fill: theme.boxFill, border: theme.boxBorder, stripe: '', isDashed: false };
  }
  const colors = theme.family[item.node.family];
  const stripe = item.node.family === 'view' ? '' : colors.stripe;
  return { fill: colors.fill, border: colors.border, stripe, isDashed: false };
}

function radiusOf(item: IItem, h: number, k: number): number {
  const isPill = item.kind === 'input' || item.kind === 'output' || item.node?.family === 'view';
  return isPill ? Math.min(h / 2, 13 * k) : Math.min(h / 2, 6 * k);
}

function paintLeaves(frame: IFrame, picture: IPicture, leaves: readonly IItem[]): void {
  const { ctx, camera, dpr, detail, theme } = frame;
  const byStyle = groups(frame, picture, leaves);
  if (detail === Detail.Dots) {
    for (const { style, items } of byStyle) {
      const { fill, border, stripe } = style;
      // Far out a pale fill would vanish: the strong colour of the style stands for it.
      ctx.fillStyle = frame.isHeat && picture.notes === null ? fill : stripe || border;
      for (const item of items) {
        const r = screenRect(frame, item);
        ctx.fillRect(r.x, r.y, Math.max(r.w, 1), Math.max(r.h, 1));
      }
    }
    return;
  }
  paintSheets(frame, leaves);
  for (const { style, items } of byStyle) {
    const { fill, border, stripe, isDashed } = style;
    ctx.beginPath();
    for (const item of items) {
      const r = bodyRect(frame, item);
      outline(ctx, r, radiusOf(item, r.h, camera.k), dpr);
    }
    ctx.fillStyle = fill;
    ctx.fill();
    ctx.strokeStyle = border;
    ctx.lineWidth = border === theme.error ? 2 : 1;
    ctx.setLineDash(isDashed ? [6, 4] : []);
    ctx.stroke();
    ctx.setLineDash([]);
    if (stripe !== '') {
      ctx.fillStyle = stripe;
      ctx.beginPath();
      for (const item of items) {
        const r = screenRect(frame, item);
        const bar = Math.max(2, 4 * camera.k);
        const radius = Math.min(bar, 6 * camera.k);
        ctx.roundRect(r.x, r.y, bar, r.h, [radius, 0, 0, radius]);
      }
      ctx.fill();
    }
  }
  if (frame.isHeat && picture.notes === null) {
    paintHatch(frame, picture, leaves);
  }
}

/** The body of an item; a run leaves room for the sheets behind it. */
function bodyRect(frame: IFrame, item: IItem): IScreenRect {
  const r = screenRect(frame, item);
  if (item.count > 1) {
    const off = snap(METRICS.stack * frame.camera.k, frame.dpr);
    return { x: r.x, y: r.y + off, w: r.w - off, h: r.h - off };
  }
  return r;
}

/** A folded run looks like a stack of sheets. */
function paintSheets(frame: IFrame, leaves: readonly IItem[]): void {
  const { ctx, theme, camera, dpr } = frame;
  ctx.fillStyle = theme.boxFill;
  ctx.strokeStyle = theme.boxBorder;
  ctx.lineWidth = 1;
  for (const item of leaves) {
    if (item.count < 2) {
      continue;
    }
    const r = screenRect(frame, item);
    const off = METRICS.stack * camera.k;
    for (const part of [1, 0.5]) {
      const d = snap(off * part, dpr);
      ctx.beginPath();
      outline(
        ctx,
        { x: r.x + d, y: r.y + snap(off, dpr) - d, w: r.w - snap(off, dpr), h: r.h - snap(off, dpr) },
        6 * camera.k,
        dpr
      );
      ctx.fill();
      ctx.stroke();
    }
  }
}

/** Diagonal lines over items whose time is part of a kernel that they share. */
function paintHatch(frame: IFrame, picture: IPicture, leaves: readonly IItem[]): void {
  const { ctx, theme, camera } = frame;
  const shared = leaves.filter(item => picture.heat.get(item)?.cost.approx === true);
  if (shared.length === 0) {
    return;
  }
  ctx.lineWidth = Math.max(1, 2 * camera.k);
  const step = Math.max(5, 9 * camera.k);
  for (const item of shared) {
    const r = bodyRect(frame, item);
    ctx.save();
    ctx.beginPath();
    outline(ctx, r, radiusOf(item, r.h, camera.k), frame.dpr);
    ctx.clip();
    ctx.beginPath();
    ctx.strokeStyle = at(theme.rampHatch, rampIndex(picture.heat.get(item)?.t ?? 0));
    for (let d = -r.h; d < r.w; d += step) {
      ctx.moveTo(r.x + d, r.y + r.h);
      ctx.lineTo(r.x + d + r.h, r.y);
    }
    ctx.stroke();
    ctx.restore();
  }
}
