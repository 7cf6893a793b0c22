/** Helpers of the tests: from a document to a laid-out scene. */

import { applyLayout, makeRequest } from '../src/core/layout/apply';
import { layoutHierarchy, type ILayoutResult, type LayoutCache } from '../src/core/layout/hierarchy';
import { initialFold } from '../src/core/model/fold';
import type { Direction } from '../src/core/model/flow';
import { GraphModel } from '../src/core/model/graph';
import { roughMeasure } from '../src/core/model/metrics';
import { buildScene, type IContainer, type IScene } from '../src/core/model/scene';
import { Timing } from '../src/core/model/timing';
import { headerWidth } from '../src/core/render/labels';
import { parseDocument } from '../src/proto/parse';
import type { IGraphDocument } from '../src/proto/document';

export interface ILaidOut {
  model: GraphModel;
  timing: Timing;
  scene: IScene;
  results: ILayoutResult[];
  cache: LayoutCache;
}

export function load(document: IGraphDocument): GraphModel {
  const parsed = parseDocument(JSON.parse(JSON.stringify(document)));
  if (!parsed.ok) {
    throw new Error(parsed.problems.join('\n'));
  }
  return new GraphModel(parsed.document);
}

export function layOut(
  model: GraphModel,
  expanded: ReadonlySet<string> = initialFold(model),
  cache: LayoutCache = new Map(),
  direction: Direction = 'down'
): ILaidOut {
  const timing = new Timing(model, model.document.profile);
  const scene = buildScene(model, { expanded, chips: true, direction });
  const request = makeRequest(scene, item => headerWidth(item, roughMeasure), 5000);
  const results = layoutHierarchy(request, cache, () => performance.now());
  applyLayout(scene, results);
  return { model, timing, scene, results, cache };
}

export function allBoxes(model: GraphModel): Set<string> {
  return new Set([...model.boxes.keys()].filter(key => key !== ''));
}

export function containers(scene: IScene): IContainer[] {
  return [scene.root, ...scene.items].map(i => i.container).filter(c => c !== null);
}
