/** What stands above the charts: what went wrong, which GPUs there are, and what to do when there is nothing. */

import { button, el } from '../view/dom';
import type { DashboardData } from './data';
import { gpusOf, isGpuChart } from './groups';
import { seriesColor } from './palette';

export class Head {
  readonly element = el('div');
  private readonly _notes = el('div');
  private readonly _gpus = el('div', 'jp-MaxLab-dashGpus');
  private readonly _empty = el('div', 'jp-MaxLab-dashEmpty');

  constructor(private readonly _toggle: (gpu: string) => void) {
    this._gpus.setAttribute('role', 'group');
    this._gpus.setAttribute('aria-label', 'GPUs shown');
    this.element.append(this._notes, this._gpus, this._empty);
  }

  /** Shows what `data` and `error` say; `hidden` are the GPUs whose lines are not drawn. */
  show(
    data: DashboardData,
    error: string,
    hidden: ReadonlySet<string>,
    isDark: boolean,
    only: string | null
  ): void {
    // A chart of the host alone has nothing to say of GPUs.
    const hasGpus = only === null || isGpuChart(only);
    this._showNotes(data, error, hasGpus);
    this._showGpus(data, hidden, isDark, hasGpus);
    this._showEmpty(data);
  }

  private _showNotes(data: DashboardData, error: string, hasGpus: boolean): void {
    const notes: HTMLElement[] = [];
    if (error !== '') {
      notes.push(el('p', 'jp-MaxLab-dashNote jp-mod-error', error));
    }
    for (const [device, reason] of hasGpus ? Object.entries(data.problems) : []) {
      const who = device === 'gpu' ? 'No GPU' : device;
      const words = device === 'gpu' ? reason.replace(/^no GPU was found\.\s*/, '') : reason;
      notes.push(el('p', 'jp-MaxLab-dashNote', el('span', '', el('b', '', who), `: ${words}`)));
    }
    const said = notes.map(note => note.textContent).join('\n');
    if (isNew(this._notes, said)) {
      this._notes.replaceChildren(...notes);
    }
  }

  private _showGpus(
    data: DashboardData,
    hidden: ReadonlySet<string>,
    isDark: boolean,
    hasGpus: boolean
  ): void {
    const gpus = hasGpus ? gpusOf(data.columns) : [];
    this._gpus.hidden = gpus.length === 0;
    if (!isNew(this._gpus, `${gpus.join()}|${[...hidden].join()}|${String(isDark)}`)) {
      return;
    }
    this._gpus.replaceChildren(
      ...gpus.map((gpu, n) => {
        const swatch = el('span', 'jp-MaxLab-swatch');
        swatch.style.background = seriesColor(gpus.length > 1 ? n : 0, isDark);
        const name = data.state.names[gpu] ?? '';
        const words = el('small', '', name);
        const node = button('jp-MaxLab-dashGpu', '', () => this._toggle(gpu), swatch, gpu, words);
        node.setAttribute('aria-pressed', String(!hidden.has(gpu)));
        node.setAttribute('aria-label', `${gpu} ${name}`.trim());
        node.title = hidden.has(gpu) ? `Show ${gpu}` : `Hide ${gpu}`;
        return node;
      })
    );
  }

  private _showEmpty({ state, times }: DashboardData): void {
    this._empty.hidden = times.length > 0;
    const title = state.running ? 'Waiting for the first sample' : 'Nothing is recorded yet';
    const words = state.replay
      ? 'This recording holds no samples.'
      : 'Start samples this machine from a process of its own: CPU, memory and every GPU. It goes ' +
        'on when a kernel restarts or this view is closed, until you stop it.';
    if (!this._empty.hidden && isNew(this._empty, title)) {
      this._empty.replaceChildren(el('strong', '', title), el('p', '', words));
    }
  }
}

/** Whether `said` is not what `element` says already: what stays must not be announced again. */
function isNew(element: HTMLElement, said: string): boolean {
  const isOther = element.dataset.said !== said;
  element.dataset.said = said;
  return isOther;
}
