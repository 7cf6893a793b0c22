/** A panel of a graph view as a widget of its own, which stands where the user puts it. */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { PANELS } from '../core';
import { graphIcon } from './icons';
import type { IListedView } from './views';

export class PanelTab extends Widget {
  /** The view that the panel belongs to; null until a restored tab has found it. */
  view: IListedView | null = null;

  constructor(
    /** Id of the panel. */
    readonly panel: string,
    /** Id of the tab that the view stands in, by which it is found again; empty in a notebook. */
    readonly home: string,
    label: string,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.id = `maxlab-panel-${panel}-${home || ++PanelTab._made}`;
    this.addClass('jp-MaxLab-mainTab');
    this.addClass('jp-MaxLab-panelTab');
    this.title.icon = graphIcon;
    this.title.closable = true;
    this.title.label = label;
    this.title.caption = PANELS.find(({ id }) => id === panel)?.hint ?? '';
    this.node.tabIndex = -1;
    this.wait();
  }

  /** Shows the panel of `view` here. */
  fill(view: IListedView): void {
    const element = view.docking.dock.takeOut(this.panel);
    if (element !== null && !this.isDisposed) {
      this.view = view;
      this.removeClass('jp-MaxLab-unreadable');
      this.node.replaceChildren(element);
      const { name } = view.model.document;
      const title = titleOf(this.panel);
      this.title.label = name === '' ? title : this._trans.__('%1 of %2', title, name);
    }
  }

  /** Says that the view of this panel is not there now. */
  wait(): void {
    this.view = null;
    this.addClass('jp-MaxLab-unreadable');
    this.node.textContent = this._trans.__('This panel is filled when its graph is shown.');
  }

  protected override onActivateRequest(): void {
    this.node.focus();
  }

  protected override onCloseRequest(message: Message): void {
    super.onCloseRequest(message);
    this.dispose();
  }

  /** Closing the tab puts the panel back. */
  override dispose(): void {
    if (!this.isDisposed) {
      this.view?.docking.dock.takeBack(this.panel);
      super.dispose();
    }
  }

  private static _made = 0;
}

/** What a person calls the panel `id`. */
export function titleOf(id: string): string {
  return PANELS.find(panel => panel.id === id)?.title ?? id;
}
