/** Every graph view of the page, and which of them a command acts on. */

import { type ISignal, Signal } from '@lumino/signaling';

import type { IGraphView, IMountOptions, Mount } from './core';

export interface IViewRegistry {
  /** Draw a graph in `element` and know its view until it is disposed. */
  mount(element: HTMLElement, options: IMountOptions): IGraphView;
  /** Views that are in the page now, in the order they were mounted. */
  readonly views: readonly IGraphView[];
  /**
   * The view that commands act on: the one last touched or focused, if it can still be seen; else the
   * first that can be.
   */
  readonly active: IGraphView | null;
  readonly changed: ISignal<IViewRegistry, void>;
}

interface IEntry {
  view: IGraphView;
  element: HTMLElement;
}

export class ViewRegistry implements IViewRegistry {
  constructor(private readonly _mount: Mount) {}

  mount(element: HTMLElement, options: IMountOptions): IGraphView {
    const view = this._mount(element, options);
    const forget = this.add(view, element);
    view.disposed.connect(forget);
    return view;
  }

  /** Know `view`, which draws in `element`, until the function that this returns is called. */
  add(view: IGraphView, element: HTMLElement): () => void {
    const entry: IEntry = { view, element };
    const touch = (): void => {
      if (this._touched !== entry) {
        this._touched = entry;
        this._changed.emit();
      }
    };
    element.addEventListener('pointerdown', touch, { capture: true });
    element.addEventListener('focusin', touch);
    this._entries.push(entry);
    this._changed.emit();
    return () => {
      element.removeEventListener('pointerdown', touch, { capture: true });
      element.removeEventListener('focusin', touch);
      this._entries = this._entries.filter(other => other !== entry);
      if (this._touched === entry) {
        this._touched = null;
      }
      this._changed.emit();
    };
  }

  get views(): readonly IGraphView[] {
    return this._entries.map(entry => entry.view);
  }

  get active(): IGraphView | null {
    const touched = this._touched;
    if (touched && isSeen(touched.element)) {
      return touched.view;
    }
    return this._entries.find(entry => isSeen(entry.element))?.view ?? null;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  private _entries: IEntry[] = [];
  private _touched: IEntry | null = null;
  private readonly _changed = new Signal<this, void>(this);
}

/** Whether `element` is in the page and not in a hidden tab; it may be scrolled out of sight. */
function isSeen(element: HTMLElement): boolean {
  return element.isConnected && element.getClientRects().length > 0;
}
