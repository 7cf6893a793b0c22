/** The roofline panel: how near each kernel is to what the machine can do, linked with the graph. */

import { FAMILY_NAMES, type Family } from '../../model/families';
import { el } from '../../view/dom';
import type { IPanel, IPanelHost } from '../../view/panel';
import type { KeyRow } from '../help';
import { familyOfKernel, kernelsOf, markRows, nodesOf, type IKernels } from '../kernels';
import { ChartFrame, legendEntry } from '../parts/frame';
import type { IPlace } from '../parts/gestures';
import { ChartStage } from '../parts/stage';
import { WhenShown } from '../parts/when';
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
import { ofTypes, rooflineOf, type Bound, type IPoint, type IRoofline } from './data';
import { RooflineInput, ZOOM_STEP } from './input';
import { paintLabels, paintOverlay, paintScene, type IFrame, type IOverlay } from './paint';
import { pointsTable } from './table';
import { BOUND_NAMES, describePoint, describeRoofline, facts, nameOf, pointLines } from './words';
import { keysOf } from '../../narrow';

const OVERLAY = 1;
const FONT_PX = 10.5;
const MAX_LABELS = 40;

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
  readonly element: HTMLElement;
  readonly window = new ChartWindow();
  private readonly _stage: ChartStage;
  private readonly _room: ChartFrame;
  private readonly _input: RooflineInput;
  private readonly _when = new WhenShown(() => void this._load());
  private readonly _all = el('input');
  private readonly _allLabel = el('label', 'jp-MaxLab-check', this._all, 'ceilings of all types');
  private readonly _over: IOverlay = { selected: new Set<string>(), focus: null, hover: null };
  private readonly _families = new Map<string, Family>();
  /** As it came; and as it is drawn, with the ceilings that matter for this graph. */
  private _whole: IRoofline | null = null;
  private _roofline: IRoofline | null = null;
  private _kernels: IKernels;
  private _dots: readonly IDot[] = [];
  private _asked = 0;

  constructor(private readonly _host: IPanelHost) {
    const { view } = _host;
    this._kernels = { model: view.model, timing: view.timing };
    this._stage = new ChartStage(view, 'jp-MaxLab-rooflineStage', [
      (ctx, width, height) => this._paint(ctx, width, height),
      (ctx, width, height) => {
        const frame = this._frame(width, height);
        if (frame !== null) {
          paintOverlay(ctx, frame, this._over);
        }
      }
    ]);
    this._stage.describe('Roofline');
    this._all.type = 'checkbox';
    this._all.addEventListener('change', () => {
      if (this._whole !== null) {
        this._show(this._whole);
      }
    });
    this._allLabel.title = 'Also ceilings of types of numbers that this graph does not use';
    this._room = new ChartFrame({
      className: 'jp-MaxLab-roofline',
      name: 'Roofline',
      legendLabel: 'Shapes and colours',
      stage: this._stage.element,
      keys: KEYS,
      behind: [this._allLabel],
      zoom: direction => this._zoom(direction > 0 ? ZOOM_STEP : 1 / ZOOM_STEP),
      fit: () => this._fit(),
      table: () => this._showTable()
    });
    this.element = this._room.element;
    this._input = new RooflineInput(this._stage.surface, {
      window: this.window,
      chart: () => this._layout().chart,
      ownsWheel: () => this._stage.ownsWheel,
      refused: () => this._room.hintWheel(),
      moved: () => this._moved(),
      zoomed: factor => this._zoom(factor),
      hovered: at => this._hovered(at),
      clicked: (at, extend) => this._clicked(at, extend),
      step: step => this._step(step),
      choose: () => this._choose(this._over.focus, false),
      clear: () => this._clear(),
      fit: () => this._fit(),
      keys: () => this._room.toggleKeys()
    });
  }

  // --- the panel in its dock ----------------------------------------------------------------------

  update(): void {
    this._when.update();
  }

  shown(isShown: boolean): void {
    this._when.shown(isShown);
  }

  resized(): void {
    this._stage.resized(() => this._showLegend());
  }

  selected(ids: readonly string[]): void {
    const all = this._roofline?.points.map(point => point.kernel) ?? [];
    this._over.selected = new Set(kernelsOf(this._kernels, all, ids));
    const [first] = this._over.selected;
    const point = this._roofline?.points.find(one => one.kernel === first);
    if (this._over.selected.size === 1 && point !== undefined) {
      this._reveal(point);
    }
    markRows(this.element, this._over.selected);
    this._stage.surface.redraw(OVERLAY);
  }

  dispose(): void {
    this._asked += 1;
    this._input.dispose();
    this._stage.dispose();
    this._room.dispose();
    this._roofline = null;
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
    const asked = (this._asked += 1);
    // Ceilings are measured when they are first asked for, which takes about a second.
    this._room.busy(true);
    try {
      const { data } = await view.ask('roofline');
      if (asked !== this._asked) {
        return;
      }
      this._show(rooflineOf(data));
    } catch (error) {
      if (asked === this._asked) {
        this._explain(error instanceof Error ? error.message : String(error));
      }
    } finally {
      if (asked === this._asked) {
        this._room.busy(false);
      }
    }
  }

  private _explain(problem: string): void {
    this._roofline = null;
    this._whole = null;
    this._room.problem(problem);
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
    this._stage.tip(null);
    const { x, y } = fitRoofline(roofline);
    this.window.setFit(x, y);
    if (roofline.points.length === 0) {
      this._explain('This run has no kernels.');
      return;
    }
    this._room.problem(null);
    this._room.status(facts(roofline));
    this._stage.describe(describeRoofline(this._kernels, roofline));
    this._showLegend();
    this._showTable();
    this.selected(view.selection);
    this._stage.resized();
  }

  /** Short names of the types of numbers in the graph: `f32` of `f32[batch, 384]`. */
  private _types(): Set<string> {
    const { model } = this._host.view;
    return new Set(model.values.map(({ value }) => value.type.replace(/\[.*$/, '')));
  }

  private _showTable(): void {
    const roofline = this._roofline;
    if (roofline !== null) {
      this._room.table(
        this._room.isTable
          ? pointsTable(this._kernels, roofline, kernel => this._choose(kernel, false))
          : null
      );
      markRows(this.element, this._over.selected);
      this._stage.surface.measure();
    }
  }

  private _showLegend(): void {
    const points = this._roofline?.points ?? [];
    const bounds = keysOf(SHAPES).filter(bound =>
      points.some(point => point.bound === bound)
    );
    const families = new Set(points.map(point => this._familyOf(point.kernel)));
    const entries: HTMLElement[] = bounds.map(bound =>
      el('li', '', el('span', '', SHAPES[bound]), BOUND_NAMES[bound])
    );
    if (entries.length > 0) {
      entries.unshift(el('li', '', 'held back by'));
    }
    for (const family of keysOf(FAMILY_NAMES)) {
      if (families.has(family)) {
        entries.push(legendEntry(this._stage.theme.family[family].stripe, FAMILY_NAMES[family]));
      }
    }
    this._room.legend([...entries, el('li', '', 'the area is the time')]);
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
    const { width, height } = this._stage.surface;
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
      theme: this._stage.theme,
      measure: this._stage.measure,
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
      text => this._stage.measure(text, FONT_PX),
      dot => (dot.isMove && strip !== null ? strip : chart),
      taken,
      MAX_LABELS
    );
    paintLabels(ctx, this._stage.theme, labels);
  }

  // --- moving and choosing ------------------------------------------------------------------------------

  private _moved(): void {
    this._stage.tip(null);
    this._over.hover = null;
    this._stage.surface.redraw();
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
      this._stage.surface.redraw();
    }
  }

  private _hovered(at: IPlace | null): void {
    const dots = shownDots(this._dots, this._layout());
    const dot = at === null ? null : hitDot(dots, at.x, at.y);
    const kernel = dot?.point.kernel ?? null;
    this._stage.element.style.cursor = kernel === null ? '' : 'pointer';
    this._stage.tip(dot === null ? null : pointLines(this._kernels, dot.point), at?.x, at?.y);
    if (kernel !== this._over.hover) {
      this._over.hover = kernel;
      this._stage.surface.redraw(OVERLAY);
    }
  }

  private _clicked({ x, y }: IPlace, extend: boolean): void {
    const dot = hitDot(shownDots(this._dots, this._layout()), x, y);
    this._over.focus = dot?.point.kernel ?? null;
    this._choose(this._over.focus, extend);
    this._stage.surface.redraw(OVERLAY);
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
    this._stage.surface.redraw(OVERLAY);
    this._host.view.say(describePoint(this._kernels, point));
  }

  private _clear(): boolean {
    const had = this._over.focus !== null;
    this._over.focus = null;
    this._stage.surface.redraw(OVERLAY);
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
