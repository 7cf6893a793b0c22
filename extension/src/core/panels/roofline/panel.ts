/** The roofline panel: how near each kernel is to what the machine can do, linked with the graph. */

import { FAMILY_NAMES, type Family } from '../../model/families';
import type { Measure } from '../../model/metrics';
import type { ITheme } from '../../render/theme';
import { button, el, icon } from '../../view/dom';
import { Tooltip } from '../../view/hud';
import type { IPanel, IPanelHost } from '../../view/panel';
import { makeMeasure } from '../../view/text';
import { KeysCard, type KeyRow } from '../help';
import { familyOfKernel, kernelsOf, markRows, nodesOf, type IKernels } from '../kernels';
import { Surface } from '../surface';
import {
  ChartWindow,
  fitRoofline,
  fitStrip,
  groupNames,
  hasStrip,
  hitDot,
  layout,
  placeDots,
  placeLabels,
  shownDots,
  type IDot
} from './chart';
import { ofTypes, parseRoofline, type Bound, type IPoint, type IRoofline } from './data';
import { RooflineInput, ZOOM_STEP } from './input';
import { paintLabels, paintOverlay, paintScene, type IFrame, type IOverlay } from './paint';
import { pointsTable } from './table';
import { BOUND_NAMES, describePoint, describeRoofline, facts, nameOf, pointLines } from './words';

const OVERLAY = 1;
const FONT_PX = 10.5;
const MAX_LABELS = 40;
const HINT_MS = 2500;

const KEYS: readonly KeyRow[] = [
  ['← →', 'slower, faster kernel'],
  ['Home End', 'slowest, fastest kernel'],
  ['Enter', 'select the operations of the kernel'],
  ['+ −', 'zoom; also the wheel and double-click'],
  ['Shift+arrows', 'move; also dragging'],
  ['F', 'show all'],
  ['Esc', 'leave the kernel, then the selection']
];

const SHAPES: Record<Bound, string> = {
  bandwidth: '●',
  compute: '■',
  launch: '▲',
  imbalance: '◆'
};

