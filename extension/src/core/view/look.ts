/** How somebody looks at a graph: what is unfolded, where the camera is, which panel is open. */

import { isNumber, isText, list, orNull, record, type Shape } from '../../proto/shape';
import type { GraphModel } from '../model/graph';
import { Camera } from '../render/camera';
import type { Docking } from './docking';
import type { Stage } from './stage';

export interface ILook {
  /** Keys of the unfolded boxes. */
  folds: string[];
  /** The zoom, and the point of the drawing that is in the middle of the window. */
  zoom: number;
  x: number;
  y: number;
  /** Id of the panel below the graph that is open. */
  panel: string | null;
}

export const isLook: Shape<ILook> = record({
  folds: list(isText),
  zoom: isNumber,
  x: isNumber,
  y: isNumber,
  panel: orNull(isText)
});

/** What is read of a view, and asked of it. */
export interface ILookedAt {
  readonly model: GraphModel;
  readonly stage: Stage;
  readonly docking: Docking;
  readonly expanded: ReadonlySet<string>;
  setFold(expanded: ReadonlySet<string>, anchor: string | null): Promise<void>;
}

export function lookOf({ stage, docking, expanded }: ILookedAt): ILook {
  const { camera, width, height } = stage;
  return {
    folds: [...expanded].sort(),
    zoom: camera.k,
    x: camera.worldX(width / 2),
    y: camera.worldY(height / 2),
    panel: docking.dock.current
  };
}

/** Lets a view that is drawn look as another one did; boxes that its graph does not have are left out. */
export async function takeLook(view: ILookedAt, look: ILook): Promise<void> {
  const { stage, docking, expanded, model } = view;
  const folds = look.folds.filter(key => model.boxes.has(key));
  if (folds.length !== expanded.size || folds.some(key => !expanded.has(key))) {
    await view.setFold(new Set(folds), null);
  }
  if (look.panel !== null) {
    docking.dock.open(look.panel, true);
    // What the panel takes of the window is known now, not only when the page is laid out next.
    stage.measure();
  }
  const camera = new Camera();
  const k = look.zoom;
  camera.set(k, stage.width / 2 - look.x * k, stage.height / 2 - look.y * k);
  stage.flyTo(camera, false);
}
