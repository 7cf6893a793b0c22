/** The side panel: the inspector and the list of kernels, one at a time. */

import type { IEdge, IItem } from '../model/scene';
import { button, el, icon } from './dom';
import { HottestList } from './hottest';
import { Inspector } from './inspector';
import type { IInspectorHost } from './kernel';

export type TabName = 'inspector' | 'hottest';

export interface IShown {
  item: IItem | null;
  keys: readonly string[];
  /** Ids of the selected nodes. */
  ids: readonly string[];
  edge: IEdge | null;
}

export class SidePanel {
  readonly element = el('aside', 'jp-MaxLab-panel');
  tab: TabName = 'inspector';
  private readonly _inspector: Inspector;
  private readonly _hottest: HottestList;
  private readonly _tabs = new Map<TabName, HTMLElement>();

  constructor(
    private readonly _host: IInspectorHost,
    showTab: (name: TabName) => void,
    close: () => void
  ) {
    this._inspector = new Inspector(_host);
    this._hottest = new HottestList(ids => _host.select(ids));
    const tabs = el('div', 'jp-MaxLab-tabs');
    tabs.setAttribute('role', 'tablist');
    for (const [name, text] of [['inspector', 'Inspector'], ['hottest', 'Hottest']] as const) {
      const tab = button('jp-MaxLab-tab', text, () => showTab(name), text);
      tab.setAttribute('role', 'tab');
      tab.dataset.tab = name;
      this._tabs.set(name, tab);
      tabs.append(tab);
    }
    const done = button('jp-MaxLab-iconButton', 'Close the side panel', close);
    done.append(icon('close'));
    const head = el('div', 'jp-MaxLab-sideHead', tabs, done);
    this.element.append(head, this._inspector.element, this._hottest.element);
    this.element.hidden = true;
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  set isOpen(isOpen: boolean) {
    this.element.hidden = !isOpen;
  }

  get text(): string {
    return this._inspector.element.textContent ?? '';
  }

  show(shown: IShown): void {
    if (!this.isOpen) {
      return;
    }
    for (const [name, tab] of this._tabs) {
      tab.setAttribute('aria-selected', String(name === this.tab));
    }
    this._inspector.element.hidden = this.tab !== 'inspector';
    this._hottest.element.hidden = this.tab !== 'hottest';
    if (this.tab === 'hottest') {
      this._hottest.show(this._host.model, this._host.timing, new Set(shown.ids));
    } else if (shown.edge !== null) {
      this._inspector.showEdge(shown.edge);
    } else {
      this._inspector.show(shown.item === null ? [] : [shown.item], shown.keys);
    }
  }
}