export class RooflinePanel implements IPanel {
  readonly element = el('div', 'jp-MaxLab-roofline');
  readonly window = new ChartWindow();
  private readonly _surface: Surface;
  private readonly _input: RooflineInput;
  private readonly _tooltip = new Tooltip();
  private readonly _status = el('span', 'jp-MaxLab-panelStatus');
  private readonly _problem = el('p', 'jp-MaxLab-panelProblem');
  private readonly _table = el('div', 'jp-MaxLab-tableRoom');
  private readonly _legend = el('ul', 'jp-MaxLab-panelLegend');
  private readonly _tableButton: HTMLButtonElement;
  private readonly _all = el('input');
  private readonly _allLabel = el('label', 'jp-MaxLab-check', this._all, 'ceilings of all types');
  private readonly _over = {
    selected: new Set<string>(),
    focus: null as string | null,
    hover: null as string | null
  } satisfies IOverlay;
  private readonly _families = new Map<string, Family>();
  private _theme: ITheme;
  private _measure: Measure;
  /** As it came; and as it is drawn, with the ceilings that matter for this graph. */
  private _whole: IRoofline | null = null;
  private _roofline: IRoofline | null = null;
  private _kernels: IKernels;
  private _dots: readonly IDot[] = [];
  private _facts = '';
  private _isShown = false;
  private _isStale = true;
  private _asked = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly _host: IPanelHost) {
    const { view } = _host;
    this._theme = view.theme;
    this._measure = makeMeasure(view.theme.fontUi);
    this._kernels = { model: view.model, timing: view.timing };
    this._surface = new Surface('jp-MaxLab-rooflineStage', [
      (ctx, width, height) => this._paint(ctx, width, height),
      (ctx, width, height) => {
        const frame = this._frame(width, height);
        if (frame !== null) {
          paintOverlay(ctx, frame, this._over);
        }
      }
    ]);
    const stage = this._surface.element;
    stage.tabIndex = 0;
    stage.setAttribute('role', 'application');
    stage.setAttribute('aria-label', 'Roofline');
    stage.append(this._tooltip.element);
    this._status.setAttribute('role', 'status');
    this._problem.setAttribute('role', 'status');
    this._problem.hidden = true;
    this._table.hidden = true;
    this._table.tabIndex = 0;
    this._table.setAttribute('role', 'region');
    this._table.setAttribute('aria-label', 'Roofline as a table');
    this._legend.setAttribute('aria-label', 'Shapes and colours');
    const zoom = (title: string, name: 'plus' | 'minus' | 'fit', go: () => void): HTMLElement => {
      const made = button('jp-MaxLab-iconButton', title, go);
      made.append(icon(name));
      return made;
    };
    this._tableButton = button(
      'jp-MaxLab-iconButton',
      'Show as a table',
      () => {
        this._tableButton.setAttribute('aria-pressed', String(!this._isTable));
        this._showTable();
      },
      'Table'
    );
    this._tableButton.setAttribute('aria-pressed', 'false');
    const keys = new KeysCard(stage, KEYS);
    const group = el(
      'div',
      'jp-MaxLab-group',
      zoom('Zoom in (+)', 'plus', () => this._zoom(ZOOM_STEP)),
      zoom('Zoom out (−)', 'minus', () => this._zoom(1 / ZOOM_STEP)),
      zoom('Show all (F)', 'fit', () => this._fit()),
      this._tableButton,
      keys.button
    );
    this._all.type = 'checkbox';
    this._all.addEventListener('change', () => {
      if (this._whole !== null) {
        this._show(this._whole);
      }
    });
    const all = this._allLabel;
    all.title = 'Also ceilings of types of numbers that this graph does not use';
    this.element.append(
      el('div', 'jp-MaxLab-panelBar', this._status, all, group),
      this._problem,
      stage,
      this._table,
      this._legend
    );
    this._input = new RooflineInput(this._surface, {
      window: this.window,
      chart: () => this._layout().chart,
      ownsWheel: () =>
        stage.closest('.jp-MaxLab-view')?.contains(document.activeElement) === true,
      hint: text => this._hint(text),
      moved: () => this._moved(),
      zoomed: factor => this._zoom(factor),
      hovered: (x, y) => this._hovered(x, y),
      clicked: (x, y, extend) => this._clicked(x, y, extend),
      step: step => this._step(step),
      choose: () => this._choose(this._over.focus, false),
      clear: () => this._clear(),
      fit: () => this._fit(),
      keys: () => keys.toggle()
    });
  }

  // --- the panel in its dock ----------------------------------------------------------------------

  update(): void {
    this._isStale = true;
    if (this._isShown) {
      void this._load();
    }
  }

  shown(isShown: boolean): void {
    this._isShown = isShown;
    if (isShown && this._isStale) {
      void this._load();
    }
  }

  resized(): void {
    const { theme } = this._host.view;
    if (theme !== this._theme) {
      this._theme = theme;
      this._measure = makeMeasure(theme.fontUi);
      this._showLegend();
    }
    this._surface.measure();
    this._surface.redraw();
  }

  selected(ids: readonly string[]): void {
    const all = this._roofline?.points.map(point => point.kernel) ?? [];
    this._over.selected = new Set(kernelsOf(this._kernels, all, ids));
    const [first] = this._over.selected;
    const point = this._roofline?.points.find(one => one.kernel === first);
    if (this._over.selected.size === 1 && point !== undefined) {
      this._reveal(point);
    }
    markRows(this._table, this._over.selected);
    this._surface.redraw(OVERLAY);
  }

  dispose(): void {
    this._asked += 1;
    clearTimeout(this._timer);
    this._input.dispose();
    this._surface.dispose();
    this._roofline = null;
    this.element.remove();
  }

  // --- what is shown --------------------------------------------------------------------------------

  /** What is drawn, for tests. */
  get roofline(): IRoofline | null {
    return this._roofline;
  }

  get dots(): readonly IDot[] {
    return this._dots;
  }

  get focus(): string | null {
    return this._over.focus;
  }

  private async _load(): Promise<void> {
    const { view } = this._host;
    this._isStale = false;
    const asked = (this._asked += 1);
    this.element.setAttribute('aria-busy', 'true');
    // Ceilings are measured when they are first asked for, which takes about a second.
    this._status.textContent = 'Reading the roofline…';
    try {
      const { data } = await view.ask<unknown>('roofline');
      if (asked !== this._asked) {
        return;
      }
      const parsed = parseRoofline(data);
      if (parsed.ok) {
        this._show(parsed.roofline);
      } else {
        this._explain(parsed.problem);
      }
    } catch (error) {
      if (asked === this._asked) {
        this._explain(error instanceof Error ? error.message : String(error));
      }
    } finally {
      if (asked === this._asked) {
        this.element.setAttribute('aria-busy', 'false');
      }
    }
  }

  private _explain(problem: string): void {
    this._roofline = null;
    this._whole = null;
    this._status.textContent = '';
    this._problem.textContent = problem;
    this._problem.hidden = false;
    this._surface.element.hidden = true;
    this._table.hidden = true;
    this._legend.replaceChildren();
  }

  private _show(whole: IRoofline): void {
    const { view } = this._host;
    this._whole = whole;
    const fitting = ofTypes(whole, this._types());
    const roofline = this._all.checked ? whole : fitting;
    this._allLabel.hidden = fitting.compute.length === whole.compute.length;
    this._roofline = roofline;
    this._kernels = { model: view.model, timing: view.timing };
    this._families.clear();
    this._over.focus = null;
    this._over.hover = null;
    this._tooltip.hide();
    const { x, y } = fitRoofline(roofline);
    this.window.setFit(x, y);
    if (roofline.points.length === 0) {
      this._explain('This run has no kernels.');
      return;
    }
    this._problem.hidden = true;
    this._facts = facts(roofline).join(' · ');
    this._status.textContent = this._facts;
    this._status.title = this._facts;
    this._surface.element.setAttribute('aria-label', describeRoofline(this._kernels, roofline));
    this._showLegend();
    this._showTable();
    this.selected(view.selection);
    this._surface.measure();
    this._surface.redraw();
  }

  /** Short names of the types of numbers in the graph: `f32` of `f32[batch, 384]`. */
  private _types(): Set<string> {
    const { model } = this._host.view;
    return new Set(model.values.map(({ value }) => value.type.replace(/\[.*$/, '')));
  }

  private get _isTable(): boolean {
    return this._tableButton.getAttribute('aria-pressed') === 'true';
  }

  private _showTable(): void {
    const roofline = this._roofline;
    const isTable = this._isTable && roofline !== null;
    this._table.replaceChildren();
    if (isTable) {
      this._table.append(
        pointsTable(this._kernels, roofline, kernel => this._choose(kernel, false))
      );
      markRows(this._table, this._over.selected);
    }
    this._table.hidden = !isTable;
    this._surface.element.hidden = isTable || roofline === null;
    this._legend.hidden = isTable;
    this._surface.measure();
  }

  private _showLegend(): void {
    const points = this._roofline?.points ?? [];
    const bounds = (Object.keys(SHAPES) as Bound[]).filter(bound =>
      points.some(point => point.bound === bound)
    );
    const families = new Set(points.map(point => this._familyOf(point.kernel)));
    const entries = bounds.map(bound =>
      el('li', '', el('span', '', SHAPES[bound]), BOUND_NAMES[bound])
    );
    if (entries.length > 0) {
      entries.unshift(el('li', '', 'held back by'));
    }
    for (const family of Object.keys(FAMILY_NAMES) as Family[]) {
      if (families.has(family)) {
        const swatch = el('span', 'jp-MaxLab-swatch');
        swatch.style.background = this._theme.family[family].stripe;
        entries.push(el('li', '', swatch, FAMILY_NAMES[family]));
      }
    }
    this._legend.replaceChildren(...entries, el('li', '', 'the area is the time'));
  }

  private _familyOf(kernel: string): Family {
    let family = this._families.get(kernel);
    if (family === undefined) {
      family = familyOfKernel(this._kernels, kernel);
      this._families.set(kernel, family);
    }
    return family;
  }

  private _layout(): ReturnType<typeof layout> {
    const { width, height } = this._surface;
    return layout(width, height, this._roofline !== null && hasStrip(this._roofline));
  }

  private _frame(width: number, height: number): IFrame | null {
    const roofline = this._roofline;
    if (roofline === null) {
      return null;
    }
    const places = layout(width, height, hasStrip(roofline));
    const strip = fitStrip(roofline);
    this._dots = placeDots(roofline, places, this.window, strip);
    return {
      roofline,
      theme: this._theme,
      measure: this._measure,
      layout: places,
      window: this.window,
      strip,
      dots: this._dots,
      familyOf: kernel => this._familyOf(kernel)
    };
  }

  private _paint(ctx: CanvasRenderingContext2D, width: number, height: number): void {
    const frame = this._frame(width, height);
    if (frame === null) {
      return;
    }
    const taken = paintScene(ctx, frame);
    const { chart, strip } = frame.layout;
    const dots = shownDots(frame.dots, frame.layout);
    const labels = placeLabels(
      groupNames(dots, dot => nameOf(this._kernels, dot.point)),
      dots,
      text => this._measure(text, FONT_PX),
      dot => (dot.isMove && strip !== null ? strip : chart),
      taken,
      MAX_LABELS
    );
    paintLabels(ctx, this._theme, labels);
  }

  // --- moving and choosing ------------------------------------------------------------------------------

  private _hint(text: string): void {
    clearTimeout(this._timer);
    this._status.textContent = text;
    this._timer = setTimeout(() => {
      this._status.textContent = this._facts;
    }, HINT_MS);
  }

  private _moved(): void {
    this._tooltip.hide();
    this._over.hover = null;
    this._surface.redraw();
  }

  /** Zooms about the kernel that the keyboard is at while it is seen, else about the middle. */
  private _zoom(factor: number): void {
    const { chart } = this._layout();
    const dot = shownDots(this._dots, this._layout()).find(
      one => !one.isMove && one.point.kernel === this._over.focus
    );
    if (dot === undefined) {
      this.window.zoom(factor);
    } else {
      const up = 1 - (dot.y - chart.y) / chart.h;
      this.window.zoom(factor, (dot.x - chart.x) / chart.w, up);
    }
    this._moved();
  }

  private _fit(): void {
    this.window.fit();
    this._moved();
  }

  private _reveal(point: IPoint): void {
    if (point.flops > 0 && Number.isFinite(point.intensity)) {
      this.window.reveal(Math.log10(point.intensity), Math.log10(point.gflops));
      this._surface.redraw();
    }
  }

  private _hovered(x: number, y: number): void {
    const dot = x < 0 ? null : hitDot(shownDots(this._dots, this._layout()), x, y);
    const kernel = dot?.point.kernel ?? null;
    this._surface.element.style.cursor = kernel === null ? '' : 'pointer';
    if (dot === null) {
      this._tooltip.hide();
    } else {
      const { width, height } = this._surface;
      this._tooltip.show(pointLines(this._kernels, dot.point), x, y, width, height);
    }
    if (kernel !== this._over.hover) {
      this._over.hover = kernel;
      this._surface.redraw(OVERLAY);
    }
  }

  private _clicked(x: number, y: number, extend: boolean): void {
    const dot = hitDot(shownDots(this._dots, this._layout()), x, y);
    this._over.focus = dot?.point.kernel ?? null;
    this._choose(this._over.focus, extend);
    this._surface.redraw(OVERLAY);
  }

  /** Goes to the next slower (-1) or faster (1) kernel, or to one of the ends. */
  private _step(step: -1 | 1 | 'first' | 'last'): void {
    const points = this._roofline?.points ?? [];
    const at = points.findIndex(point => point.kernel === this._over.focus);
    const index =
      step === 'first' || (at < 0 && step !== 'last')
        ? 0
        : step === 'last'
          ? points.length - 1
          : at + step;
    const point = points[index];
    if (point === undefined) {
      this._host.view.say('no more kernels');
      return;
    }
    this._over.focus = point.kernel;
    this._reveal(point);
    this._surface.redraw(OVERLAY);
    this._host.view.say(describePoint(this._kernels, point));
  }

  private _clear(): boolean {
    const had = this._over.focus !== null;
    this._over.focus = null;
    this._surface.redraw(OVERLAY);
    return had;
  }

  /** Selects the operations of a kernel in the graph. */
  private _choose(kernel: string | null, extend: boolean): void {
    if (kernel !== null) {
      const { view } = this._host;
      const nodes = nodesOf(this._kernels, kernel);
      view.select(extend ? [...new Set([...view.selection, ...nodes])] : nodes);
    }
  }
}
