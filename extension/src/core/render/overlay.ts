/** The layer above the scene: hover, selection, keyboard focus, search hits, edges that belong to them. */

import type { IChange } from '../model/changes';
import type { IEdge, IItem } from '../model/scene';
import { paintEdgeLabels } from './labels';
import type { IEdgeLabel } from './picture';
import { cropped, Detail, inFlow, screenRect, type IFrame } from './frame';
import { paintArrows, traceEdge } from './painter';

export interface IMarks {
  hover: IItem | null;
  /** Item that has the keyboard, outlined only while the keyboard is in use. */
  focus: IItem | null;
  selected: readonly IItem[];
  /** Other items of the same kernels as the selection. */
  mates: readonly IItem[];
  hits: readonly IItem[];
  currentHit: IItem | null;
  edges: readonly IEdge[];
  /** What changed since the last run. */
  changes: ReadonlyMap<IItem, IChange>;
}

/** Radius of the badge on a change, in world units, and how small it may get on the screen. */
const BADGE = 8;
const MIN_BADGE_PX = 3;
/** With a sign on it. */
const MIN_SIGN_PX = 6;

function ring(frame: IFrame, item: IItem, grow: number, width: number, color: string): void {
  const { ctx, camera } = frame;
  const r = cropped(frame, screenRect(frame, item));
  const radius = (item.container !== null ? 10 : 6) * camera.k + grow;
  ctx.beginPath();
  ctx.roundRect(r.x - grow, r.y - grow, r.w + 2 * grow, r.h + 2 * grow, radius);
  ctx.strokeStyle = color;
  ctx.lineWidth = width;
  ctx.stroke();
}

/**
 * An outline, and a badge on the corner: a plus on what is new, a delta on what changed. Beside another
 * graph what that does not have is dashed, with a minus.
 */
function paintChange(frame: IFrame, item: IItem, { isNew, count, kind }: IChange): void {
  const { ctx, theme, camera, detail } = frame;
  const color = kind === 'removed' ? theme.error : kind === 'changed' ? theme.differs : theme.change;
  ctx.setLineDash(kind === 'removed' ? [6, 3] : []);
  ring(frame, item, 1.5, 2, color);
  ctx.setLineDash([]);
  const { x, y, w } = screenRect(frame, item);
  const hasSign = detail >= Detail.Names;
  const radius = Math.max(hasSign ? MIN_SIGN_PX : MIN_BADGE_PX, BADGE * camera.k);
  ctx.beginPath();
  ctx.arc(x + w, y, radius, 0, 2 * Math.PI);
  ctx.fillStyle = color;
  ctx.fill();
  if (hasSign) {
    ctx.fillStyle = theme.background;
    ctx.font = `700 ${(1.45 * radius).toFixed(1)}px ${theme.fontUi}`;
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    const whole = kind === 'removed' ? '−' : '+';
    ctx.fillText(isNew ? whole : item.box !== null && count < 100 ? String(count) : 'Δ', x + w, y + 0.08 * radius);
    ctx.textAlign = 'start';
    ctx.textBaseline = 'alphabetic';
  }
}

/** The edges that are lit, in the space of the flow. */
function paintLit(frame: IFrame, edges: readonly IEdge[]): void {
  const { ctx, theme, camera, detail } = frame;
  ctx.strokeStyle = theme.accent;
  ctx.lineWidth = Math.max(1.6, 2.1 * camera.k);
  ctx.beginPath();
  for (const edge of edges) {
    if (edge.points.length >= 4) {
      traceEdge(frame, edge, 0);
    }
  }
  ctx.stroke();
  if (detail >= Detail.Names) {
    paintArrows(frame, edges, theme.accent);
  }
}

/** Draws what changed since the last run, or is different beside another graph. */
export function paintChanges(frame: IFrame, changes: IMarks['changes']): void {
  for (const [item, change] of changes) {
    const r = screenRect(frame, item);
    if (r.x <= frame.width && r.y <= frame.height && r.x + r.w >= 0 && r.y + r.h >= 0) {
      paintChange(frame, item, change);
    }
  }
}

/** Draws the marks; `labels` are the types on the lit edges, which the edges must not cross out. */
export function paintOverlay(
  frame: IFrame,
  marks: IMarks,
  labels: readonly IEdgeLabel[] = []
): void {
  const { ctx, theme, width, height, dpr, detail } = frame;
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  ctx.clearRect(0, 0, width, height);
  const isVisible = (item: IItem): boolean => {
    const r = screenRect(frame, item);
    return r.x <= width && r.y <= height && r.x + r.w >= 0 && r.y + r.h >= 0;
  };
  paintChanges(frame, marks.changes);
  if (marks.edges.length > 0 && frame.edgeAlpha === 1) {
    inFlow(frame, flow => paintLit(flow, marks.edges));
    if (detail === Detail.Full) {
      paintEdgeLabels(frame, labels);
    }
  }
  for (const item of marks.hits) {
    if (isVisible(item)) {
      ring(frame, item, 2, 2, theme.chip);
    }
  }
  ctx.setLineDash([4, 3]);
  for (const item of marks.mates) {
    if (isVisible(item)) {
      ring(frame, item, 2.5, 1.5, theme.accent);
    }
  }
  ctx.setLineDash([]);
  for (const item of marks.selected) {
    if (isVisible(item)) {
      ring(frame, item, 3.5, 4, theme.accentSoft);
      ring(frame, item, 1, 2, theme.accent);
    }
  }
  if (marks.hover !== null && !marks.selected.includes(marks.hover)) {
    ring(frame, marks.hover, 0.5, 1.5, theme.accent);
  }
  if (marks.currentHit !== null) {
    ring(frame, marks.currentHit, 4, 3, theme.chip);
  }
  if (marks.focus !== null && isVisible(marks.focus)) {
    ring(frame, marks.focus, 5, 2, theme.accent);
  }
}
