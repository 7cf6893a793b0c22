/** The memory plan: who is where in the arena between which steps, the peak, and what is beside it. */

import { FAMILY_NAMES } from '../../model/families';
import { formatBytes, formatShare, plural } from '../../model/format';
import { asRegion, button, el } from '../../view/dom';
import { facts, section } from '../../view/kernel';
import type { IPanel, IPanelHost, IPanelView } from '../../view/panel';
import { Asked } from '../parts/asked';
import { Choice } from '../parts/choice';
import { compiledPanel } from '../parts/compiled';
import { DataTable } from '../parts/table';
import { WhenShown } from '../parts/when';
import { MemoryChart } from './chart';
import { MEMORY_STYLES } from './css';
import type { IMemorySlot } from '../../../proto/checks';
import { liveAt, planOf, type IMemoryPlan } from './plan';

/** So many buffers are named at the peak. */
const MOST_HOLDERS = 8;

const NAMES: Record<string, string> = {
  weights: 'weights',
  packed: 'packed copies of weights',
  inputs: 'inputs',
  outputs: 'outputs'
};

class MemoryPanel implements IPanel {
  readonly element = el('div', 'jp-MaxLab-memory');
  private readonly _view: IPanelView;
  private readonly _asked: Asked<'memory', IMemoryPlan>;
  private readonly _chart: MemoryChart;
  private readonly _table: DataTable<IMemorySlot>;
  private readonly _scroll: HTMLElement;
  private readonly _choice: Choice<'Chart' | 'Table'>;
  private readonly _when = new WhenShown(() => void this._asked.ask());
  private _selected: ReadonlySet<string> = new Set();

  constructor(host: IPanelHost) {
    this._view = host.view;
    this._asked = new Asked(host.view, 'memory', planOf, () => this._show());
    const isSelected = (slot: IMemorySlot): boolean => slot.node !== null && this._selected.has(slot.node);
    const choose = (slot: IMemorySlot): void => this._choose(slot);
    this._chart = new MemoryChart(host.view, isSelected, choose);
    const step = (index: number): string => this._asked.value?.steps[index] ?? String(index);
    this._table = new DataTable<IMemorySlot>(
      'Buffers of the memory plan',
      [
        { title: 'buffer', cell: slot => slot.name, key: slot => slot.name },
        { title: 'bytes', cell: slot => formatBytes(slot.bytes), key: slot => slot.bytes, isNumber: true, unit: 'B' },
        { title: 'kind', cell: slot => slot.kind, key: slot => slot.kind },
        {
          title: 'offset',
          cell: slot => (slot.offset === null ? '–' : slot.offset.toLocaleString('en-US')),
          key: slot => slot.offset,
          unit: 'B',
          isNumber: true
        },
        { title: 'first', cell: slot => step(slot.first), key: slot => slot.first },
        { title: 'last', cell: slot => step(slot.last), key: slot => slot.last },
        { title: 'made by', cell: slot => this._maker(slot), key: slot => this._maker(slot) },
        { title: 'kept for', cell: slot => slot.holder }
      ],
      choose
    );
    this._scroll = el('div', 'jp-MaxLab-scroll', this._table.element);
    this._choice = new Choice('Show as', ['Chart', 'Table'], 'Chart', () => this._show());
  }

  update(): void {
    this._when.update();
  }

  shown(isShown: boolean): void {
    this._when.shown(isShown);
  }

  selected(ids: readonly string[]): void {
    this._selected = new Set(ids);
    const isSelected = (slot: IMemorySlot): boolean => slot.node !== null && this._selected.has(slot.node);
    this._table.mark(isSelected);
    this._table.showMarked();
    const slots = this._asked.value?.arenaSlots ?? [];
    const first = slots.find(isSelected);
    if (first !== undefined) {
      this._chart.reveal(first);
    }
    this._chart.redraw();
  }

  resized(): void {
    this._chart.redraw();
  }

  dispose(): void {
    this._asked.clear();
    this._chart.dispose();
    this.element.remove();
  }

  private _choose(slot: IMemorySlot): void {
    if (slot.node === null || this._view.model.node(slot.node) === undefined) {
      this._view.say(`${slot.name} is not the result of an operation of the graph`);
      return;
    }
    this._view.select([slot.node]);
    this._view.say(`${slot.name} selected`);
  }

  private _maker(slot: IMemorySlot): string {
    const node = slot.node === null ? undefined : this._view.model.node(slot.node);
    return node === undefined ? '' : `${node.node.op} ${node.node.id}`;
  }

