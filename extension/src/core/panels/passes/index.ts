/**
 * The passes of the compiler: a slider over its stages that colours the graph by what became of each
 * operation, the rules that fired, and why two operations share a kernel or do not.
 */

import { plural } from '../../model/format';
import type { IStageRewrite } from '../../../proto/checks';
import { formatMillis } from '../compile/report';
import { SIGNS, toneColors, type IToneNote, type Tone } from '../../render/tones';
import { append, asRegion, button, el } from '../../view/dom';
import { section } from '../../view/kernel';
import type { IPanel, IPanelHost, IPanelView } from '../../view/panel';
import { Asked } from '../parts/asked';
import { compiledPanel } from '../parts/compiled';
import { DataTable } from '../parts/table';
import { WhenShown } from '../parts/when';
import { PASSES_STYLES } from './css';
import {
  MEANINGS,
  detailOf,
  stagesOf,
  savedDetail,
  savedStages,
  STATES,
  tally,
  type IFate,
  type IStage,
  type IStageDetail,
  type State
} from './stages';
import { WhySection } from './why';

const TONE_OF: Record<State, Tone> = {
  kept: 'neutral',
  added: 'info',
  rewritten: 'warn',
  folded: 'good',
  removed: 'bad',
  fused: 'fused'
};

/** What an earlier stage did stands back: what it took away is gone by now. */
const EARLIER: Partial<Record<State, Tone>> = {
  added: 'neutral',
  rewritten: 'neutral',
  folded: 'quiet',
  removed: 'quiet'
};

/** What is painted and written on an operation in the graph. */
export function noteOf(fate: IFate | undefined): IToneNote {
  const state = fate?.state ?? 'kept';
  const tone = fate?.changed === true ? TONE_OF[state] : (EARLIER[state] ?? TONE_OF[state]);
  const where = fate?.kernel ?? null;
  const isComputed = state === 'kept' || state === 'fused' || state === 'rewritten';
  return { tone, text: isComputed && where !== null ? where : state === 'kept' ? '' : state };
}

class PassesPanel implements IPanel {
  readonly element = el('div', 'jp-MaxLab-passes');
  private readonly _view: IPanelView;
  private readonly _stages: Asked<'passes', IStage[]>;
  private readonly _detail: Asked<'passes', IStageDetail>;
  private readonly _when = new WhenShown(() => this._load());
  private readonly _slider = el('input', 'jp-MaxLab-stageSlider');
  private readonly _where = el('span', 'jp-MaxLab-stageName');
  private readonly _legend = el('ul', 'jp-MaxLab-keys');
  private readonly _note = el('div');
  private readonly _table: DataTable<IStageRewrite>;
  private readonly _list = el('ol', 'jp-MaxLab-stageList');
  private readonly _fate = el('section', 'jp-MaxLab-section');
  private readonly _why: WhySection;
  /** What is known of each stage: sliding back and forth asks once. */
  private readonly _known = new Map<number, IStageDetail>();
  /** The stages, by the kernel or by the saved graph. */
  private _all: readonly IStage[] = [];
  private _stage = -1;
  private _askedFor = -1;
  private _isPainted = false;

  constructor(host: IPanelHost) {
    this._view = host.view;
    this._stages = new Asked(host.view, 'passes', stagesOf, () => this._showStages());
    this._detail = new Asked(host.view, 'passes', detailOf, () => this._gotDetail());
    this._why = new WhySection(host.view);
    this._slider.type = 'range';
    this._slider.step = '1';
    this._slider.min = '0';
    this._slider.setAttribute('aria-label', 'Stage of the compiler');
    this._slider.addEventListener('input', () => this._go(Number(this._slider.value)));
    this._legend.setAttribute('aria-label', 'Colours of the operations');
    this._list.setAttribute('aria-label', 'Stages');
    this._table = new DataTable<IStageRewrite>(
      'Rewrites of this stage',
      [
        { title: 'operation', cell: r => this._name(r), key: r => this._name(r) },
        { title: 'became', cell: r => r.into.join(', ') || 'nothing', key: r => r.into[0] ?? null },
        { title: 'because', cell: r => r.text || r.rule, key: r => r.text || r.rule },
        { title: 'rule', cell: r => el('code', '', r.rule), key: r => r.rule }
      ],
      rewrite => this._choose(rewrite)
    );
  }

  update(): void {
    this._why.update();
    this._when.update();
  }

  shown(isShown: boolean): void {
    this._when.shown(isShown);
    if (isShown) {
      this._paint();
    } else {
      this._clear();
    }
  }

  selected(ids: readonly string[]): void {
    const selected = new Set(ids);
    this._table.mark(rewrite => selected.has(rewrite.node));
    this._table.showMarked();
    this._why.selected(ids);
    this._showFate(ids);
  }

  resized(): void {
    this._legends();
  }

  dispose(): void {
    this._stages.clear();
    this._detail.clear();
    this._known.clear();
    this._why.dispose();
    this._clear();
    this.element.remove();
  }

