/** The layer above the scene: hover, selection, keyboard focus, search hits, edges that belong to them. */

import { type IChange, SIGNS } from '../model/changes';
import type { IEdge, IItem } from '../model/scene';
import { paintEdgeLabels } from './labels';
import type { IEdgeLabel } from './picture';
import { cropped, Detail, inFlow, screenRect, type IFrame } from './frame';
import { paintArrows, traceEdge } from './painter';
import { paintPorts, type IPortMarks } from './ports';

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
  /** Items that people pinned where they stand. */
  pinned: readonly IItem[];
  /** What changed since the last run. */
  changes: ReadonlyMap<IItem, IChange>;
  /** Items that conflicts of a merge are about. */
  conflicts: readonly IItem[];
  /** Edges that only one of two graphs has, where both are drawn in one picture. */
  apart: { lost: readonly IEdge[]; gained: readonly IEdge[] } | null;
  /** What a run failed at; null where none did. */
  failed: IFailure | null;
  /** Where edges can be taken hold of; null where nobody edits. */
  ports: IPortMarks | null;
}

/** The operation, or the folded box with it, that a run failed at, and what leads to it. */
export interface IFailure {
  item: IItem;
  /** Why. */
  says: string;
  operands: readonly IItem[];
  edges: readonly IEdge[];
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
  const { ctx, theme } = frame;
  const isWhole = kind === undefined || kind === 'added';
  const color = kind === 'removed' ? theme.error : isWhole ? theme.change : theme.differs;
  ctx.setLineDash(kind === 'removed' ? [6, 3] : kind === 'moved' || kind === 'renamed' ? [2, 3] : []);
  ring(frame, item, 1.5, 2, color);
  ctx.setLineDash([]);
  const isSigned = isNew || (kind !== undefined && kind !== 'changed');
  const sign = isSigned ? SIGNS[kind ?? 'added'] : item.box !== null && count < 100 ? String(count) : 'Δ';
  paintBadge(frame, item, color, sign);
}

/** An outline, and a badge with an exclamation mark on the lower right corner. */
function paintConflict(frame: IFrame, item: IItem): void {
  const { ctx, theme, camera, detail } = frame;
  ctx.setLineDash([8, 3, 2, 3]);
  ring(frame, item, 3, 2, theme.differs);
  ctx.setLineDash([]);
  if (detail >= Detail.Names) {
    const { x, y, w, h } = screenRect(frame, item);
    const radius = Math.max(MIN_SIGN_PX, BADGE * camera.k);
    ctx.beginPath();
    ctx.arc(x + w, y + h, radius, 0, 2 * Math.PI);
    ctx.fillStyle = theme.differs;
    ctx.fill();
    ctx.fillStyle = theme.background;
    ctx.font = `700 ${(1.45 * radius).toFixed(1)}px ${theme.fontUi}`;
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    ctx.fillText('!', x + w, y + h + 0.08 * radius);
    ctx.textAlign = 'start';
    ctx.textBaseline = 'alphabetic';
  }
}

/** A round badge with a sign on the upper right corner. */
function paintBadge(frame: IFrame, item: IItem, color: string, sign: string): void {
  const { ctx, theme, camera, detail } = frame;
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
    ctx.fillText(sign, x + w, y + 0.08 * radius);
    ctx.textAlign = 'start';
    ctx.textBaseline = 'alphabetic';
  }
}

/** A thick ring with an exclamation mark on what failed; what it read is dashed, and so are its edges. */
function paintFailure(frame: IFrame, { item, operands, edges }: IFailure): void {
  const { ctx, theme, camera } = frame;
  ctx.setLineDash([3, 3]);
  if (frame.edgeAlpha === 1) {
    inFlow(frame, flow => {
      ctx.strokeStyle = theme.error;
      ctx.lineWidth = Math.max(1.6, 2.1 * camera.k);
      ctx.beginPath();
      edges.filter(edge => edge.points.length >= 4).forEach(edge => traceEdge(flow, edge, 0));
      ctx.stroke();
    });
  }
  operands.forEach(operand => ring(frame, operand, 2, 1.5, theme.error));
  ctx.setLineDash([]);
  ring(frame, item, 2.5, 3.5, theme.error);
  paintBadge(frame, item, theme.error, '!');
}

/** Draws pins on the items of `pinned` that can be seen. */
export function paintPins(frame: IFrame, pinned: readonly IItem[]): void {
  for (const item of pinned) {
    const r = screenRect(frame, item);
    if (r.x <= frame.width && r.y <= frame.height && r.x + r.w >= 0 && r.y + r.h >= 0) {
      paintPin(frame, item);
    }
  }
}

/** The head of a drawing pin on the upper left corner. */
function paintPin(frame: IFrame, item: IItem): void {
  const { ctx, theme, camera, detail } = frame;
  if (detail === Detail.Dots) {
    return;
  }
  const { x, y } = screenRect(frame, item);
  const radius = Math.max(4, 6.5 * camera.k);
  for (const [part, color] of [[1.28, theme.background], [1, theme.accent], [0.38, theme.background]] as const) {
    ctx.beginPath();
    ctx.arc(x + 1, y + 1, radius * part, 0, 2 * Math.PI);
    ctx.fillStyle = color;
    ctx.fill();
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

/** The edges of the first graph alone, dashed, and those of the second. */
function paintApart(frame: IFrame, { lost, gained }: NonNullable<IMarks['apart']>): void {
  const { ctx, theme, camera, detail } = frame;
  for (const [edges, color, dash] of [
    [gained, theme.change, []],
    [lost, theme.error, [6, 4]]
  ] as const) {
    const drawn = edges.filter(edge => edge.points.length >= 4);
    ctx.strokeStyle = color;
    ctx.lineWidth = Math.max(1.4, 2 * camera.k);
    ctx.setLineDash([...dash]);
    ctx.beginPath();
    drawn.forEach(edge => traceEdge(frame, edge, 0));
    ctx.stroke();
    ctx.setLineDash([]);
    if (detail >= Detail.Names) {
      paintArrows(frame, drawn, color);
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
  const { apart } = marks;
  if (apart !== null && frame.edgeAlpha === 1) {
    inFlow(frame, flow => paintApart(flow, apart));
  }
  paintChanges(frame, marks.changes);
  for (const item of marks.conflicts) {
    if (isVisible(item)) {
      paintConflict(frame, item);
    }
  }
  for (const item of marks.pinned) {
    if (isVisible(item)) {
      paintPin(frame, item);
    }
  }
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
  if (marks.failed !== null && isVisible(marks.failed.item)) {
    paintFailure(frame, marks.failed);
  }
  if (marks.ports !== null) {
    paintPorts(frame, marks.ports);
  }
}
