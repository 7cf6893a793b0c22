/** Everything that can be done with a view, by name: for keys, buttons, palettes and tests. */

import { collapseLevel, expandLevel } from '../model/fold';
import { turned, turnedPoint, type Direction } from '../model/flow';
import type { GraphModel } from '../model/graph';
import { messageOf } from '../narrow';
import { boxKey, type IItem } from '../model/scene';
import type { IScale } from '../model/scale';
import type { Timing } from '../model/timing';
import { isInside, neighbours } from '../model/trace';
import { Camera } from '../render/camera';
import type { Apart } from './apart';
import type { INote } from '../render/notes';
import type { ITheme } from '../render/theme';
import type { Bar } from './bar';
import type { Colouring } from './colouring';
import type { Docking } from './docking';
import type { Emitter } from './dom';
import { copyText } from './copying';
import { exportPicture, type Scope } from './export';
import type { Minimap } from './minimap';
import { addArranging, type Arranging } from './arranging';
import { addComments, type Comments } from './comments';
import { addEditing, type Editing } from './editing';
import { PANELS } from './panels';
import { addPointing, type IPointed } from './pointing';
import type { Selecting } from './selecting';
import type { TabName } from './side';
import type { IGraphViewEvents } from './types';
import { wholeView } from './viewpoint';

export interface ICommand {
  label: string;
  execute(): void;
  isEnabled?(): boolean;
}

/** What commands read of a view, and ask of it. */
export interface ICommanded extends IPointed {
  readonly timing: Timing;
  readonly bar: Bar;
  readonly docking: Docking;
  readonly apart: Apart;
  readonly minimap: Minimap;
  readonly theme: ITheme;
  readonly events: Emitter<IGraphViewEvents>;
  readonly expanded: ReadonlySet<string>;
  readonly colouring: Colouring;
  readonly canProfile: boolean;
  readonly arranging: Arranging;
  readonly comments: Comments;
  readonly editing: Editing;
  readonly selecting: Selecting;
  readonly hasChanges: boolean;
  readonly areChangesShown: boolean;
  readonly isPanelOpen: boolean;
  /** Ids of the selected operations. */
  readonly selection: readonly string[];
  hasChips: boolean;
  /** Which way the graph runs over the screen. */
  readonly direction: Direction;
  setDirection(direction: Direction): void;
  /** What the colours mean now; null where nothing is coloured. */
  readonly scale: IScale | null;
  rebuild(anchor: string | null): Promise<void>;
  setFold(expanded: ReadonlySet<string>, anchor: string | null): Promise<void>;
  toggle(key: string): boolean;
  select(ids: readonly string[]): void;
  clearSelection(): void;
  cancelDrag(): boolean;
  search(query: string): void;
  stepMatch(step: 1 | -1): Promise<void>;
  setHeat(isHeat: boolean): void;
  canReveal(): boolean;
  reveal(id: string): boolean;
  setChangesShown(areShown: boolean): void;
  setPanel(isOpen: boolean): void;
  showTab(name: TabName): void;
  showDock(id?: string): boolean;
  showHelp(): void;
}

const ZOOM_STEP = 1.3;

/** The nearest item beside `item`, in the same box, at about the same height of the flow. */
function beside({ scene }: ICommanded, item: IItem, side: 1 | -1): IItem | null {
  if (scene === null) {
    return null;
  }
  let best: IItem | null = null;
  let distance = Number.POSITIVE_INFINITY;
  const from = turned(scene.direction, item);
  for (const other of item.parent?.container?.items ?? []) {
    const to = turned(scene.direction, other);
    const dx = (to.x + to.w / 2 - from.x - from.w / 2) * side;
    const overlaps = to.y < from.y + from.h && from.y < to.y + to.h;
    if (other !== item && overlaps && dx > 0 && dx < distance) {
      best = other;
      distance = dx;
    }
  }
  return best;
}

