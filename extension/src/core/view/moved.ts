/**
 * A panel that stands outside of its view: the frame that it has there, which the page puts where it
 * likes. The panel stays the dock's, which tells it of documents, selections and themes as before.
 */

import { button, el, icon } from './dom';
import type { IPanel, IPanelType } from './panel';

export class PanelFrame {
  readonly element = el('section', 'jp-MaxLab-view jp-MaxLab-moved');
  private readonly _title = el('span', 'jp-MaxLab-title');
  private readonly _selected = el('span', 'jp-MaxLab-subtitle');
  private readonly _note = el('span', 'jp-MaxLab-movedNote');
  private readonly _notice = el('p', 'jp-MaxLab-dockNotice');
  private readonly _body = el('div', 'jp-MaxLab-dockBody');
  private readonly _observer: ResizeObserver | null;
  private _panel: IPanel | null = null;

  constructor(
    _type: IPanelType,
    /** The element of the view, whose theme this has too. */
    private readonly _view: Element | null,
    putBack: () => void
  ) {
    const { element } = this;
    element.dataset.panel = _type.id;
    element.setAttribute('aria-label', _type.title);
    const back = button('jp-MaxLab-iconButton', 'Put the panel back below the graph', putBack);
    back.append(icon('putBack'));
    element.append(
      el('div', 'jp-MaxLab-movedHead', this._title, this._selected, this._note, back),
      this._notice,
      this._body
    );
    this._observer =
      typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(() => this._panel?.resized());
    this._observer?.observe(this._body);
    this.themed();
  }

  /** Shows the panel; or `notice`, why it has nothing to show. */
  show(panel: IPanel | null, graph: string, notice: string | null): void {
    this._title.textContent = graph;
    this._notice.hidden = notice === null;
    this._notice.textContent = notice ?? '';
    this._body.hidden = notice !== null;
    this._panel = panel;
    if (panel !== null && this._body.firstChild !== panel.element) {
      this._body.replaceChildren(panel.element);
      panel.resized();
    }
  }

  /** Says what is selected in the view; empty for nothing. */
  setSelected(words: string): void {
    this._selected.textContent = words;
  }

  /** Says why nobody answers what the panel asks; null while somebody does. */
  setNotLive(reason: string | null): void {
    this._note.textContent = reason ?? '';
    this._note.title = reason ?? '';
  }

  /** Takes over the theme of the view. */
  themed(): void {
    if (!(this._view instanceof HTMLElement)) {
      return;
    }
    const { style, classList } = this._view;
    for (const name of style) {
      if (name.startsWith('--mx-')) {
        this.element.style.setProperty(name, style.getPropertyValue(name));
      }
    }
    for (const name of ['jp-mod-dark', 'jp-mod-strong']) {
      this.element.classList.toggle(name, classList.contains(name));
    }
  }

  dispose(): void {
    this._observer?.disconnect();
    this.element.remove();
  }
}
