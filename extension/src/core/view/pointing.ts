/** What a context menu is opened on, and what can be done with it: copied, followed, looked at. */

import { copyText } from './copying';
import type { GraphModel } from '../model/graph';
import type { IEdge, IItem, IScene } from '../model/scene';
import type { Announcer } from './hud';
import type { Stage } from './stage';
import type { AccessibleTree } from './tree';

/** What a menu is about. A `box` is a module, and an `item` an operation, an input or an output. */
export type MenuPlace = 'item' | 'box' | 'edge' | 'background';

export interface IPointed {
  readonly model: GraphModel;
  readonly scene: IScene | null;
  readonly stage: Stage;
  readonly tree: AccessibleTree;
  readonly announcer: Announcer;
  /** Keys of the selected items. */
  readonly chosen: readonly string[];
  /** The selected edge. */
  readonly edge: IEdge | null;
  choose(item: IItem | null, edge: IEdge | null): void;
  goTo(item: IItem): void;
}

type Add = (id: string, label: string, execute: () => void, isEnabled?: () => boolean) => void;

/** Selects what is at a point of the stage, unless it is selected; returns what a menu there is about. */
export function pointAt(view: IPointed, x: number, y: number): MenuPlace {
  const hit = view.stage.hit(x, y);
  const item = hit?.isSolid === true ? hit.item : null;
  const edge = item === null ? view.stage.hitEdge(x, y) : null;
  if (item === null || !view.chosen.includes(item.key)) {
    view.choose(item, edge);
  }
  return item === null ? (edge === null ? 'background' : 'edge') : placeOf(item);
}

/** What a menu about an item is about. */
export function placeOf(item: IItem): MenuPlace {
  return item.box === null ? 'item' : 'box';
}

/** The path of an item, by which `graph.overlay` knows it: `encoder.layers.0.add`. */
export function pathOf(item: IItem): string {
  if (item.box !== null) {
    return item.box.path;
  }
  if (item.node === null) {
    return item.label;
  }
  const { scope, name, op } = item.node.node;
  return [scope, name || op].filter(part => part !== '').join('.');
}

/** `file:line` of the code that wrote an item; an empty text where nobody knows. */
export function lineOf(item: IItem): string {
  const source = item.node?.node.source ?? null;
  return source === null ? '' : `${source.file}:${source.line}`;
}

/** The type of what flows along an edge. */
export function typesOf(model: GraphModel, edge: IEdge): string {
  const types = edge.values.map(index => model.values[index]?.value.type ?? '');
  return [...new Set(types)].join(', ');
}

/** The drawn item at the producing or the consuming end of an edge. */
export function endOf(view: IPointed, edge: IEdge, end: 'from' | 'to'): IItem | null {
  const { model, scene } = view;
  for (const index of edge.values) {
    const value = model.values[index];
    if (value === undefined || scene === null) {
      continue;
    }
    const nodes = end === 'from' ? [value.producer] : value.consumers;
    for (const node of nodes) {
      const item = scene.ofNode[node];
      if (item !== null && item !== undefined) {
        return item;
      }
    }
    const outside = scene.byKey.get(`${end === 'from' ? 'in' : 'out'}:${value.value.id}`);
    if (outside !== undefined) {
      return outside;
    }
  }
  return null;
}

/** Adds the commands of a context menu that are not commands of keys or buttons. */
export function addPointing(view: IPointed, add: Add): void {
  const copy = (what: string, text: string): void => {
    void copyText(text).then(isDone =>
      view.announcer.hint(
        isDone ? `Copied ${text}` : `The browser does not let a page copy; the ${what} is ${text}`
      )
    );
  };
  const ofActive = (what: string, read: (item: IItem) => string): [() => void, () => boolean] => [
    () => {
      const { active } = view.tree;
      if (active !== null) {
        copy(what, read(active));
      }
    },
    () => view.tree.active !== null && read(view.tree.active) !== ''
  ];
  add('copy-name', 'Copy the name', ...ofActive('name', item => item.label));
  add('copy-path', 'Copy the path', ...ofActive('path', pathOf));
  add('copy-line', 'Copy file and line', ...ofActive('line', lineOf));
  add(
    'copy-type',
    'Copy the type',
    () => {
      if (view.edge !== null) {
        copy('type', typesOf(view.model, view.edge));
      }
    },
    () => view.edge !== null
  );
  for (const [id, label, end] of [
    ['edge-from', 'Go to where it comes from', 'from'],
    ['edge-to', 'Go to where it leads', 'to']
  ] as const) {
    add(
      id,
      label,
      () => {
        const item = view.edge === null ? null : endOf(view, view.edge, end);
        if (item !== null) {
          view.goTo(item);
        }
      },
      () => view.edge !== null && endOf(view, view.edge, end) !== null
    );
  }
}
