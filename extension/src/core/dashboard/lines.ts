/** Charts of values over time: lines for moments, steps for means. */

import type uPlot from 'uplot';

import { formatTick, niceTop, valueSteps } from './format';
import type { IGroup } from './groups';
import { DASHES, markColor, seriesColor } from './palette';
import { BasePlot, type IPlotHost, paintInside } from './plot';
import { stepPaths } from './steps';
import type { IColumn } from './wire';

/** Lines and steps over a value axis. */
export class LinePlot extends BasePlot {
  constructor(
    host: IPlotHost,
    sync: string,
    private readonly _group: IGroup,
    private readonly _columns: readonly IColumn[]
  ) {
    super(host, sync);
    this._below = (u, context) => shadeCells(u, context, this._host);
  }

  protected _height(): number {
    return 154;
  }

  protected _data(): uPlot.AlignedData {
    const rows = this._group.series.map(one => this._values[one.column] ?? []);
    return [this._times.slice(), ...rows];
  }

  protected _options(): Pick<uPlot.Options, 'series' | 'axes' | 'scales'> {
    const { theme } = this._host;
    const { unit, top } = this._group;
    return {
      scales: { y: { range: (_u, _low, high) => [0, topOf(high, top, unit)] } },
      axes: [
        this._timeAxis(),
        {
          ...this._valueAxis(),
          // About six ticks, however tall the chart.
          space: () => Math.max((this._host.fill ?? 0) / 8, 30),
          incrs: valueSteps(unit),
          grid: { stroke: theme.line, width: 1 },
          values: (_u, splits) => splits.map(value => formatTick(value, unit))
        }
      ],
      series: [{}, ...this._group.series.map(one => this._series(one))]
    };
  }

  private _series(one: IGroup['series'][number]): uPlot.Series {
    const { isDark } = this._host.theme;
    const column = this._columns[one.column];
    const series: uPlot.Series = {
      label: one.label,
      scale: 'y',
      stroke: seriesColor(one.color, isDark),
      width: 1.6,
      dash: DASHES[one.dash % DASHES.length],
      points: { show: false },
      pxAlign: 0
    };
    if (one.isFilled || column?.average === true) {
      series.fill = seriesColor(one.color, isDark, column?.average === true ? 0.2 : 0.1);
    }
    if (column?.average === true) {
      series.paths = stepPaths(column.window, one.isFilled);
    }
    return series;
  }
}

function topOf(high: number | null, top: number | null, unit: string): number {
  const most = high ?? 0;
  // A share is of a whole. A memory is drawn whole once it fills, and closer before.
  if (top !== null && (unit === '%' || most > top * 0.4)) {
    return Math.max(top, most);
  }
  return niceTop(most, unit);
}

/** Tints the time in which cells ran, below the lines of a chart. */
function shadeCells(u: uPlot, context: CanvasRenderingContext2D, host: IPlotHost): void {
  paintInside(u, context, ({ top, height }) => {
    const { start, end } = host.shown;
    for (const mark of host.marks) {
      const until = mark.took === null ? host.end : mark.start + mark.took;
      if (mark.kind !== 'cell' || until < start || mark.start > end) {
        continue;
      }
      const from = u.valToPos(mark.start, 'x', true);
      const size = u.valToPos(until, 'x', true) - from;
      context.fillStyle = markColor('cell', host.theme.isDark, host.theme.isDark ? 0.1 : 0.07);
      context.fillRect(from, top, Math.max(size, 1), height);
    }
  });
}
