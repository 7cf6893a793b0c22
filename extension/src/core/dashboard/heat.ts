/** Many columns of one kind, each a row of colours. */

import type uPlot from 'uplot';

import type { IGroup } from './groups';
import { BasePlot, type IPlotHost, paintInside } from './plot';
import { at } from '../narrow';

const HEAT_ROW_PX = 7;

/** A row for each column, its values as colours. */
export class HeatPlot extends BasePlot {
  constructor(
    host: IPlotHost,
    sync: string,
    private readonly _group: IGroup
  ) {
    super(host, sync);
    this._above = (u, context) => this._paint(u, context);
  }

  protected _height(): number {
    const rows = this._group.series.length;
    return Math.max(154, Math.min(rows * HEAT_ROW_PX + 30, 420));
  }

  protected _data(): uPlot.AlignedData {
    return [this._times.slice(), this._times.map(() => null)];
  }

  protected _options(): Pick<uPlot.Options, 'series' | 'axes' | 'scales'> {
    const rows = this._group.series.length;
    return {
      scales: { y: { range: [0, rows] } },
      axes: [
        { ...this._timeAxis(), grid: { show: false } },
        {
          ...this._valueAxis(),
          grid: { show: false },
          splits: () => labelled(rows).map(row => rows - row - 0.5),
          values: () => labelled(rows).map(row => `core ${row}`)
        }
      ],
      series: [{}, { scale: 'y', show: false }]
    };
  }

  private _paint(u: uPlot, context: CanvasRenderingContext2D): void {
    paintInside(u, context, ({ top, height }) => {
      const { ramp } = this._host.theme;
      const rows = this._group.series.length;
      const rowHeight = height / rows;
      const gap = rowHeight > 6 ? 1 : 0;
      const times = this._times;
      const { start, end } = this._host.shown;
      for (let n = 1; n < times.length; n += 1) {
        const [from, to] = [at(times, n - 1), at(times, n)];
        if (to < start || from > end) {
          continue;
        }
        const x = u.valToPos(from, 'x', true);
        const size = Math.max(u.valToPos(to, 'x', true) - x, 1);
        this._group.series.forEach(({ column }, row) => {
          const value = this._values[column]?.[n] ?? null;
          if (value !== null) {
            const step = Math.round((Math.min(value, 100) / 100) * (ramp.length - 1) * 0.85);
            context.fillStyle = at(ramp, step);
            context.fillRect(x, top + row * rowHeight, size + 0.5, rowHeight - gap);
          }
        });
      }
    });
  }
}

/** Which of `rows` rows are labelled: few enough to be read. */
function labelled(rows: number): number[] {
  const step = Math.max(1, Math.ceil(rows / 8));
  return Array.from({ length: Math.ceil(rows / step) }, (_, n) => n * step);
}