  /** What became of the selected operation, in words. */
  private _showFate(ids: readonly string[]): void {
    const node = this._view.model.node(ids[0] ?? '');
    const detail = this._known.get(this._stage);
    this._fate.hidden = node === undefined || detail === undefined;
    if (node === undefined || detail === undefined) {
      return;
    }
    const fate = detail.fates.get(node.node.id);
    const state = fate?.state ?? 'kept';
    const where = fate?.kernel ?? null;
    const when = state === 'kept' || fate?.changed === true ? '' : ', by an earlier stage';
    const rule = fate?.rule ?? '';
    this._fate.replaceChildren();
    append(
      this._fate,
      el('h3', '', `${node.node.op} ${node.node.id}`),
      el('p', '', el('strong', '', state), where === null ? '' : ` in ${where}`, when),
      rule === '' && this._view.notLive !== null
        ? null
        : el('p', 'jp-MaxLab-sub', rule === '' ? 'No rule has touched it so far.' : `${rule}.`)
    );
  }

  private _name(rewrite: IStageRewrite): string {
    const node = this._view.model.node(rewrite.node);
    if (node === undefined) {
      return rewrite.op || 'made by the compiler';
    }
    // An operation that was written out in simpler ones comes once for each of them.
    const { op, id } = node.node;
    return rewrite.op === '' || rewrite.op === op ? `${op} ${id}` : `${op} ${id} · ${rewrite.op}`;
  }

  private _choose(rewrite: IStageRewrite): void {
    if (this._view.model.node(rewrite.node) !== undefined) {
      this._view.select([rewrite.node]);
    } else {
      this._view.say('The compiler made this operation; it is not in your graph.');
    }
  }

  private _load(): void {
    this._known.clear();
    if (this._view.notLive === null) {
      void this._stages.ask();
      return;
    }
    // Nobody answers: the graph itself knows its kernels, and how many operations each pass left.
    const { model } = this._view;
    this._stages.clear();
    this._all = savedStages(model);
    this._stage = this._all.length - 1;
    this._known.set(this._stage, savedDetail(model));
    this._showAll();
  }

  private _showStages(): void {
    if (this._stages.isAsking && this.element.childElementCount > 0) {
      // What was there stays until there is something else.
      return;
    }
    this._all = this._stages.value ?? [];
    this._showAll();
  }

  private _showAll(): void {
    const stages = this._all;
    if (stages.length === 0) {
      const placeholder = this._stages.placeholder('Asking the compiler what it did…');
      this._clear();
      this.element.replaceChildren(
        placeholder ?? el('p', 'jp-MaxLab-panelNote jp-MaxLab-note', 'The compiler ran no passes.')
      );
      return;
    }
    this._slider.max = String(stages.length - 1);
    const scroll = el('div', 'jp-MaxLab-scroll', this._note, this._table.element);
    const step = (by: number, title: string, sign: string): HTMLElement =>
      button('jp-MaxLab-plainButton', title, () => this._go(this._stage + by), sign);
    const side = el('div', 'jp-MaxLab-sideColumn', this._fate, this._why.element, section('Stages', this._list));
    asRegion(side, 'Why, and all stages');
    this.element.replaceChildren(
      el(
        'div',
        'jp-MaxLab-columns',
        el(
          'div',
          'jp-MaxLab-mainColumn',
          el(
            'div',
            'jp-MaxLab-stages',
            step(-1, 'Stage before', '‹'),
            this._slider,
            step(1, 'Stage after', '›'),
            this._where
          ),
          el('div', 'jp-MaxLab-stageLegend', this._legend),
          scroll
        ),
        side
      )
    );
    this._go(this._stage < 0 ? lastChange(stages) : this._stage);
  }

  /** Shows what the graph is after a stage. */
  private _go(stage: number): void {
    const stages = this._all;
    const to = Math.max(0, Math.min(stages.length - 1, stage));
    const chosen = stages[to];
    if (chosen === undefined) {
      return;
    }
    this._stage = to;
    this._slider.value = String(to);
    const words = describe(chosen);
    this._slider.setAttribute('aria-valuetext', `${to + 1} of ${stages.length}: ${chosen.name}, ${words}`);
    this._where.replaceChildren(
      el('strong', '', chosen.name),
      ` ${to + 1} of ${stages.length} · ${words}`
    );
    this._list.replaceChildren(...stages.map((each, i) => this._item(each, i)));
    this._want();
    this._showDetail();
  }

  /** Asks for the stage that is shown; while an answer is on its way, the next question waits. */
  private _want(): void {
    if (!this._known.has(this._stage) && !this._detail.isAsking) {
      this._askedFor = this._stage;
      void this._detail.ask({ stage: this._stage });
    }
  }

