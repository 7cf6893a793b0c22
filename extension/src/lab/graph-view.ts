/**
 * The graph view as JupyterLab mounts it: it takes its defaults from the settings, and is known to the
 * commands for as long as it lives. The notebook widget mounts this class too when it runs in JupyterLab
 * (`scripts/build-lab.mjs` lets its import of `core` lead here).
 */

import {
  Dashboard as CoreDashboard,
  GraphView as CoreView,
  type IDashboardOptions,
  type IGraphViewOptions,
  type ThemeName
} from '../core';
import { viewRegistry, type IListedView, type IViewDefaults } from './views';

export {
  detailOf,
  frameOf,
  fromBase64,
  inflate,
  parseDocument,
  plainFault,
  readDetail,
  readFrame,
  TokenButtons
} from '../core';

export class GraphView extends CoreView implements IListedView {
  constructor(host: HTMLElement, options: IGraphViewOptions = {}) {
    const asked = options.theme ?? 'auto';
    const theme = asked === 'auto' ? viewRegistry.defaults.theme : asked;
    super(host, { ...options, theme, keysOf: viewRegistry.keysOf, canMoveOut: true, canInsert: true });
    this._followsDefault = asked === 'auto';
    this.setPreferences(viewRegistry.defaults);
    this.events.on('minimapChosen', isWanted => viewRegistry.keepMinimap?.(isWanted));
    const forget = viewRegistry.add(this);
    this.events.on('disposed', forget);
  }

  /** Take over changed settings; what the user did to this view stays. */
  follow(defaults: IViewDefaults): void {
    if (this._followsDefault) {
      super.setTheme(defaults.theme);
    }
    this.setPreferences(defaults);
  }

  override setTheme(name: ThemeName): void {
    this._followsDefault = name === 'auto';
    super.setTheme(name === 'auto' ? viewRegistry.defaults.theme : name);
  }

  override setDocument(input: unknown): boolean {
    const isDrawn = super.setDocument(input);
    if (isDrawn && !this._hasOpened) {
      this._hasOpened = true;
      const { fold, openInspector } = viewRegistry.defaults;
      if (fold !== 'automatic') {
        this.execute(fold === 'folded' ? 'fold-all' : 'unfold-all');
      }
      if (openInspector) {
        this.setPanel(true);
      }
    }
    return isDrawn;
  }

  private _followsDefault: boolean;
  private _hasOpened = false;
}

/** A dashboard whose keys are those of JupyterLab's commands. */
export class Dashboard extends CoreDashboard {
  constructor(host: HTMLElement, options: IDashboardOptions = {}) {
    super(host, { ...options, areKeysCommands: viewRegistry.keysOf !== null });
    this.events.on('disposed', viewRegistry.addDashboard(this));
  }
}