/** The first item on the stage that `from` leads to, preferring one in the same box. */
function along(view: ICommanded, from: IItem, direction: 'up' | 'down'): IItem | null {
  const { scene } = view;
  if (scene === null) {
    return null;
  }
  const found = neighbours(view.model, scene, from, direction);
  const near = found.filter(item => item.parent === from.parent);
  const list = near.length > 0 ? near : found;
  const middle = (item: IItem): number => {
    const { x, w } = turned(scene.direction, item);
    return x + w / 2;
  };
  const cx = middle(from);
  const [best] = [...list].sort((a, b) => Math.abs(middle(a) - cx) - Math.abs(middle(b) - cx));
  return best ?? null;
}

/** To where an arrow key leads: along an edge or beside it, by which way the graph runs. */
function neighbour(view: ICommanded, item: IItem, dx: -1 | 0 | 1, dy: -1 | 0 | 1): IItem | null {
  const step = turnedPoint(view.direction, { x: dx, y: dy });
  if (step.y !== 0) {
    return along(view, item, step.y > 0 ? 'down' : 'up');
  }
  return beside(view, item, step.x > 0 ? 1 : -1);
}

function hasSource(model: GraphModel, id: string): boolean {
  const source = model.node(id)?.node.source ?? null;
  return source !== null;
}