  private _show(): void {
    const plan = this._asked.value;
    const placeholder = this._asked.placeholder('Reading the memory plan…');
    if (plan === null) {
      this.element.replaceChildren(...(placeholder === null ? [] : [placeholder]));
      return;
    }
    const isChart = this._choice.value === 'Chart';
    const isEmpty = plan.arenaSlots.length === 0;
    const main = isEmpty && isChart ? el('p', 'jp-MaxLab-panelNote jp-MaxLab-note', EMPTY) : null;
    const fit = button('jp-MaxLab-plainButton', 'Show all of the arena (0)', () => this._chart.fit(), 'Show all');
    fit.hidden = !isChart || isEmpty;
    const dims = plan.dims.map(([name, size]) => `${name}=${size}`).join(', ');
    this.element.replaceChildren(
      el(
        'div',
        'jp-MaxLab-columns',
        el(
          'div',
          'jp-MaxLab-mainColumn',
          el(
            'div',
            'jp-MaxLab-tools',
            this._choice.element,
            el(
              'span',
              '',
              el('strong', '', `peak ${formatBytes(plan.peak)}`),
              ` at ${plan.steps[plan.peakStep] ?? 'no step'}, arena ${formatBytes(plan.arena)}`,
              dims === '' ? '' : ` · ${dims}`
            ),
            fit
          ),
          main ?? (isChart ? this._chart.element : this._scroll)
        ),
        this._side(plan)
      )
    );
    this._table.setRows([...plan.arenaSlots, ...plan.otherSlots]);
    this._chart.setPlan(plan);
    this.selected(this._view.selection);
  }

  private _side(plan: IMemoryPlan): HTMLElement {
    const outside = plan.outside.map(({ kind, bytes }): [string, string] => [
      NAMES[kind] ?? kind,
      formatBytes(bytes)
    ]);
    const holders = liveAt(plan, plan.peakStep);
    const list = el('ol', 'jp-MaxLab-kernels');
    for (const slot of holders.slice(0, MOST_HOLDERS)) {
      const title = `Select ${slot.name}`;
      list.append(
        el(
          'li',
          '',
          slot.node === null
            ? slot.name
            : button('jp-MaxLab-link', title, () => this._choose(slot), this._label(slot)),
          el('span', 'jp-MaxLab-sub', `${formatBytes(slot.bytes)} · ${formatShare(slot.bytes / plan.peak)}`)
        )
      );
    }
    const more = holders.length - MOST_HOLDERS;
    const side = el(
      'div',
      'jp-MaxLab-sideColumn',
      section(
        'Arena',
        facts([
          ['size', formatBytes(plan.arena)],
          ['in use at the peak', formatBytes(plan.peak)],
          ['fragmentation', formatShare(plan.fragmentation)],
          ['buffers', String(plan.arenaSlots.length)]
        ])
      ),
      holders.length === 0
        ? null
        : section(
            `Held at the peak, ${plan.steps[plan.peakStep] ?? ''}`,
            list,
            more > 0 ? el('p', 'jp-MaxLab-note', `and ${plural(more, 'smaller buffer')}`) : null
          ),
      outside.length === 0 ? null : section('Outside of the arena', facts(outside)),
      section('Colours', this._legend(plan))
    );
    asRegion(side, 'Totals of the memory plan');
    return side;
  }

  private _label(slot: IMemorySlot): string {
    const maker = this._maker(slot);
    return maker === '' || slot.name === maker ? slot.name : `${maker}${slot.kind === 'scratch' ? ' scratch' : ''}`;
  }

  private _legend(plan: IMemoryPlan): HTMLElement {
    const { model, theme } = this._view;
    const families = new Set(
      plan.arenaSlots.map(slot => (slot.node === null ? undefined : model.node(slot.node))?.family ?? 'other')
    );
    const list = el('ul', 'jp-MaxLab-keys');
    for (const family of families) {
      const swatch = el('span', 'jp-MaxLab-swatchBox');
      swatch.style.background = theme.family[family].stripe;
      list.append(el('li', '', swatch, FAMILY_NAMES[family]));
    }
    if (plan.arenaSlots.some(slot => slot.kind === 'scratch')) {
      list.append(el('li', '', el('span', 'jp-MaxLab-legendHatch'), 'scratch of one kernel'));
    }
    return list;
  }
}

const EMPTY = 'This model keeps nothing between its kernels: there is no arena.';

export const memoryPanel = compiledPanel({
  id: 'memory',
  title: 'Memory',
  hint: 'Who is where in memory, and when most is in use',
  css: MEMORY_STYLES,
  uncompiled: 'A memory plan is made when the graph is compiled: press Profile, or load it in a session.',
  make: host => new MemoryPanel(host)
});
