/** Every graph view of the page, which of them a command acts on, and how new ones start. */

import { type ISignal, Signal } from '@lumino/signaling';

import { PREFERENCES, type Dashboard, type GraphView, type IPreferences, type ThemeName } from '../core';

export interface IViewDefaults extends IPreferences {
  theme: ThemeName;
  openInspector: boolean;
  /** What is unfolded at first: as much as stays readable, nothing, or everything. */
  fold: 'automatic' | 'folded' | 'unfolded';
}

/** Those of the schema. */
export const DEFAULTS: IViewDefaults = { ...PREFERENCES, theme: 'auto', openInspector: false, fold: 'automatic' };

/** A view of the page that takes its defaults from the settings. */
export interface IListedView extends GraphView {
  /** Take over changed settings; what the user did to this view stays. */
  follow(defaults: IViewDefaults): void;
}

export interface IViewRegistry {
  /** Views that are not disposed, in the order they were mounted. */
  readonly views: readonly IListedView[];
  /**
   * The view that commands act on: the one last touched or focused, if it can still be seen; else the
   * first that can be.
   */
  readonly active: IListedView | null;
  /** The dashboard that has the keyboard. */
  readonly dashboard: Dashboard | null;
  /** The keys of a command of the view, as people read them; null where the view has keys of its own. */
  keysOf: ((command: string) => readonly string[]) | null;
  /** How a view starts; setting it changes the open views too, as far as the user has not. */
  defaults: IViewDefaults;
  /** Keeps whether the user wants maps of graphs; null where there are no settings. */
  keepMinimap: ((isWanted: boolean) => void) | null;
  readonly changed: ISignal<IViewRegistry, void>;
  /** Calls `greet` with each view that is there, and with each that comes. */
  each(greet: (view: IListedView) => void): void;
}

export class ViewRegistry implements IViewRegistry {
  keysOf: ((command: string) => readonly string[]) | null = null;
  keepMinimap: ((isWanted: boolean) => void) | null = null;

  /** Know `view` until the function that this returns is called. */
  add(view: IListedView): () => void {
    const { element } = view;
    const touch = (): void => {
      if (this._touched !== view) {
        this._touched = view;
        this._changed.emit();
      }
    };
    element.addEventListener('pointerdown', touch, { capture: true });
    element.addEventListener('focusin', touch);
    this._views.push(view);
    this._greeters.forEach(greet => greet(view));
    this._changed.emit();
    return () => {
      element.removeEventListener('pointerdown', touch, { capture: true });
      element.removeEventListener('focusin', touch);
      this._views = this._views.filter(other => other !== view);
      if (this._touched === view) {
        this._touched = null;
      }
      this._changed.emit();
    };
  }

  get views(): readonly IListedView[] {
    return this._views;
  }

  get active(): IListedView | null {
    if (this._touched && isSeen(this._touched.element)) {
      return this._touched;
    }
    return this._views.find(view => isSeen(view.element)) ?? null;
  }

  /** Know `dashboard` until the function that this returns is called. */
  addDashboard(dashboard: Dashboard): () => void {
    this._dashboards.add(dashboard);
    return () => this._dashboards.delete(dashboard);
  }

  get dashboard(): Dashboard | null {
    const { activeElement } = document;
    return [...this._dashboards].find(({ element }) => element.contains(activeElement)) ?? null;
  }

  each(greet: (view: IListedView) => void): void {
    this._greeters.push(greet);
    this._views.forEach(greet);
  }

  get defaults(): IViewDefaults {
    return this._defaults;
  }

  set defaults(defaults) {
    this._defaults = defaults;
    this._views.forEach(view => view.follow(defaults));
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  private _views: IListedView[] = [];
  private readonly _greeters: ((view: IListedView) => void)[] = [];
  private readonly _dashboards = new Set<Dashboard>();
  private _touched: IListedView | null = null;
  private _defaults = DEFAULTS;
  private readonly _changed = new Signal<this, void>(this);
}

/** Whether `element` is in the page and not in a hidden tab; it may be scrolled out of sight. */
function isSeen(element: HTMLElement): boolean {
  return element.isConnected && element.getClientRects().length > 0;
}

/** The registry of this page. One for all: widgets are mounted by code that knows no plugins. */
export const viewRegistry = new ViewRegistry();
