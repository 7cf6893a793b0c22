/** The drawing of a chart: its canvases, its tooltip, and the theme that it is drawn in. */

import type { Measure } from '../../model/metrics';
import type { ITheme } from '../../render/theme';
import { Tooltip } from '../../view/hud';
import type { IPanelView } from '../../view/panel';
import { makeMeasure } from '../../view/text';
import { Surface, type Painter } from '../surface';

export class ChartStage {
  readonly surface: Surface;
  readonly element: HTMLElement;
  private readonly _tooltip = new Tooltip();
  private _theme: ITheme;
  private _measure: Measure;

  constructor(
    private readonly _view: IPanelView,
    className: string,
    painters: readonly Painter[]
  ) {
    this._theme = _view.theme;
    this._measure = makeMeasure(_view.theme.fontUi);
    this.surface = new Surface(className, painters);
    this.element = this.surface.element;
    this.element.tabIndex = 0;
    this.element.setAttribute('role', 'application');
    this.element.append(this._tooltip.element);
  }

  get theme(): ITheme {
    return this._theme;
  }

  get measure(): Measure {
    return this._measure;
  }

  /** Says to a screen reader what is drawn. */
  describe(text: string): void {
    this.element.setAttribute('aria-label', text);
  }

  /** Shows `lines` beside a place of the drawing; null hides them. */
  tip(lines: readonly string[] | null, x = 0, y = 0): void {
    if (lines === null) {
      this._tooltip.hide();
    } else {
      this._tooltip.show(lines, x, y, this.surface.width, this.surface.height);
    }
  }

  /** The room or the theme has changed; `restyle` is called when it was the theme. */
  resized(restyle?: () => void): void {
    const { theme } = this._view;
    if (theme !== this._theme) {
      this._theme = theme;
      this._measure = makeMeasure(theme.fontUi);
      restyle?.();
    }
    this.surface.measure();
    this.surface.redraw();
  }

  /** A page keeps its wheel until something in the view was clicked. */
  get ownsWheel(): boolean {
    const view = this.element.closest('.jp-MaxLab-view');
    return view?.contains(document.activeElement) === true;
  }

  dispose(): void {
    this.surface.dispose();
  }
}
