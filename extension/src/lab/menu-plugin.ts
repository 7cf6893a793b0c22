/**
 * The plugin `menu`: the context menu of a graph view. Its entries are in this plugin's schema, where
 * people can add and take away what they want. Shift and the right button open the browser's own menu.
 */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { placeOf, pointAt, type MenuPlace } from '../core';
import { CommandIDs, EXTENSION, IViews, NO_ARGUMENTS } from './tokens';
import type { IListedView, IViewRegistry } from './views';

/** Selects what the menu of `event` is about; null where a view has no menu of its own. */
function placeFor(view: IListedView, event: MouseEvent): MenuPlace | null {
  const { target } = event;
  const { stage, tree } = view;
  if (!(target instanceof Element) || event.shiftKey || view.scene === null) {
    return null;
  }
  if (tree.element.contains(target)) {
    // The keyboard opens it: what has the focus is meant.
    const { active } = tree;
    if (active === null) {
      return null;
    }
    if (!view.chosen.includes(active.key)) {
      view.choose(active, null);
    }
    return placeOf(active);
  }
  if (target !== stage.element && !(target instanceof HTMLCanvasElement && stage.element.contains(target))) {
    return null;
  }
  const box = stage.element.getBoundingClientRect();
  return pointAt(view, event.clientX - box.left, event.clientY - box.top);
}

/** Opens the menu of the item that has the keyboard, below its name. */
function openByKey(view: IListedView): void {
  const { active } = view.tree;
  const rect = active === null ? null : view.stage.clientRect(active);
  const at = view.tree.element.querySelector('[tabindex="0"]') ?? view.tree.element;
  at.dispatchEvent(
    new MouseEvent('contextmenu', {
      bubbles: true,
      cancelable: true,
      clientX: rect === null ? 0 : rect.x + Math.min(24, rect.w / 2),
      clientY: rect === null ? 0 : rect.y + Math.min(24, rect.h)
    })
  );
}

export const menuPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:menu`,
  description: 'The context menu of graph views.',
  autoStart: true,
  requires: [IViews],
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, views: IViewRegistry, translator: ITranslator | null): void => {
    const trans = (translator ?? nullTranslator).load('maxlab');
    views.each(view =>
      view.element.addEventListener('contextmenu', event => {
        const place = placeFor(view, event);
        if (place === null) {
          return;
        }
        view.stage.element.dataset.menu = place;
        // Entries are looked for up to the element that listens: those of a cell are not asked.
        if (app.contextMenu.open(event)) {
          event.preventDefault();
          event.stopPropagation();
        }
      })
    );
    app.commands.addCommand(CommandIDs.openMenu, {
      label: trans.__('Open the menu of what has the keyboard'),
      describedBy: NO_ARGUMENTS,
      isEnabled: () => views.active !== null,
      execute: () => {
        if (views.active !== null) {
          openByKey(views.active);
        }
      }
    });
  }
};
