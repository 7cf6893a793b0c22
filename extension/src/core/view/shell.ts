/**
 * The frame of a view, which knows nothing of graphs: its element and style, drawing surface, theme,
 * messages, tooltip and help. `GraphView` fills it.
 */

import type { Measure } from '../model/metrics';
import type { ITheme, ThemeName } from '../render/theme';
import { errorView } from './describe';
import { append, Disposables, el, type Child } from './dom';
import { FaultCard } from './fault';
import { Announcer, helpCard, Legend, Tooltip } from './hud';
import { ownCaps } from './keys';
import { Stage } from './stage';
import { addStyles } from './styles';
import { makeMeasure } from './text';
import { Theming, watchMotion } from './theming';
import type { IGraphViewOptions } from './types';

/** Narrower views put the side panel over the drawing. */
const NARROW_PX = 640;

const DEFAULT_HEIGHT_PX = 560;

/** The elements that a view puts into its frame. */
export interface IShellParts {
  bar: HTMLElement;
  /** Below the bar: what edits the graph. */
  strip: HTMLElement;
  panel: HTMLElement;
  dock: HTMLElement;
  /** They lie over the drawing. */
  overlays: readonly Child[];
}

export interface IShellHost {
  /** There is a new theme, and the drawing surface has it. */
  themed(): void;
  /** The last thing used is now the keyboard, or no longer. */
  keyboardChanged(): void;
}

export class Shell {
  readonly element = el('div', 'jp-MaxLab-view');
  readonly stage: Stage;
  readonly announcer = new Announcer();
  readonly fault = new FaultCard();
  readonly legend = new Legend();
  readonly tooltip = new Tooltip();
  readonly options: Required<IGraphViewOptions>;
  readonly measure: Measure;
  /** What is called when the view is disposed, in reverse order. */
  readonly disposables = new Disposables();
  private readonly _message = el('div', 'jp-MaxLab-message');
  private readonly _theming: Theming;
  private _isDisposed = false;
  private _isKeyboard = false;
  private _extraPx = 0;
  private _reservedPx = 0;
  private _help: HTMLElement | null = null;

  constructor(
    room: HTMLElement,
    options: IGraphViewOptions,
    private readonly _host: IShellHost
  ) {
    this.options = {
      theme: options.theme ?? 'auto',
      height: options.height ?? DEFAULT_HEIGHT_PX,
      noProfile: options.noProfile === undefined ? 'no live kernel' : options.noProfile,
      isPage: options.isPage ?? false,
      canReveal: options.canReveal ?? false,
      keysOf: options.keysOf ?? null,
      canAsk: options.canAsk ?? false,
      canMoveOut: options.canMoveOut ?? false,
      canInsert: options.canInsert ?? false
    };
    const { element } = this;
    if (this.options.keysOf === null) {
      // In a JupyterLab that does not know the view, its shortcuts must not see the keys typed in here.
      element.setAttribute('data-lm-suppress-shortcuts', 'true');
    }
    room.append(element);
    this.disposables.add(addStyles(element));
    this._theming = new Theming(element, this.options.theme, theme => {
      this.stage.setTheme(theme);
      this._host.themed();
    });
    this.disposables.add(() => {
      this._theming.dispose();
    });
    this.measure = makeMeasure(this.theme.fontUi);
    this.stage = new Stage(this.theme);
    this._message.hidden = true;
    this.disposables.add(
      watchMotion(isReduced => {
        this.stage.reducedMotion = isReduced;
      })
    );
    this.setHeight(this.options.height);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** The last thing used was the keyboard: its place is outlined. */
  get isKeyboard(): boolean {
    return this._isKeyboard;
  }

  get theme(): ITheme {
    return this._theming.theme;
  }

  /** Puts the parts in place and reads the first theme. */
  assemble({ bar, strip, panel, dock, overlays }: IShellParts): void {
    const { element, stage, disposables } = this;
    append(
      stage.element,
      ...overlays,
      this.tooltip.element,
      this.announcer.element,
      this.announcer.live,
      this._message,
      this.fault.element
    );
    element.append(bar, strip, el('div', 'jp-MaxLab-body', el('div', 'jp-MaxLab-drawing', stage.element, this.legend.element), panel), dock);
    const capture = { capture: true };
    disposables.listen(element, 'keydown', () => this._use(true), capture);
    disposables.listen(element, 'pointerdown', () => this._use(false), capture);
    if (typeof ResizeObserver !== 'undefined') {
      const observer = new ResizeObserver(() =>
        element.classList.toggle('jp-mod-narrow', element.clientWidth < NARROW_PX)
      );
      observer.observe(element);
      disposables.add(() => observer.disconnect());
    }
    this._theming.apply();
  }

  private _use(isKeyboard: boolean): void {
    if (isKeyboard) {
      this.tooltip.hide();
    }
    if (this._isKeyboard !== isKeyboard) {
      this._isKeyboard = isKeyboard;
      this._host.keyboardChanged();
    }
  }

  /** Replaces the drawing by an explanation. */
  showProblems(title: string, problems: readonly string[]): void {
    this._message.replaceChildren(errorView(title, problems));
    this._message.hidden = false;
    this.announcer.say(`${title}: ${problems.join('; ')}`);
  }

  hideProblems(): void {
    this._message.hidden = true;
  }

  setTheme(name: ThemeName): void {
    this._theming.setName(name);
  }

  /** Reads the colours of the page again. */
  readTheme(): void {
    this._theming.apply();
  }

  setHeight(height: number | 'fill'): void {
    this.options.height = height;
    this._applyHeight();
  }

  /** Makes the view so much higher than it was asked to be; one that fills its host stays. */
  grow(px: number): void {
    this._extraPx = px;
    this._applyHeight();
  }

  /** As `grow`, for what stays open. */
  reserve(px: number): void {
    this._reservedPx = px;
    this._applyHeight();
  }

  private _applyHeight(): void {
    const { height } = this.options;
    this.element.style.height =
      height === 'fill' ? '100%' : `${Math.max(160, height) + this._extraPx + this._reservedPx}px`;
  }

  /** Opens or closes the list of keys. */
  showHelp(): void {
    if (this._help !== null) {
      this._help.remove();
      this._help = null;
      return;
    }
    this._help = helpCard(this.options.keysOf ?? ownCaps, () => this.showHelp());
    this.stage.element.append(this._help);
  }

  dispose(): void {
    this._isDisposed = true;
    this.disposables.dispose();
    this.announcer.dispose();
    this.stage.dispose();
    this.element.remove();
  }
}
