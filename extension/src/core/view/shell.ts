/**
 * The frame of a view, which knows nothing of graphs: its element and style, drawing surface, theme,
 * messages, tooltip and help. `GraphView` fills it.
 */

import type { Measure } from '../model/metrics';
import type { ITheme, ThemeName } from '../render/theme';
import { errorView } from './describe';
import { append, Disposables, el, type Child } from './dom';
import { Announcer, helpCard, Legend, Tooltip } from './hud';
import { Stage } from './stage';
import { addStyles } from './styles';
import { makeMeasure } from './text';
import { Theming, watchMotion } from './theming';
import type { IGraphViewOptions } from './types';

/** Narrower views put the side panel over the drawing. */
const NARROW_PX = 640;

const DEFAULT_HEIGHT_PX = 560;

export abstract class ViewShell {
  readonly element = el('div', 'jp-MaxLab-view');
  readonly stage: Stage;
  readonly announcer = new Announcer();
  isDisposed = false;
  protected readonly _options: Required<IGraphViewOptions>;
  protected readonly _disposables = new Disposables();
  protected readonly _legend = new Legend();
  protected readonly _tooltip = new Tooltip();
  protected readonly _message = el('div', 'jp-MaxLab-message');
  protected readonly _measure: Measure;
  /** The last thing used was the keyboard: its place is outlined. */
  protected _isKeyboard = false;
  private readonly _theming: Theming;
  private _extraPx = 0;
  private _help: HTMLElement | null = null;

  constructor(host: HTMLElement, options: IGraphViewOptions) {
    this._options = {
      theme: options.theme ?? 'auto',
      height: options.height ?? DEFAULT_HEIGHT_PX,
      noProfile: options.noProfile === undefined ? 'no live kernel' : options.noProfile,
      isPage: options.isPage ?? false,
      canReveal: options.canReveal ?? false,
      canAsk: options.canAsk ?? false
    };
    const { element } = this;
    // JupyterLab's notebook shortcuts must not see the keys that are typed in here.
    element.setAttribute('data-lm-suppress-shortcuts', 'true');
    host.append(element);
    this._disposables.add(addStyles(element));
    this._theming = new Theming(element, this._options.theme, theme => {
      this.stage.setTheme(theme);
      this._themed();
      this._showLegend();
    });
    this._disposables.add(() => this._theming.dispose());
    this._measure = makeMeasure(this.theme.fontUi);
    this.stage = new Stage(this.theme);
    this._message.hidden = true;
    this._disposables.add(
      watchMotion(isReduced => {
        this.stage.reducedMotion = isReduced;
      })
    );
    this.setHeight(this._options.height);
  }

  protected abstract _showLegend(): void;
  protected abstract _themed(): void;
  protected abstract _keyboardChanged(): void;

  /** Puts the parts in place; `overlays` lie over the drawing. */
  protected _assemble(
    bar: HTMLElement,
    panel: HTMLElement,
    dock: HTMLElement,
    overlays: readonly Child[]
  ): void {
    const { element, stage } = this;
    append(
      stage.element,
      ...overlays,
      this._legend.element,
      this._tooltip.element,
      this.announcer.element,
      this.announcer.live,
      this._message
    );
    element.append(bar, el('div', 'jp-MaxLab-body', stage.element, panel), dock);
    const capture = { capture: true };
    const use = (isKeyboard: boolean): void => {
      if (isKeyboard) {
        this._tooltip.hide();
      }
      if (this._isKeyboard !== isKeyboard) {
        this._isKeyboard = isKeyboard;
        this._keyboardChanged();
      }
    };
    this._disposables.listen(element, 'keydown', () => use(true), capture);
    this._disposables.listen(element, 'pointerdown', () => use(false), capture);
    if (typeof ResizeObserver !== 'undefined') {
      const observer = new ResizeObserver(() =>
        element.classList.toggle('jp-mod-narrow', element.clientWidth < NARROW_PX)
      );
      observer.observe(element);
      this._disposables.add(() => observer.disconnect());
    }
    this._theming.apply();
  }

  /** Replaces the drawing by an explanation. */
  showProblems(title: string, problems: readonly string[]): void {
    this._message.replaceChildren(errorView(title, problems));
    this._message.hidden = false;
    this.announcer.say(`${title}: ${problems.join('; ')}`);
  }

  get theme(): ITheme {
    return this._theming.theme;
  }

  setTheme(name: ThemeName): void {
    this._theming.setName(name);
  }

  setHeight(height: number | 'fill'): void {
    this._options.height = height;
    this._applyHeight();
  }

  /** Makes the view so much higher than it was asked to be; one that fills its host stays. */
  protected _grow(px: number): void {
    this._extraPx = px;
    this._applyHeight();
  }

  private _applyHeight(): void {
    const { height } = this._options;
    this.element.style.height =
      height === 'fill' ? '100%' : `${Math.max(160, height) + this._extraPx}px`;
  }

  /** Opens or closes the list of keys. */
  showHelp(): void {
    if (this._help !== null) {
      this._help.remove();
      this._help = null;
      return;
    }
    this._help = helpCard(() => this.showHelp());
    this.stage.element.append(this._help);
  }

  dispose(): void {
    this.isDisposed = true;
    this._disposables.dispose();
    this.announcer.dispose();
    this.stage.dispose();
    this.element.remove();
  }
}
