/** One model at many sizes: curves of what whole runs and kernels cost, and how they grow. */

import { formatTime, plural } from '../../model/format';
import { button, el } from '../../view/dom';
import type { IPanelView } from '../../view/panel';
import { Asked } from '../parts/asked';
import { Choice } from '../parts/choice';
import { DataTable, type IColumn } from '../parts/table';
import { CurveChart } from './chart';
import { along, readSizes, sizeOf, suggestedSizes } from './curves';
import { sweepOf, type ICurve, type ISweep } from './data';
import { at } from '../../narrow';

/** Curves that are drawn: the whole run, and the kernels that cost most at the largest size. */
const MOST_CURVES = 12;
/** Sizes that have a column in the table. */
const MOST_SIZES = 8;

type How = 'Total' | 'Each';
type Form = 'Chart' | 'Table';

export class SizesView {
  readonly element = el('div', 'jp-MaxLab-mainColumn');
  private readonly _asked: Asked<'sweep', ISweep>;
  private readonly _chart: CurveChart;
  private readonly _tools = el('div', 'jp-MaxLab-tools');
  private readonly _room = el('div', 'jp-MaxLab-scroll');
  private readonly _form: Choice<Form>;
  private readonly _how: Choice<How>;
  private readonly _dim = el('select');
  private readonly _wanted = el('select');
  private readonly _sizes = el('input', 'jp-MaxLab-sizesInput');
  private readonly _problem = el('span', 'jp-MaxLab-sizesProblem');
  private readonly _go: HTMLButtonElement;
  private _saved: ISweep | null = null;
  private _table: DataTable<ICurve> | null = null;
  private _dims: readonly (readonly [string, number])[] = [];
  private _more: Node | null = null;

