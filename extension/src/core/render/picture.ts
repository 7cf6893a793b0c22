/** A laid-out scene prepared for drawing: spatial indexes, edge labels, heat of every item. */

import type { IOverlay } from '../../proto/document';
import { formatShare, formatTime } from '../model/format';
import type { GraphModel } from '../model/graph';
import { turned, turnedPoint, type Direction } from '../model/flow';
import { METRICS, monoWidth } from '../model/metrics';
import { numbersOf, type IHeat } from '../model/numbers';
import type { IContainer, IEdge, IItem, IScene } from '../model/scene';
import type { Timing } from '../model/timing';
import type { IRect } from './camera';
import { Grid } from './grid';
import { meetingsOf, type Meetings } from './meeting';
import { noteText, notesOf, type IToneNote, type Overlay } from './tones';
import { num } from '../num';

export interface IEdgeLabel {
  text: string;
  x: number;
  y: number;
  w: number;
  from: IItem;
  /** Depth of the container it lies in, for the colour behind it. */
  depth: number;
}

export interface IPicture {
  scene: IScene;
  items: Grid<IItem>;
  edges: Grid<IEdge>;
  labels: Grid<IEdgeLabel>;
  /** Every edge, for counting and tests. */
  allEdges: IEdge[];
  heat: Map<IItem, IHeat>;
  /** What an overlay says of items, instead of their heat; null without one. */
  notes: Map<IItem, IToneNote> | null;
  /** The heat is of numbers around zero. */
  isDiverging: boolean;
  errors: Set<IItem>;
  /** The edges that end at ports; null where no ports are shown. */
  meetings: Meetings | null;
  bounds: IRect;
}

const CELL = 320;

const LABEL_HEIGHT = 15;

/** What stands on the line that leads back to the start of a loop. */
const NEXT_TURN = 'next turn';

export function makePicture(
  model: GraphModel,
  scene: IScene,
  timing: Timing,
  overlay: Overlay | null = null,
  own: IOverlay | null = null,
  hasPorts = false
): IPicture {
  const items = new Grid<IItem>(CELL);
  const edges = new Grid<IEdge>(CELL);
  const labels = new Grid<IEdgeLabel>(CELL);
  const allEdges: IEdge[] = [];
  const visit = (container: IContainer): void => {
    findTrunks(container);
    for (const edge of container.edges) {
      allEdges.push(edge);
      const [x0, y0, x1, y1] = boundsOf(edge.points.subarray(edge.start * 2));
      const { x, y, w, h } = turned(scene.direction, { x: x0, y: y0, w: x1 - x0, h: y1 - y0 });
      edges.add(edge, x, y, x + w, y + h);
    }
    addLabels(container, scene.direction, labels);
    for (const item of container.items) {
      items.add(item, item.x, item.y, item.x + item.w, item.y + item.h);
      if (item.container !== null) {
        visit(item.container);
      }
    }
  };
  if (scene.root.container !== null) {
    visit(scene.root.container);
  }
  const times = new Map<IItem, IHeat>();
  addHeat(scene, timing, times);
  const heat = own === null ? times : numbersOf(model, scene, own);
  return {
    scene,
    items,
    edges,
    labels,
    allEdges,
    heat,
    notes: overlay === null ? null : notesOf(model, scene, overlay),
    isDiverging: own?.colors === 'diverging',
    errors: findErrors(model, scene),
    meetings: hasPorts ? meetingsOf(model, scene, allEdges) : null,
    bounds: { x: scene.root.x, y: scene.root.y, w: scene.root.w, h: scene.root.h }
  };
}

/** The line about an item: what the overlay says, or, without one, its time. */
export function lineOf(picture: IPicture, item: IItem): string | undefined {
  if (picture.notes === null) {
    return picture.heat.get(item)?.text;
  }
  const note = picture.notes.get(item);
  const text = note === undefined ? '' : noteText(note);
  return text === '' ? undefined : text;
}

/**
 * Edges that fan out share a trunk. Only the longest draws it: hundreds of lines on top of each other
 * would look heavy and cost as much.
 */
function findTrunks(container: IContainer): void {
  const lowest = (edge: IEdge): number => edge.points[edge.points.length - 1] ?? 0;
  findMeetings(container.edges.filter(edge => edge.isTurn));
  const order = container.edges.filter(edge => !edge.isTurn).sort((a, b) => lowest(b) - lowest(a));
  // How far down a vertical run from a point is drawn; curves are drawn or not.
  const reach = new Map<string, number>();
  for (const edge of order) {
    const { points } = edge;
    let isShared = true;
    edge.start = 0;
    for (let i = 2; i < points.length; i += 2) {
      const x0 = num(points[i - 2]);
      const x1 = num(points[i]);
      const y1 = num(points[i + 1]);
      const isDown = Math.abs(x1 - x0) < 0.1 && y1 > num(points[i - 1]);
      const key = `${x0.toFixed(1)},${num(points[i - 1]).toFixed(1)}${isDown ? '' : `,${x1.toFixed(1)},${y1.toFixed(1)}`}`;
      const drawn = reach.get(key);
      isShared = isShared && drawn !== undefined && drawn >= y1 - 0.1;
      if (isShared && i + 2 < points.length) {
        edge.start = i / 2;
      }
      if (drawn === undefined || drawn < y1) {
        reach.set(key, y1);
      }
    }
  }
}