export function makeCommands(view: ICommanded): ReadonlyMap<string, ICommand> {
  const commands = new Map<string, ICommand>();
  const add = (id: string, label: string, execute: () => void, isEnabled?: () => boolean): void => {
    commands.set(id, isEnabled === undefined ? { label, execute } : { label, execute, isEnabled });
  };
  const { stage } = view;
  const zoom = (factor: number): void => {
    const target = new Camera();
    target.set(stage.camera.k, stage.camera.tx, stage.camera.ty);
    target.zoomAt(factor, stage.width / 2, stage.height / 2);
    stage.flyTo(target);
  };
  const step = (what: string, find: (item: IItem) => IItem | null): void => {
    const { active } = view.tree;
    if (active === null) {
      return;
    }
    const next = find(active);
    if (next === null) {
      view.announcer.say(`nothing ${what}`);
    } else {
      view.goTo(next);
    }
  };

  const save = async (kind: 'svg' | 'png', scope: Scope): Promise<void> => {
    const { picture, camera, width, height, isHeat, types, marks } = stage;
    if (picture === null) {
      return;
    }
    const { name } = view.model.document;
    try {
      const { theme, scale } = view;
      const { changes, pinned } = marks;
      const notesAt = (at: Camera): INote[] => view.comments.notesAt(at);
      const noted = { changes, pinned, notesAt };
      const exported = { name, picture, theme, camera, width, height, isHeat, types, scale, ...noted };
      await exportPicture(exported, kind, scope);
    } catch (error) {
      view.announcer.hint(messageOf(error));
    }
  };

  const copyPython = async (): Promise<void> => {
    let said: string;
    try {
      const { data } = await view.docking.ask('python');
      said = (await copyText(data.text)) ? data.said : 'The browser does not let a page copy';
    } catch (error) {
      said = messageOf(error);
    }
    view.announcer.hint(said);
    view.announcer.say(said);
  };
  add('copy-python', 'Copy as Python', () => void copyPython(), () => stage.picture !== null);

  add('fit', 'Fit the graph', () => {
    const bounds = stage.picture?.bounds;
    if (bounds !== undefined) {
      stage.flyTo(wholeView(stage, bounds));
    }
  });
  add('actual-size', 'Actual size', () => {
    const { camera } = stage;
    const cx = camera.worldX(stage.width / 2);
    const cy = camera.worldY(stage.height / 2);
    // The middle of a large graph can be empty: the nearest item is what was meant.
    let near: IItem | null = null;
    let best = Number.POSITIVE_INFINITY;
    for (const item of view.scene?.items ?? []) {
      const dx = Math.max(item.x - cx, 0, cx - item.x - item.w);
      const dy = Math.max(item.y - cy, 0, cy - item.y - item.h);
      if (item.container === null && Math.hypot(dx, dy) < best) {
        best = Math.hypot(dx, dy);
        near = item;
      }
    }
    const target = new Camera();
    const x = best * 2 > stage.height && near !== null ? near.x + near.w / 2 : cx;
    const y = best * 2 > stage.height && near !== null ? near.y + near.h / 2 : cy;
    target.set(1, stage.width / 2 - x, stage.height / 2 - y);
    stage.flyTo(target);
  });
  add('zoom-in', 'Zoom in', () => zoom(ZOOM_STEP));
  add('zoom-out', 'Zoom out', () => zoom(1 / ZOOM_STEP));

  const { history } = stage;
  add('camera-back', 'Back to where the camera was', () => history.back(), () => history.canGoBack);
  add('camera-forward', 'Forward again', () => history.forward(), () => history.canGoForward);

  const changeFold = (next: Set<string>): void => {
    if (next.size !== view.expanded.size) {
      void view.setFold(next, null);
    }
  };
  add('unfold-level', 'Unfold one level', () => changeFold(expandLevel(view.model, view.expanded)));
  add('fold-level', 'Fold one level', () => changeFold(collapseLevel(view.model, view.expanded)));
  add('unfold-all', 'Unfold everything', () => changeFold(new Set(view.model.boxes.keys())));
  add('fold-all', 'Fold everything', () => changeFold(new Set()));
  add('toggle-fold', 'Fold or unfold', () => {
    const { active } = view.tree;
    if (active === null) {
      return;
    }
    if (active.box !== null) {
      view.toggle(active.key);
    } else {
      view.goTo(active);
    }
  });

  add('toggle-heat', 'Heat by time', () => view.setHeat(!stage.isHeat), () => view.colouring.canHeat);
  add('next-colouring', 'Colour by the next', () => view.colouring.next(), () => view.colouring.chooser !== null);
  add('toggle-chips', 'Weights on nodes', () => {
    view.hasChips = !view.hasChips;
    void view.rebuild(null);
  });
  add(
    'toggle-changes',
    'Changes since the last run',
    () => view.setChangesShown(!view.areChangesShown),
    () => view.hasChanges
  );
  add('profile', 'Profile', () => view.events.emit('profileRequested', undefined), () => view.canProfile);
  add(
    'hottest',
    'Select the hottest kernel',
    () => {
      const [first] = view.timing.kernels;
      if (first !== undefined) {
        view.showTab('inspector');
        view.select(view.timing.nodesOf(first));
      }
    },
    () => view.timing.kernels.length > 0
  );
  add('show-hottest', 'Kernels by time', () => view.showTab('hottest'));
  add('show-inspector', 'Inspector', () => view.showTab('inspector'));
  add('toggle-dock', 'Panels below the graph', () => view.docking.toggle());
  for (const panel of PANELS) {
    add(`panel-${panel.id}`, panel.title, () => view.showDock(panel.id));
  }
  add('toggle-panel', 'Side panel', () => view.setPanel(!view.isPanelOpen));

  add('search', 'Search', () => {
    view.bar.search.focus();
    view.bar.search.select();
  });
  add('next-match', 'Next match', () => void view.stepMatch(1));
  add('previous-match', 'Previous match', () => void view.stepMatch(-1));
  add('leave-search', 'Leave search', () => {
    view.bar.search.value = '';
    view.search('');
    view.tree.focus();
  });
  add('clear', 'Clear the selection', () => {
    if (view.cancelDrag() || view.selecting.leave()) {
      return;
    }
    view.editing.ran.close();
    view.clearSelection();
  });
  add('focus-graph', 'Move the keyboard into the graph', () => view.tree.focus());
  add('help', 'Keys', () => view.showHelp());
  for (const kind of ['svg', 'png'] as const) {
    for (const scope of ['whole', 'view'] as const) {
      const what = scope === 'whole' ? 'the whole graph' : 'what the view shows';
      add(
        scope === 'whole' ? `export-${kind}` : `export-${kind}-view`,
        `Export ${what} as ${kind.toUpperCase()}`,
        () => void save(kind, scope),
        () => stage.picture !== null
      );
    }
  }
  add(
    'reveal',
    'Show the line of code',
    () => view.selection.some(id => view.reveal(id)),
    () => view.canReveal() && view.selection.some(id => hasSource(view.model, id))
  );

  add('toggle-minimap', 'Map of the graph', () => {
    view.minimap.setWanted(!view.minimap.isWanted, view.theme);
    view.events.emit('minimapChosen', view.minimap.isWanted);
  });
  addPointing(view, add);
  addEditing(() => view.editing, add, () => view.canProfile || view.editing.isAlone);
  addArranging(() => view.arranging, add);
  addComments(view, add);
  add('values', 'Show its values', () => view.showDock('check'), () => view.selection.length > 0);
  const { apart } = view;
  const canFollow = (): boolean => apart.canFollow;
  add('producers', 'Show what it reads', () => apart.trace('up'), canFollow);
  add('consumers', 'Show what reads it', () => apart.trace('down'), canFollow);
  add('one-level-more', 'One level more', () => apart.step(1), () => apart.isWalk);
  add('one-level-less', 'One level less', () => apart.step(-1), () => apart.isWalk);
  add('isolate', 'Show it alone', () => apart.isolate(), canFollow);
  add('hide', 'Hide it', () => apart.hide(), canFollow);
  add('show-all', 'Show all', () => apart.showAll(), () => apart.only !== null);
  add('previous-part', 'Back to what was shown before', () => apart.back(), () => apart.canStepBack);

  add('toggle-direction', 'Left to right', () =>
    view.setDirection(view.direction === 'down' ? 'right' : 'down')
  );
  add('go-down', 'Go down', () => step('below', item => neighbour(view, item, 0, 1)));
  add('go-up', 'Go up', () => step('above', item => neighbour(view, item, 0, -1)));
  add('go-left', 'Go left', () => step('to the left', item => neighbour(view, item, -1, 0)));
  add('go-right', 'Go right', () => step('to the right', item => neighbour(view, item, 1, 0)));
  const extend = (what: string, dx: -1 | 0 | 1, dy: -1 | 0 | 1): void => {
    const { active } = view.tree;
    const next = active === null ? null : neighbour(view, active, dx, dy);
    if (next === null) {
      view.announcer.say(`nothing ${what}`);
    } else {
      view.selecting.extend(next);
    }
  };
  add('extend-down', 'Select what is below as well', () => extend('below', 0, 1));
  add('extend-up', 'Select what is above as well', () => extend('above', 0, -1));
  add('extend-left', 'Select what is to the left as well', () => extend('to the left', -1, 0));
  add('extend-right', 'Select what is to the right as well', () => extend('to the right', 1, 0));
  add('select-also', 'Select what has the keyboard as well', () => view.selecting.toggleActive());
  add('select-area', 'Select with a box', () => view.selecting.toggle(), () => stage.picture !== null);
  add('go-first', 'First item', () => step('here', () => view.scene?.items[0] ?? null));
  add('go-last', 'Last item', () =>
    step('here', () => view.scene?.items[view.scene.items.length - 1] ?? null)
  );
  add('go-parent', 'Out of the box', () =>
    step('outside', item => {
      const box = item.parent?.box ?? null;
      return box === null ? null : (view.scene?.byKey.get(boxKey(box)) ?? null);
    })
  );
  add('go-child', 'Into the box', () =>
    step('inside', item => {
      const inner = view.scene?.items.find(other => other.parent === item);
      return inner !== undefined && isInside(inner, item) ? inner : null;
    })
  );
  return commands;
}
