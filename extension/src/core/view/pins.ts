/** Which of the items on the stage people pinned where they stand. */

import { placesOf } from '../layout/places';
import type { GraphModel } from '../model/graph';
import type { IItem, IScene } from '../model/scene';

export function pinnedIn(model: GraphModel, scene: IScene): IItem[] {
  const found: IItem[] = [];
  for (const [key, { pinned }] of placesOf(model)) {
    const item = pinned ? scene.byKey.get(key) : undefined;
    if (item !== undefined) {
      found.push(item);
    }
  }
  return found;
}