/**
 * Turns of one loop share the line across below a layer, and the line up. Each draws its own way to
 * where it meets one that is drawn: dashes on top of each other would make a line.
 */
function findMeetings(turns: readonly IEdge[]): void {
  const longest = [...turns].sort((a, b) => (a.points[0] ?? 0) - (b.points[0] ?? 0));
  const across = new Set<number>();
  const up = new Set<IItem | null>();
  for (const edge of longest) {
    const below = edge.points[3] ?? 0;
    edge.end = across.has(below) ? 2 : up.has(edge.to) ? 3 : edge.points.length / 2;
    across.add(below);
    up.add(edge.to);
  }
}

export function boundsOf(points: Float32Array): [number, number, number, number] {
  let x0 = Number.POSITIVE_INFINITY;
  let y0 = Number.POSITIVE_INFINITY;
  let x1 = Number.NEGATIVE_INFINITY;
  let y1 = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < points.length; i += 2) {
    x0 = Math.min(x0, num(points[i]));
    x1 = Math.max(x1, num(points[i]));
    y0 = Math.min(y0, num(points[i + 1]));
    y1 = Math.max(y1, num(points[i + 1]));
  }
  return [x0, y0, x1, y1];
}

/** One label per item and type: below the item when it is the only one, else above each user. */
function addLabels(container: IContainer, direction: Direction, labels: Grid<IEdgeLabel>): void {
  const texts = new Map<IItem, Set<string>>();
  for (const edge of container.edges) {
    if (edge.from !== null && edge.label !== '') {
      const set = texts.get(edge.from);
      if (set === undefined) {
        texts.set(edge.from, new Set([edge.label]));
      } else {
        set.add(edge.label);
      }
    }
  }
  const done = new Set<IItem>();
  const depth = container.item.depth;
  const placed: { x: number; y: number; w: number }[] = [];
  const widthOf = (text: string): number => monoWidth(text, METRICS.edgeFont) + 8;
  // From an end of an edge to the middle of its label, which lies along an edge that runs to the right.
  const away = (text: string, rest: number): number => (direction === 'down' ? rest : 8 + widthOf(text) / 2);
  const add = (text: string, alongX: number, alongY: number, from: IItem): void => {
    const w = widthOf(text);
    const { x, y: lowest } = turnedPoint(direction, { x: alongX, y: alongY });
    let y = lowest;
    // Ports beside each other: the second type stands above the first.
    const near = placed.filter(p => Math.abs(p.x - x) < (p.w + w) / 2);
    while (near.some(p => Math.abs(p.y - y) < LABEL_HEIGHT)) {
      y -= LABEL_HEIGHT;
    }
    placed.push({ x, y, w });
    labels.add({ text, x, y, w, from, depth }, x - w / 2, y - 8, x + w / 2, y + 8);
  };
  const turned = new Set<IItem | null>();
  for (const edge of container.edges) {
    const { from, label, points } = edge;
    if (edge.isTurn && from !== null && points.length >= 8 && !turned.has(edge.to)) {
      turned.add(edge.to);
      add(NEXT_TURN, num(points[4]), (num(points[5]) + num(points[7])) / 2, from);
    }
    if (from === null || label === '' || points.length < 4) {
      continue;
    }
    const isOnly = texts.get(from)?.size === 1;
    if (isOnly && done.has(from)) {
      continue;
    }
    done.add(from);
    const x = isOnly ? num(points[0]) : num(points[points.length - 2]);
    const y = isOnly ? num(points[1]) + away(label, 14) : num(points[points.length - 1]) - away(label, 20);
    add(label, x, y, from);
  }
}

function addHeat(scene: IScene, timing: Timing, heat: Map<IItem, IHeat>): void {
  for (const item of scene.items) {
    const cost =
      item.node !== null
        ? timing.ofNode(item.node.index)
        : item.box !== null
          ? timing.ofBox(item.box)
          : null;
    if (cost === null || cost.ns === 0) {
      continue;
    }
    // What stands for several layers shows the sum of all of them, and says so.
    const mark = `${item.count > 1 ? 'Σ ' : ''}${cost.approx ? '≈' : ''}`;
    const share = formatShare(timing.share(cost.ns));
    const text = `${mark}${formatTime(cost.ns)} · ${share}`;
    heat.set(item, { t: timing.heat(cost.ns), cost, text, share: `${cost.approx ? '≈' : ''}${share}` });
  }
}

function findErrors(model: GraphModel, scene: IScene): Set<IItem> {
  const errors = new Set<IItem>();
  const failed = model.document.error?.node ?? null;
  for (const { node, index } of model.nodes) {
    const item = scene.ofNode[index];
    if (item !== null && item !== undefined && (node.error !== null || node.id === failed)) {
      errors.add(item);
    }
  }
  return errors;
}
