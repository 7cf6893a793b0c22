/** Ports on the layer above the scene, the line that is dragged from one of them, and what does not fit. */

import type { IEdge, IItem } from '../model/scene';
import { cropped, inFlow, screenRect, type IFrame } from './frame';
import { traceEdge } from './painter';

/** `idle` can be taken hold of; the others say what becomes of a drop there. */
export type PortState = 'idle' | 'held' | 'fits' | 'refused' | 'same';

export interface IPortMark {
  x: number;
  y: number;
  isResult: boolean;
  state: PortState;
  /** A drop now would be here. */
  isNear: boolean;
}

export interface IPortMarks {
  ports: readonly IPortMark[];
  /** The line that is dragged. */
  line: { x0: number; y0: number; x1: number; y1: number } | null;
  /** What nothing that is dragged can be connected to. */
  dimmed: readonly IItem[];
  /** What a drop would put something on. */
  edge: IEdge | null;
}

const RADIUS = 4.5;
const FIT_RADIUS = 6;

export function paintPorts(frame: IFrame, { ports, line, dimmed, edge }: IPortMarks): void {
  const { ctx, theme, direction } = frame;
  if (dimmed.length > 0) {
    ctx.globalAlpha = 0.6;
    ctx.fillStyle = theme.background;
    for (const item of dimmed) {
      const r = cropped(frame, screenRect(frame, item));
      ctx.fillRect(r.x - 1, r.y - 1, r.w + 2, r.h + 2);
    }
    ctx.globalAlpha = 1;
  }
  if (edge !== null) {
    inFlow(frame, flow => {
      ctx.strokeStyle = theme.accent;
      ctx.lineWidth = 4;
      ctx.beginPath();
      traceEdge(flow, edge, 0);
      ctx.stroke();
    });
  }
  if (line !== null) {
    const { x0, y0, x1, y1 } = line;
    const bend = Math.min(60, Math.hypot(x1 - x0, y1 - y0) / 2);
    const [bx, by] = direction === 'down' ? [0, bend] : [bend, 0];
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 2;
    ctx.setLineDash([6, 4]);
    ctx.beginPath();
    ctx.moveTo(x0, y0);
    ctx.bezierCurveTo(x0 + bx, y0 + by, x1 - bx, y1 - by, x1, y1);
    ctx.stroke();
    ctx.setLineDash([]);
  }
  for (const port of ports) {
    paintPort(frame, port);
  }
}

function circle(frame: IFrame, x: number, y: number, radius: number): void {
  frame.ctx.beginPath();
  frame.ctx.arc(x, y, radius, 0, 2 * Math.PI);
}

/** Told apart by their shape, not by colour alone: full fits, a cross does not, a ring is there now. */
function paintPort(frame: IFrame, { x, y, isResult, state, isNear }: IPortMark): void {
  const { ctx, theme } = frame;
  if (isNear) {
    circle(frame, x, y, FIT_RADIUS + 5);
    ctx.fillStyle = theme.accentSoft;
    ctx.fill();
    ctx.strokeStyle = state === 'refused' ? theme.error : theme.accent;
    ctx.lineWidth = 1.5;
    ctx.stroke();
  }
  const isOpen = state === 'idle' && !isResult;
  const color = state === 'refused' ? (isNear ? theme.error : theme.muted) : theme.accent;
  circle(frame, x, y, state === 'fits' || state === 'held' ? FIT_RADIUS : RADIUS);
  ctx.fillStyle = isOpen || state === 'refused' || state === 'same' ? theme.surface : color;
  ctx.fill();
  ctx.strokeStyle = color;
  ctx.lineWidth = state === 'same' ? 2.5 : 1.5;
  ctx.stroke();
  if (state === 'refused') {
    const arm = RADIUS * 0.55;
    ctx.beginPath();
    ctx.moveTo(x - arm, y - arm);
    ctx.lineTo(x + arm, y + arm);
    ctx.moveTo(x + arm, y - arm);
    ctx.lineTo(x - arm, y + arm);
    ctx.stroke();
  } else if (state === 'fits' || state === 'held') {
    circle(frame, x, y, 2);
    ctx.fillStyle = theme.surface;
    ctx.fill();
  }
}