  private _gotDetail(): void {
    const got = this._detail.value;
    if (got !== null) {
      this._known.set(this._askedFor, got);
    }
    if (this._stage !== this._askedFor) {
      this._want();
    }
    this._showDetail();
  }

  private _item(stage: IStage, index: number): HTMLElement {
    const counts = stage.counts.map(([state, count]) => `${count} ${state}`).join(', ');
    const node = button(
      'jp-MaxLab-stage',
      `Show the graph after ${stage.name}`,
      () => this._go(index),
      el('span', '', stage.name),
      el('small', '', counts || 'no change')
    );
    if (index === this._stage) {
      node.setAttribute('aria-current', 'step');
    }
    return el('li', '', node);
  }

  private _showDetail(): void {
    const detail = this._known.get(this._stage);
    // While a stage is on its way, the one before stays: the table must not flicker.
    if (detail === undefined && this._detail.isAsking && this._isPainted) {
      return;
    }
    this._note.replaceChildren();
    this._table.element.hidden = (detail?.rewrites.length ?? 0) === 0;
    if (detail === undefined) {
      this._clear();
      const placeholder = this._detail.placeholder('Running the passes up to here…');
      this._note.append(...(placeholder === null ? [] : [placeholder]));
      return;
    }
    if (detail.rewrites.length === 0) {
      const { notLive } = this._view;
      const text =
        notLive === null
          ? 'No rule fired in this stage.'
          : `Which operations share a kernel is saved here. The rules need a running kernel: ${notLive}.`;
      this._note.append(el('p', 'jp-MaxLab-panelNote jp-MaxLab-note', text));
    }
    this._table.setRows(detail.rewrites);
    this._legends();
    this._paint();
    this.selected(this._view.selection);
  }

  private _ids(): string[] {
    return this._view.model.nodes.filter(node => !node.isChip).map(node => node.node.id);
  }

  private _legends(): void {
    const detail = this._known.get(this._stage);
    if (detail === undefined) {
      return;
    }
    const counts = tally(detail, this._ids());
    const { theme } = this._view;
    const items = STATES.flatMap(state => {
      const { now, before } = counts.get(state) ?? { now: 0, before: 0 };
      if (now + before === 0) {
        return [];
      }
      const { tone } = noteOf({ state, kernel: null, rule: '', changed: now > 0 });
      const colors = toneColors(tone, theme);
      const swatch = el('span', 'jp-MaxLab-swatchBox', SIGNS[tone]);
      swatch.style.background = colors.fill;
      swatch.style.borderColor = colors.border;
      const count = now === 0 ? `${before} ${state}` : `${now} ${state}${before > 0 ? `, ${before} before` : ''}`;
      return [el('li', '', swatch, count, el('small', '', MEANINGS[state]))];
    });
    this._legend.replaceChildren(...items);
  }

  private _paint(): void {
    const detail = this._known.get(this._stage);
    const stage = this._all[this._stage];
    if (detail === undefined || stage === undefined || !this._when.isShown) {
      return;
    }
    const overlay = new Map<string, IToneNote>();
    for (const id of this._ids()) {
      overlay.set(id, noteOf(detail.fates.get(id)));
    }
    this._isPainted = true;
    const counts = tally(detail, this._ids());
    const signs = STATES.filter(
      state => SIGNS[TONE_OF[state]] !== '' && ((counts.get(state)?.now ?? 0) > 0 || (state === 'fused' && counts.has(state)))
    ).map(state => `${SIGNS[TONE_OF[state]]} ${state}`);
    this._view.setOverlay(overlay, [`after ${stage.name}`, ...signs].join(' · '));
  }

  private _clear(): void {
    if (this._isPainted) {
      this._isPainted = false;
      this._view.setOverlay(null);
    }
  }
}

/** The last stage that changed anything: what comes behind it looks the same. */
export function lastChange(stages: readonly IStage[]): number {
  const found = stages.map(stage => stage.counts.length > 0).lastIndexOf(true);
  return found < 0 ? stages.length - 1 : found;
}

/** A stage in a few words: what there is before and after it, and its time. */
export function describe(stage: IStage): string {
  const { before, after, ms, counts } = stage;
  const parts: string[] = [];
  if (before !== null && after !== null) {
    const [from, to] = stage.counted;
    parts.push(
      from !== to
        ? `${plural(before, from)} → ${plural(after, to)}`
        : `${before === after ? '' : `${before} → `}${plural(after, to)}`
    );
  }
  const changes = counts.map(([state, count]) => `${count} ${state}`).join(', ');
  parts.push(changes || 'no change');
  if (ms !== null) {
    parts.push(formatMillis(ms));
  }
  return parts.join(' · ');
}

export const passesPanel = compiledPanel({
  id: 'passes',
  title: 'Passes',
  hint: 'What each pass of the compiler did to the graph, and why operations share kernels',
  css: PASSES_STYLES,
  uncompiled: 'The passes run when the graph is compiled: press Profile, or load it in a session.',
  make: host => new PassesPanel(host)
});
