/** The compile report: what took how long, and what of it was found compiled already. */

import { formatShare, formatTime } from '../../model/format';
import { css, oklch } from '../../render/color';
import { el } from '../../view/dom';
import type { IPanel, IPanelHost, IPanelView } from '../../view/panel';
import { Asked } from '../parts/asked';
import { Choice } from '../parts/choice';
import { chosenSection } from '../parts/chosen';
import { compiledPanel } from '../parts/compiled';
import { DataTable } from '../parts/table';
import { WhenShown } from '../parts/when';
import { COMPILE_STYLES } from './css';
import type { ICompileAnswer, ICompileUnit } from '../../../proto/checks';
import { formatMillis, kernelNames, shares, summary } from './report';
import { at } from '../../narrow';

/** Hues far from each other, also for those who see few of them: lightness alternates as well. */
const HUES = [255, 55, 155, 320, 95, 195, 25, 285];

function phaseColor(n: number, isDark: boolean): string {
  const hue = at(HUES, n % HUES.length);
  const shift = n % 2 === 0 ? 0 : 0.12;
  return css(isDark ? oklch(0.62 + shift, 0.11, hue) : oklch(0.56 + shift, 0.13, hue));
}

/** Place of the column of times. */
const TIME_COLUMN = 4;

/** A short text that says all when it is pointed at. */
function named(text: string, title: string): HTMLElement {
  const node = el('span', '', text);
  node.title = title;
  return node;
}

type Which = 'All' | 'Compiled' | 'Found';

class CompilePanel implements IPanel {
  readonly element = el('div', 'jp-MaxLab-compile');
  private readonly _view: IPanelView;
  private readonly _asked: Asked<'compile', ICompileAnswer>;
  private readonly _when = new WhenShown(() => void this._asked.ask());
  private readonly _table: DataTable<ICompileUnit>;
  private readonly _which: Choice<Which>;

  constructor(host: IPanelHost) {
    this._view = host.view;
    this._asked = new Asked(host.view, 'compile', report => report, () => this._show());
    this._which = new Choice<Which>('Units', ['All', 'Compiled', 'Found'], 'All', () => this._rows());
    this._table = new DataTable<ICompileUnit>(
      'Units of the compiler',
      [
        { title: 'unit', cell: unit => unit.name, key: unit => unit.name },
        {
          title: 'kernels',
          cell: unit => named(kernelNames(unit), unit.kernels.join(' ')),
          key: unit => unit.kernels[0] ?? null,
          field: unit => unit.kernels.join(' ')
        },
        {
          title: 'result',
          cell: unit =>
            el('span', `jp-MaxLab-unit ${unit.hit ? 'jp-mod-hit' : 'jp-mod-miss'}`, unit.hit ? '✓ found' : '● compiled'),
          key: unit => (unit.hit ? 1 : 0),
          field: unit => (unit.hit ? 'found' : 'compiled')
        },
        { title: 'why', cell: unit => unit.why, key: unit => unit.why || null },
        {
          title: 'time',
          cell: unit => formatMillis(unit.ms),
          key: unit => unit.ms,
          unit: 'ms',
          isNumber: true
        },
        {
          title: 'lines',
          cell: unit => (unit.lines === null ? '–' : unit.lines.toLocaleString('en-US')),
          key: unit => unit.lines,
          isNumber: true
        }
      ],
      unit => this._choose(unit)
    );
    // What took longest is what anybody asks about first.
    this._table.sortBy(TIME_COLUMN, true);
  }

  update(): void {
    this._when.update();
  }

  shown(isShown: boolean): void {
    this._when.shown(isShown);
  }

  selected(ids: readonly string[]): void {
    const selected = new Set(ids);
    this._table.mark(unit => this._nodes(unit).some(id => selected.has(id)));
    this._table.showMarked();
  }

  resized(): void {
    if (this._asked.value !== null) {
      this._show();
    }
  }

  dispose(): void {
    this._asked.clear();
    this.element.remove();
  }

  private _nodes(unit: ICompileUnit): string[] {
    const { kernels } = this._view.model;
    return unit.kernels.flatMap(id => kernels.get(id)?.nodes ?? []);
  }

  private _choose(unit: ICompileUnit): void {
    const ids = this._nodes(unit);
    if (ids.length === 0) {
      this._view.say(`${unit.name} computes no operation of the graph`);
      return;
    }
    this._view.select(ids);
    this._view.say(`${unit.name} selected`);
  }

  private _rows(): void {
    const units = this._asked.value?.units ?? [];
    const { value } = this._which;
    const shown = value === 'All' ? units : units.filter(unit => unit.hit === (value === 'Found'));
    this._table.setRows(shown);
    this.selected(this._view.selection);
  }

  private _show(): void {
    const report = this._asked.value;
    const placeholder = this._asked.placeholder('Reading what the compiler did…');
    if (report === null) {
      this.element.replaceChildren(...(placeholder === null ? [] : [placeholder]));
      return;
    }
    const scroll = el('div', 'jp-MaxLab-scroll', this._table.element);
    scroll.hidden = report.units.length === 0;
    const chosen = chosenSection(report);
    this.element.replaceChildren(
      this._phases(report),
      el('div', 'jp-MaxLab-tools', el('strong', '', summary(report)), this._which.element),
      scroll,
      ...(chosen === null ? [] : [chosen])
    );
    this._which.element.hidden = report.units.length === 0;
    this._rows();
  }

  private _phases(report: ICompileAnswer): HTMLElement {
    const parts = shares(report.phases);
    const total = report.phases.reduce((sum, phase) => sum + phase.ns, 0);
    const bar = el('div', 'jp-MaxLab-phaseBar');
    bar.setAttribute('aria-hidden', 'true');
    const list = el('ol', 'jp-MaxLab-keys');
    list.setAttribute('aria-label', 'Phases of the compiler');
    parts.forEach(({ name, ns, share, text }, i) => {
      const color = phaseColor(i, this._view.theme.isDark);
      const piece = el('div', 'jp-MaxLab-phase');
      piece.style.flexGrow = String(share);
      piece.style.background = color;
      piece.title = `${name} ${formatTime(ns)}${text === '' ? '' : `: ${text}`}`;
      bar.append(piece);
      const swatch = el('span', 'jp-MaxLab-swatchBox');
      swatch.style.background = color;
      const item = el('li', '', swatch, name, el('small', '', `${formatTime(ns)} · ${formatShare(share)}`));
      item.title = text;
      list.append(item);
    });
    const withOptions = report.options === '' ? '' : ` · options: ${report.options}`;
    const head = el('div', 'jp-MaxLab-phases', el('p', 'jp-MaxLab-sub', `${formatTime(total)} from graph to model${withOptions}`), bar, list);
    head.hidden = parts.length === 0;
    return head;
  }
}

export const compilePanel = compiledPanel({
  id: 'compile',
  title: 'Compile',
  hint: 'What was compiled, what was found compiled and why, and how long each step took',
  css: COMPILE_STYLES,
  uncompiled: 'Nothing has been compiled: press Profile, or load the graph in a session.',
  make: host => new CompilePanel(host)
});