  constructor(private readonly _view: IPanelView) {
    this._asked = new Asked(_view, 'sweep', sweepOf, () => this._show());
    this._chart = new CurveChart(_view, curve => this._choose(curve));
    this._form = new Choice<Form>('Show as', ['Chart', 'Table'], 'Chart', () => this._show());
    this._how = new Choice<How>('Time', ['Total', 'Each'], 'Total', () => this._show());
    this._dim.addEventListener('change', () => this._show());
    this._wanted.setAttribute('aria-label', 'Dim to sweep');
    this._wanted.addEventListener('change', () => this._suggest());
    this._sizes.setAttribute('aria-label', 'Sizes to sweep');
    this._sizes.spellcheck = false;
    this._sizes.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        this._run();
      }
    });
    this._problem.setAttribute('role', 'status');
    this._go = button(
      'jp-MaxLab-plainButton jp-mod-primary',
      'Run the model at these sizes',
      () => this._run(),
      'Sweep'
    );
    this.element.append(this._tools, this._room);
  }

  /** A sweep that the document was made for. */
  setSaved(sweep: ISweep): void {
    this._saved = sweep;
    this._show();
  }

  /** The symbolic dims, and their sizes in the newest run. */
  setDims(dims: readonly (readonly [string, number])[], more: Node | null): void {
    this._more = more;
    const names = (all: readonly (readonly [string, number])[]): string => all.map(([name]) => name).join();
    const isSame = names(dims) === names(this._dims);
    this._dims = dims;
    if (!isSame) {
      this._wanted.replaceChildren(
        ...dims.map(([name]) => {
          const option = el('option', '', name);
          option.value = name;
          return option;
        })
      );
      this._suggest();
    }
    this._show();
  }

  /** The document is another: what was measured of the old one says nothing of it. */
  clear(): void {
    this._asked.clear();
    this._saved = null;
  }

  selected(ids: readonly string[]): void {
    this._chart.select(ids);
    const wanted = new Set(ids);
    this._table?.mark(curve => curve.nodes.some(node => wanted.has(node)));
    this._table?.showMarked();
  }

  redraw(): void {
    this._chart.redraw();
  }

  dispose(): void {
    this._asked.clear();
    this._chart.dispose();
  }

  private _suggest(): void {
    const [, current] = this._dims.find(([name]) => name === this._wanted.value) ?? ['', 0];
    this._sizes.value = suggestedSizes(current).join(' ');
  }

  private _run(): void {
    const sizes = readSizes(this._sizes.value);
    if (typeof sizes === 'string') {
      this._problem.textContent = sizes;
      return;
    }
    this._problem.textContent = '';
    void this._asked.ask({ sizes: { [this._wanted.value]: sizes } });
  }

  private get _sweep(): ISweep | null {
    return this._asked.value ?? this._saved;
  }

  private _show(): void {
    const sweep = this._sweep;
    const isLive = this._view.notLive === null && this._dims.length > 0;
    this._go.disabled = this._asked.isAsking;
    this._go.textContent = this._asked.isAsking ? 'Running…' : 'Sweep';
    const tools: Node[] = this._more === null ? [] : [this._more];
    if (isLive) {
      tools.push(this._wanted, this._sizes, this._go, this._problem);
    }
    if (sweep !== null) {
      this._fillDims(sweep);
      tools.push(this._dimLabel(sweep), this._how.element, this._form.element);
    }
    // The field that is being typed in stays where it is.
    if (!sameChildren(this._tools, tools)) {
      this._tools.replaceChildren(...tools);
    }
    const waiting = this._asked.isAsking ? this._asked.placeholder('Running the model at all sizes…') : null;
    const failed = this._asked.problem !== null ? this._asked.placeholder('') : null;
    if (waiting !== null || failed !== null || sweep === null) {
      this._room.replaceChildren(waiting ?? failed ?? el('p', 'jp-MaxLab-panelNote jp-MaxLab-note', this._why()));
      return;
    }
    this._draw(sweep);
  }

  private _why(): string {
    if (this._view.notLive !== null) {
      return 'No sweep was saved with this graph: maxlab.sweep(model, batch=[1, 2, 4, 8]) makes one.';
    }
    return this._dims.length > 0
      ? 'Choose sizes, and see what each kernel costs at each of them.'
      : 'All sizes of this graph are fixed: there is nothing to sweep. Sizes with names can be swept.';
  }

  private _fillDims({ dims }: ISweep): void {
    const now = [...this._dim.options].map(option => option.value);
    if (now.join() !== dims.join()) {
      this._dim.replaceChildren(
        ...dims.map(name => {
          const option = el('option', '', name);
          option.value = name;
          return option;
        })
      );
    }
  }

  private _dimLabel({ dims, points }: ISweep): HTMLElement {
    const last = points[points.length - 1];
    const others = dims
      .filter(name => name !== this._dim.value)
      .map(name => `${name} = ${last?.[name]}`)
      .join(', ');
    const label = el('label', '', 'over', this._dim, others === '' ? null : ` at ${others}`);
    label.hidden = dims.length < 2;
    return label;
  }

  private _draw(sweep: ISweep): void {
    const dim = this._dim.value;
    const indices = along(sweep, dim);
    const at = indices[indices.length - 1] ?? 0;
    const costly = [...sweep.kernels].sort((a, b) => (b.ns[at] ?? 0) - (a.ns[at] ?? 0));
    if (this._form.value === 'Chart') {
      const shown = costly.slice(0, MOST_CURVES);
      const left = costly.length - shown.length;
      this._room.replaceChildren(
        this._chart.element,
        el(
          'p',
          'jp-MaxLab-note jp-MaxLab-curvesNote',
          'Dashed: one run. Lines: kernels, in the colours of the graph; bars from the first quartile to the third.' +
            (left > 0 ? ` ${plural(left, 'cheaper kernel')} only in the table.` : '')
        )
      );
      this._chart.show(sweep, [sweep.wall, ...shown], dim, this._how.value === 'Each');
    } else {
      this._table = this._makeTable(sweep, dim, indices);
      this._table.setRows([sweep.wall, ...costly]);
      this._room.replaceChildren(this._table.element);
    }
    this.selected(this._view.selection);
  }

  private _makeTable(sweep: ISweep, dim: string, indices: readonly number[]): DataTable<ICurve> {
    const each = this._how.value === 'Each';
    const chosen = spread(indices, MOST_SIZES);
    const power = (curve: ICurve, which: number): number | null => curve.growth[dim]?.[which] ?? null;
    const powerColumn = (title: string, which: number): IColumn<ICurve> => ({
      title,
      cell: curve => power(curve, which)?.toFixed(2) ?? '–',
      key: curve => power(curve, which),
      isNumber: true
    });
    return new DataTable<ICurve>(
      `Time over ${dim}`,
      [
        { title: 'kernel', cell: curve => curve.id || 'one run', key: curve => curve.id },
        { title: 'name', cell: curve => (curve.id === '' ? '' : curve.name), key: curve => curve.name },
        ...chosen.map((index): IColumn<ICurve> => {
          const size = sizeOf(sweep, index, dim);
          const value = (curve: ICurve): number => (curve.ns[index] ?? 0) / (each ? size : 1);
          return {
            title: `${dim} ${size.toLocaleString('en-US')}`,
            cell: curve => formatTime(value(curve)),
            key: value,
            unit: each ? `ns for one of ${dim}` : 'ns',
            isNumber: true
          };
        }),
        powerColumn('time grows as ^', 0),
        powerColumn('operations ^', 1),
        powerColumn('bytes ^', 2)
      ],
      curve => this._choose(curve)
    );
  }

  private _choose(curve: ICurve): void {
    const known = curve.nodes.filter(node => this._view.model.node(node) !== undefined);
    if (known.length > 0) {
      this._view.select(known);
      this._view.say(`${curve.id} ${curve.name} selected`);
    } else {
      this._view.say(curve.id === '' ? 'whole runs' : `${curve.id} computes no operation of the graph`);
    }
  }
}

/** At most `count` of `all`, evenly, with the first and the last. */
export function spread<T>(all: readonly T[], count: number): T[] {
  if (all.length <= count) {
    return [...all];
  }
  const places = Array.from({ length: count }, (_, i) => Math.round((i * (all.length - 1)) / (count - 1)));
  return [...new Set(places)].map(place => at(all, place));
}

function sameChildren(node: Node, children: readonly Node[]): boolean {
  const now = [...node.childNodes];
  return now.length === children.length && now.every((child, i) => child === children[i]);
}
