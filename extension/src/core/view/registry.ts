/**
 * Test hook: every mounted view, reachable from a browser test. A canvas has no elements to query, so
 * this says what is drawn where. It reads, and drives only what a user could.
 */

import type { IBox } from '../model/boxes';
import type { GraphModel } from '../model/graph';
import type { IItem, IScene } from '../model/scene';
import type { Stage } from './stage';

export interface ITestNode {
  id: string;
  label: string;
  kind: string;
  scope: string;
  expanded: boolean;
  count: number;
  heat: string;
  /** Client coordinates of the page. */
  rect: { x: number; y: number; w: number; h: number };
}

export interface ITestView {
  element: HTMLElement;
  nodes(): ITestNode[];
  edges(): number;
  expand(path: string): Promise<boolean>;
  collapse(path: string): Promise<boolean>;
  layoutDone(): Promise<void>;
  execute(command: string): boolean;
  select(ids: string[]): void;
  readonly selection: string[];
  readonly frameTimes: number[];
  readonly layoutMs: number;
  readonly isMoving: boolean;
  readonly isHeat: boolean;
  readonly zoom: number;
  readonly name: string;
  kernelOf(id: string): string | null;
  inspectorText(): string;
}

/** What is read of a view, and asked of it. */
export interface IListedView {
  readonly element: HTMLElement;
  readonly model: GraphModel;
  readonly scene: IScene | null;
  readonly stage: Stage;
  readonly selection: string[];
  readonly layoutMs: number;
  setExpanded(box: IBox, isOpen: boolean): Promise<void>;
  layoutDone(): Promise<void>;
  execute(command: string): boolean;
  select(ids: readonly string[]): void;
  inspectorText(): string;
}

function describe(view: IListedView, item: IItem): ITestNode {
  const box = item.box ?? item.parent?.box ?? null;
  return {
    id: item.box?.key ?? item.key,
    label: item.label,
    kind: item.kind,
    scope: item.node?.node.scope ?? box?.path ?? '',
    expanded: item.container !== null,
    count: item.count,
    heat: view.stage.picture?.heat.get(item)?.text ?? '',
    rect: view.stage.clientRect(item)
  };
}

async function setFold(view: IListedView, path: string, isOpen: boolean): Promise<boolean> {
  const box = [...view.model.boxes.values()].find(
    b => b.kind !== 'root' && (b.key === path || b.path === path)
  );
  if (box === undefined) {
    return false;
  }
  await view.setExpanded(box, isOpen);
  await view.layoutDone();
  return true;
}

/** Lists a view under `window.__maxlabTest.views`; returns how to take it off again. */
export function register(view: IListedView): () => void {
  const registry = (globalThis.__maxlabTest ??= { views: [] });
  const entry: ITestView = {
    element: view.element,
    nodes: () => (view.scene?.items ?? []).map(item => describe(view, item)),
    edges: () => view.stage.picture?.allEdges.length ?? 0,
    expand: path => setFold(view, path, true),
    collapse: path => setFold(view, path, false),
    layoutDone: () => view.layoutDone(),
    execute: command => view.execute(command),
    select: ids => view.select(ids),
    get selection() {
      return view.selection;
    },
    get frameTimes() {
      return [...view.stage.frameTimes];
    },
    get layoutMs() {
      return view.layoutMs;
    },
    get isMoving() {
      return view.stage.isMoving;
    },
    get isHeat() {
      return view.stage.isHeat;
    },
    get zoom() {
      return view.stage.camera.k;
    },
    get name() {
      return view.model.document.name;
    },
    kernelOf: id => view.model.node(id)?.kernels[0]?.id ?? null,
    inspectorText: () => view.inspectorText()
  };
  registry.views.push(entry);
  const all = (registry.graphViews ??= []);
  all.push(view);
  return () => {
    registry.graphViews = registry.graphViews?.filter(other => other !== view);
    registry.views = registry.views.filter(other => other !== entry);
  };
}
