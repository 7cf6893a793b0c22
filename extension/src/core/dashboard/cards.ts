/** The cards of a dashboard: a title, the values that are read off, and a chart. */

import { el } from '../view/dom';
import type { Values } from './data';
import { formatSpan, formatValue } from './format';
import type { IGroup } from './groups';
import { seriesColor } from './palette';
import { HeatPlot } from './heat';
import { LanePlot, LANES } from './lanes';
import { LinePlot } from './lines';
import type { IPlot, IPlotHost } from './plot';
import type { IColumn, IMark } from './wire';
import { at } from '../narrow';

const MAX_READOUTS = 8;

/** How a legend shows the dashes of `palette.ts`. */
const STYLES = ['solid', 'dashed', 'dotted', 'double'];

export class Card {
  readonly element = el('section', 'jp-MaxLab-card');
  readonly plot: IPlot | null;
  readonly title: string;
  /** What the readouts say, in words. */
  words = '';
  protected readonly _values = el('div', 'jp-MaxLab-readouts');
  private readonly _head: HTMLElement;
  private readonly _observer: ResizeObserver | null;
  private _headWidth = 0;
  private readonly _cells: HTMLElement[] = [];

  constructor(
    host: IPlotHost,
    sync: string,
    readonly group: IGroup | null,
    private readonly _columns: readonly IColumn[],
    plot?: IPlot,
    title = ''
  ) {
    this.title = group?.title ?? title;
    this.plot =
      plot ??
      (group === null
        ? null
        : group.kind === 'heat'
          ? new HeatPlot(host, sync, group)
          : new LinePlot(host, sync, group, _columns));
    const heading = el('h3', '', this.title);
    if (group !== null) {
      heading.title = group.note;
      this.element.dataset.quantity = group.quantity;
    }
    this._head = el('div', 'jp-MaxLab-cardHead', heading, this._values);
    this._observer = typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(() => this._keepTall());
    this._observer?.observe(this._head);
    this.element.append(this._head);
    if (this.plot !== null) {
      this.plot.element.setAttribute('role', 'img');
      this.element.append(this.plot.element);
    }
    for (const one of this._listed()) {
      const swatch = el('span', 'jp-MaxLab-line');
      swatch.style.borderTopColor = seriesColor(one.color, host.theme.isDark);
      swatch.style.borderTopStyle = at(STYLES, one.dash % STYLES.length);
      const cell = el('b');
      this._cells.push(cell);
      this._values.append(el('span', 'jp-MaxLab-readout', swatch, one.label, cell));
    }
  }

  /** Lets the head grow only: a shorter readout would move the chart away from the pointer that reads it. */
  private _keepTall(): void {
    const { clientWidth, style } = this._head;
    if (clientWidth !== this._headWidth) {
      this._headWidth = clientWidth;
      style.minHeight = '';
    }
    style.minHeight = `${this._head.getBoundingClientRect().height}px`;
  }

  private _listed(): IGroup['series'] {
    return this.group === null || this.group.kind === 'heat'
      ? []
      : this.group.series.slice(0, MAX_READOUTS);
  }

  /** Reads the values of the sample `place` of `values`. */
  read(values: readonly Values[], times: readonly number[], place: number): void {
    const { group } = this;
    if (group === null || times.length === 0) {
      return;
    }
    if (group.kind === 'heat') {
      const found = group.series
        .map(({ column }) => values[column]?.[place] ?? null)
        .filter(value => value !== null);
      const busy = found.filter(value => value > 50).length;
      this.words = found.length === 0 ? '–' : `${busy} of ${found.length} busy`;
      this._values.replaceChildren(el('span', 'jp-MaxLab-readout', this.words));
    } else {
      const texts = group.series.map(({ column }) => {
        const value = values[column]?.[place] ?? null;
        const top = this._columns[column]?.top ?? null;
        const whole = group.unit === 'B' && top !== null && group.series.length <= 3;
        return formatValue(value, group.unit) + (whole && column === group.series[0]?.column ? ` of ${formatValue(top, 'B')}` : '');
      });
      texts.forEach((text, n) => {
        const cell = this._cells[n];
        if (cell !== undefined && cell.textContent !== text) {
          cell.textContent = text;
        }
      });
      this.words = group.series.map(({ label }, n) => `${label} ${texts[n] ?? ''}`).join(', ');
    }
    this.plot?.element.setAttribute('aria-label', `${this.title}: ${this.words}; ${group.note}`);
  }

  dispose(): void {
    this._observer?.disconnect();
    this.plot?.dispose();
    this.element.remove();
  }
}

/** Cells and runs: what a kernel did, over the time axis that all charts share. */
export class LaneCard extends Card {
  static kindsOf(marks: readonly IMark[]): string[] {
    const found = new Set(marks.map(mark => mark.kind));
    return Object.keys(LANES).filter(kind => found.has(kind));
  }

  private readonly _time = el('span', 'jp-MaxLab-dashTime');
  private readonly _lanes: LanePlot;

  constructor(host: IPlotHost, sync: string, kinds: readonly string[]) {
    const lanes = new LanePlot(host, sync, kinds);
    super(host, sync, null, [], lanes, 'Activity');
    this._lanes = lanes;
    this.element.classList.add('jp-mod-wide');
    this.element.dataset.quantity = 'activity';
    this._values.replaceWith(this._time);
  }

  /** Reads the marks of `time`, which is called `when`. */
  readMarks(time: number, when: string): void {
    const there = this._lanes.marksAt(time);
    // The cell first, whatever went on in it.
    const cells = there.filter(mark => mark.kind === 'cell');
    const others = there.filter(mark => mark.kind !== 'cell');
    const texts = [...cells.slice(-1), ...others.slice(-3)].map(mark => {
      const many = mark.count > 1 ? ` ×${mark.count}` : '';
      const took = mark.took === null ? 'running' : formatSpan(mark.took);
      const line = mark.line === '' ? '' : `: ${mark.line}`;
      return `${mark.kind === 'cell' ? '' : `${mark.kind} `}${mark.name}${many}${line}, ${took}`;
    });
    this.words = [when, ...texts].join(' · ');
    if (this._time.textContent !== this.words) {
      this._time.textContent = this.words;
      this._time.title = this.words;
    }
    this.plot?.element.setAttribute('aria-label', `Activity: ${this.words}`);
  }
}
