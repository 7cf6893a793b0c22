/** What kernels did, over the time axis of the charts. */

import type uPlot from 'uplot';

import { markColor } from './palette';
import { BasePlot, type IPlotHost, paintInside } from './plot';
import type { IMark } from './wire';
import { at } from '../narrow';

const LANE_ROW_PX = 20;

/** What kernels did: a lane for each kind of mark. */
export class LanePlot extends BasePlot {
  constructor(
    host: IPlotHost,
    sync: string,
    private readonly _kinds: readonly string[]
  ) {
    super(host, sync);
    this._above = (u, context) => this._paint(u, context);
    this.element.addEventListener('pointerdown', event => (this._pressedAt = event.clientX));
    this.element.addEventListener('click', event => {
      const mark = this._markAt(event);
      // A drag zooms.
      if (mark !== null && Math.abs(event.clientX - this._pressedAt) < 4) {
        this._host.chosen(mark);
      }
    });
    this.element.addEventListener('pointermove', event => {
      this._plot?.over.classList.toggle('jp-mod-onMark', this._markAt(event) !== null);
    });
  }

  private _pressedAt = 0;

  /** The mark below the pointer, the last of those that lie over each other. */
  private _markAt(event: MouseEvent): IMark | null {
    const over = this._plot?.over;
    if (this._plot === null || over === undefined) {
      return null;
    }
    const box = over.getBoundingClientRect();
    const kind = this._kinds[Math.floor(((event.clientY - box.top) / box.height) * this._kinds.length)];
    const x = event.clientX - box.left;
    const found = this.marksAt(this._plot.posToVal(x, 'x')).filter(mark => mark.kind === kind);
    return found[found.length - 1] ?? null;
  }

  /** The marks that are drawn at `time`, in the order of their starts. */
  marksAt(time: number): IMark[] {
    // A mark is two pixels wide at least, and a pointer is not more exact than that.
    const spare = this._plot === null ? 0 : this._plot.posToVal(2, 'x') - this._plot.posToVal(0, 'x');
    return marksNear(this._host.marks, time, spare, this._host.end);
  }

  protected _height(): number {
    return this._kinds.length * LANE_ROW_PX + 36;
  }

  protected override _filled(fill: number | null): number {
    return Math.min(fill ?? 0, this._kinds.length * LANE_ROW_PX * 0.5) + this._height();
  }

  protected _data(): uPlot.AlignedData {
    return [this._times.slice(), this._times.map(() => null)];
  }

  protected _options(): Pick<uPlot.Options, 'series' | 'axes' | 'scales'> {
    const rows = this._kinds.length;
    return {
      scales: { y: { range: [0, rows] } },
      axes: [
        this._timeAxis(),
        {
          ...this._valueAxis(),
          grid: { show: false },
          splits: () => this._kinds.map((_, row) => rows - row - 0.5),
          values: () => this._kinds.map(kind => LANES[kind] ?? kind)
        }
      ],
      series: [{}, { scale: 'y', show: false }]
    };
  }

  private _paint(u: uPlot, context: CanvasRenderingContext2D): void {
    paintInside(u, context, ({ left, top, width, height }) => {
      const { theme, shown, end } = this._host;
      const ratio = width / Math.max(u.over.clientWidth, 1);
      const row = height / this._kinds.length;
      context.font = `${11 * ratio}px ${theme.fontUi}`;
      context.textBaseline = 'middle';
      context.textAlign = 'left';
      const nextStarts = startsOfNext(this._host.marks);
      for (const [n, mark] of this._host.marks.entries()) {
        const lane = this._kinds.indexOf(mark.kind);
        const until = mark.took === null ? end : mark.start + mark.took;
        if (lane < 0 || until < shown.start || mark.start > shown.end) {
          continue;
        }
        const from = u.valToPos(mark.start, 'x', true);
        const size = Math.max(u.valToPos(until, 'x', true) - from, 2 * ratio);
        const y = top + lane * row + 2 * ratio;
        const tall = row - 4 * ratio;
        context.fillStyle = markColor(mark.kind, theme.isDark, mark.took === null ? 0.55 : 0.9);
        context.beginPath();
        roundRect(context, from, y, size, tall, Math.min(3 * ratio, size / 2));
        context.fill();
        const many = mark.count > 1 ? ` ×${mark.count}` : '';
        const inside = Math.max(from, left) + 5 * ratio;
        // Things that are done side by side lie over each other, the later one on top.
        const free = Math.min(from + size, left + width, u.valToPos(at(nextStarts, n), 'x', true));
        const room = free - inside - 4 * ratio;
        const words = [...(mark.line === '' ? [] : [`${mark.name}  ${mark.line}`]), `${mark.name}${many}`].find(
          text => room > 12 * ratio && context.measureText(text).width <= room
        );
        if (words !== undefined) {
          context.fillStyle = theme.isDark ? '#000' : '#fff';
          context.fillText(words, inside, y + tall / 2 + ratio / 2);
        }
      }
    });
  }
}

/**
 * Those of `marks` that went on at `time`; of a lane in which nothing did, those no further away than
 * `spare`. What has not ended goes on until `end`.
 */
export function marksNear(marks: readonly IMark[], time: number, spare: number, end: number): IMark[] {
  const away = ({ start, took }: IMark): number =>
    Math.max(start - time, time - (took === null ? end : start + took), 0);
  const near = marks.filter(mark => away(mark) <= spare);
  const busy = new Set(near.filter(mark => away(mark) === 0).map(mark => mark.kind));
  return near.filter(mark => away(mark) === 0 || !busy.has(mark.kind));
}

/** For each mark, when the next one of its lane begins. `marks` are in the order of their starts. */
export function startsOfNext(marks: readonly IMark[]): number[] {
  const next: Record<string, number> = {};
  const starts = new Array<number>(marks.length);
  for (let n = marks.length - 1; n >= 0; n -= 1) {
    const { kind, start } = at(marks, n);
    starts[n] = next[kind] ?? Number.MAX_SAFE_INTEGER;
    next[kind] = start;
  }
  return starts;
}

export const LANES: Record<string, string> = {
  cell: 'cells',
  run: 'runs',
  load: 'load',
  compile: 'compile',
  phase: 'phases',
  kernel: 'kernels',
  profile: 'profile',
  op: 'ops'
};

function roundRect(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  radius: number
): void {
  if (typeof context.roundRect === 'function') {
    context.roundRect(x, y, width, height, radius);
  } else {
    context.rect(x, y, width, height);
  }
}
