/** The timeline panel: which kernel ran when, on which thread or stream, linked with the graph. */

import { formatTime, plural } from '../../model/format';
import { parseColor, type Rgb } from '../../render/color';
import type { IPanel, IPanelHost } from '../../view/panel';
import { markRows } from '../kernels';
import { ChartStage } from '../parts/stage';
import { WhenShown } from '../parts/when';
import { TimelineControls, type IQuery } from './controls';
import { timelineOf } from './data';
import { TimelineInput } from './input';
import type { Lane } from './lanes';
import { TimelineModel, type ITotal } from './model';
import { OVERLAY, TimelineNavigator } from './navigator';
import { paintOverlay, paintScene, TOP_PX, type IFrame } from './paint';
import { Patterns } from './patterns';
import { makeStyling, type ColorBy, type IStyling } from './styles';
import { totalsTable } from './table';
import type { TimeWindow } from './window';
import { describeSlice, describeTimeline } from './words';

/** Any colour that CSS knows, such as `rebeccapurple`: a canvas says what it is; null for none. */
function readCssColor(text: string): Rgb | null {
  const ctx = document.createElement('canvas').getContext('2d');
  if (ctx === null || (typeof CSS !== 'undefined' && !CSS.supports('color', text))) {
    return null;
  }
  ctx.fillStyle = text;
  return parseColor(ctx.fillStyle);
}

export class TimelinePanel implements IPanel {
  readonly element: HTMLElement;
  private readonly _stage: ChartStage;
  private readonly _controls: TimelineControls;
  private readonly _input: TimelineInput;
  private readonly _navigator: TimelineNavigator;
  private readonly _when = new WhenShown(() => void this._load());
  private readonly _patterns = new Patterns();
  private _data: TimelineModel | null = null;
  private _styling: IStyling | null = null;
  private _colorBy: ColorBy = 'family';
  private _query: IQuery = { runs: 'one', events: false };
  private _shownQuery = this._query;
  /** Ids of the kernels that are selected. */
  private _selected: ReadonlySet<string> = new Set();
  private _marks: Uint8Array | null = null;
  private _found: Map<Lane, Lane> | null = null;
  private _isChoosing = false;
  private _asked = 0;

  constructor(private readonly _host: IPanelHost) {
    this._stage = new ChartStage(_host.view, 'jp-MaxLab-timelineStage', [
      (ctx, width, height) => {
        const frame = this._frame(width, height);
        if (frame !== null) {
          paintScene(ctx, frame);
        }
      },
      (ctx, width, height) => {
        const frame = this._frame(width, height);
        if (frame !== null) {
          paintOverlay(ctx, frame, this._navigator.over);
        }
      }
    ]);
    const stage = this._stage.element;
    this._stage.describe('Timeline');
    this._controls = new TimelineControls(stage, {
      search: text => this._search(text),
      step: direction => void this._stepMatch(direction),
      leave: () => stage.focus(),
      colorBy: by => this._setColorBy(by),
      query: query => {
        this._query = query;
        void this._load();
      },
      zoom: direction => this._navigator.run(direction > 0 ? 'zoom-in' : 'zoom-out'),
      fit: () => this._navigator.run('fit'),
      table: isTable => this._showTable(isTable)
    });
    this.element = this._controls.element;
    this._navigator = new TimelineNavigator(this._stage, {
      choose: (slice, extend) => this._choose(slice, extend),
      stepMatch: direction => this._stepMatch(direction),
      focusSearch: () => this._controls.focusSearch(),
      toggleKeys: () => this._controls.toggleKeys(),
      hint: text => this._controls.hint(text),
      hintWheel: () => this._controls.hintWheel(),
      say: text => _host.view.say(text)
    });
    this._input = new TimelineInput(this._stage.surface, this._navigator);
  }

  // --- the panel in its dock ----------------------------------------------------------------------

  update(): void {
    this._controls.setLive(this._host.view.notLive);
    this._when.update();
  }

  shown(isShown: boolean): void {
    this._when.shown(isShown);
  }

  resized(): void {
    this._stage.resized(() => this._restyle());
  }

  selected(ids: readonly string[]): void {
    const data = this._data;
    if (data === null) {
      return;
    }
    const kernels = data.kernelsOf(ids);
    const marks = data.ofKernels(kernels);
    this._selected = new Set([...kernels].map(k => data.timeline.kernels[k] ?? ''));
    markRows(this.element, this._selected);
    const { over } = this._navigator;
    over.selected = marks === null ? null : this._pick(marks);
    if (over.selected !== null && !this._isChoosing) {
      this._navigator.bringIn(over.selected);
    }
    this._stage.surface.redraw(OVERLAY);
  }

  dispose(): void {
    this._asked += 1;
    this._input.dispose();
    this._stage.dispose();
    this._controls.dispose();
    // Columns of a million slices go with the panel, whoever still holds it.
    this._navigator.setData(null);
    this._data = null;
    this._styling = null;
    this._marks = null;
    this._found = null;
  }

  // --- what is shown --------------------------------------------------------------------------------

  /** Slices and lanes that are shown, for tests. */
  get data(): TimelineModel | null {
    return this._data;
  }

  /** The slice that the keyboard is at, for tests. */
  get focus(): number | null {
    return this._navigator.over.focus;
  }

  get window(): TimeWindow {
    return this._navigator.window;
  }

  get frameTimes(): readonly number[] {
    return this._stage.surface.frameTimes;
  }

  private async _load(): Promise<void> {
    const { view } = this._host;
    const asked = (this._asked += 1);
    const query = this._query;
    const args = query.runs === 'one' && !query.events ? {} : { ...query };
    this._controls.busy(true);
    try {
      const { data, buffers } = await view.ask('timeline', args);
      if (asked !== this._asked) {
        return;
      }
      const timeline = timelineOf(data, buffers);
      this._shownQuery = query;
      this._show(new TimelineModel(timeline, view.model, view.timing));
    } catch (error) {
      if (asked === this._asked) {
        this._failed(error instanceof Error ? error.message : String(error));
      }
    } finally {
      if (asked === this._asked) {
        this._controls.busy(false);
      }
    }
  }

  /** Nobody answered: what is shown stays when it is of the same graph and times. */
  private _failed(problem: string): void {
    const { view } = this._host;
    if (this._data === null || this._data.timing !== view.timing) {
      this._explain(problem);
      return;
    }
    this._query = this._shownQuery;
    this._controls.setQuery(this._query);
    this._controls.busy(false);
    this._controls.setLive(view.notLive);
    this._controls.hint(problem);
    view.say(problem);
  }

  private _explain(problem: string): void {
    this._data = null;
    this._navigator.setData(null);
    this._controls.problem(problem);
    this._stage.surface.redraw();
  }

  private _show(data: TimelineModel): void {
    this._data = data;
    this._navigator.setData(data);
    const { timeline } = data;
    const problem =
      timeline.n > 0
        ? null
        : timeline.dropped > 0
          ? `All ${plural(timeline.dropped, 'slice')} of this timeline make no sense.`
          : 'Nothing was recorded.';
    this._controls.problem(problem);
    this._controls.status(
      [
        formatTime(timeline.length),
        plural(timeline.n, 'slice'),
        timeline.simulated
          ? `${timeline.device}: times of the CPU that plays it`
          : timeline.device === 'cpu'
            ? ''
            : timeline.device,
        timeline.dropped > 0 ? `${plural(timeline.dropped, 'bad slice')} left out` : ''
      ].filter(Boolean)
    );
    this._stage.describe(describeTimeline(data));
    this._restyle();
    this._search(this._controls.query);
    this._showTable(this._controls.isTable);
    this._isChoosing = true;
    this.selected(this._host.view.selection);
    this._isChoosing = false;
    this._stage.surface.redraw();
  }

  private _restyle(): void {
    if (this._data !== null) {
      this._styling = makeStyling(this._data, this._stage.theme, this._colorBy, readCssColor);
      this._controls.legend(this._styling.legend);
      this._stage.surface.redraw();
    }
  }

  private _setColorBy(by: ColorBy): void {
    this._colorBy = by;
    this._restyle();
  }

  private _frame(width: number, height: number): IFrame | null {
    if (this._data === null || this._styling === null) {
      return null;
    }
    const navigator = this._navigator;
    navigator.scroll = Math.min(
      navigator.scroll,
      Math.max(0, this._data.rows.height - height + TOP_PX)
    );
    return {
      data: this._data,
      theme: this._stage.theme,
      styling: this._styling,
      patterns: this._patterns,
      measure: this._stage.measure,
      window: navigator.window,
      scroll: navigator.scroll,
      width,
      height,
      found: this._found
    };
  }

  private _showTable(isTable: boolean): void {
    const data = this._data;
    this._controls.table(
      isTable && data !== null
        ? totalsTable(data.totals(), data.kernelNs, total => this._chooseTotal(total))
        : null
    );
    markRows(this.element, this._selected);
    if (!isTable) {
      this._stage.surface.measure();
    }
  }

  private _chooseTotal(total: ITotal): void {
    this._navigator.over.focus = total.slice;
    this._choose(total.slice, false);
    this._host.view.say(`${total.label} selected`);
  }

  // --- search -----------------------------------------------------------------------------------------

  private _search(text: string): void {
    const data = this._data;
    const found = data?.search(text) ?? null;
    this._marks = found?.marks ?? null;
    this._found = found === null ? null : this._pick(found.marks);
    this._controls.count(found?.count ?? null);
    if (found !== null) {
      this._host.view.say(found.count === 0 ? 'no slice found' : `${plural(found.count, 'slice')} found`);
    }
    this._stage.surface.redraw();
  }

  private _stepMatch(direction: 1 | -1): boolean {
    if (this._data === null || this._marks === null) {
      return false;
    }
    const next = this._data.step(this._marks, this._navigator.over.focus, direction);
    if (next !== null) {
      this._navigator.focus(next);
    }
    return true;
  }

  /** The marked slices of each lane that has any. */
  private _pick(marks: Uint8Array): Map<Lane, Lane> {
    const found = new Map<Lane, Lane>();
    for (const row of this._data?.rows.lanes ?? []) {
      const lane = row.lane.pick(marks);
      if (lane.length > 0) {
        found.set(row.lane, lane);
      }
    }
    return found;
  }

  // --- choosing ---------------------------------------------------------------------------------------

  /** Selects the operations of a slice's kernel in the graph. */
  private _choose(slice: number, extend: boolean): void {
    const data = this._data;
    const kernel = data?.kernelOf(slice) ?? null;
    if (data === null) {
      return;
    }
    this._stage.surface.redraw(OVERLAY);
    if (kernel === null) {
      this._host.view.say(`${describeSlice(data, slice)}; it belongs to no operation`);
      return;
    }
    const { view } = this._host;
    const nodes = data.nodesOf(kernel);
    this._isChoosing = true;
    view.select(extend ? [...new Set([...view.selection, ...nodes])] : nodes);
    this._isChoosing = false;
  }
}
