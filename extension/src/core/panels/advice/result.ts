/** What became of an action that was tried: predicted beside measured, and what else changed. */

import type { ITryAnswer } from '../../../proto/costs';
import { el } from '../../view/dom';
import {
  formatSaving,
  outputs,
  rowsOf,
  savingBars,
  verdict,
  type ISpan
} from './advice';

function place(node: HTMLElement, span: ISpan): HTMLElement {
  node.style.left = `${100 * span.left}%`;
  node.style.width = `${100 * span.width}%`;
  return node;
}

function bars(trial: ITryAnswer): HTMLElement {
  const { zero, predicted, measured, interval } = savingBars(trial);
  const row = (title: string, value: string, ...marks: HTMLElement[]): HTMLElement => {
    const line = el('span', 'jp-MaxLab-adviceZero');
    line.style.left = `${100 * zero}%`;
    const room = el('div', 'jp-MaxLab-adviceTrack', ...marks, line);
    return el('div', 'jp-MaxLab-adviceRow', el('span', '', title), room, el('span', 'jp-MaxLab-adviceValue', value));
  };
  const gone = trial.saved_ns < 0 ? ' jp-mod-worse' : '';
  const chart = el(
    'div',
    'jp-MaxLab-adviceChart',
    row(
      'predicted',
      formatSaving(trial.predicted_ns),
      place(el('span', 'jp-MaxLab-adviceBar jp-mod-predicted'), predicted)
    ),
    row(
      'measured',
      formatSaving(trial.saved_ns),
      place(el('span', `jp-MaxLab-adviceBar jp-mod-measured${gone}`), measured),
      place(el('span', 'jp-MaxLab-adviceSpread'), interval)
    )
  );
  // The table below says the same in words.
  chart.setAttribute('aria-hidden', 'true');
  return chart;
}

export function trialView(trial: ITryAnswer): HTMLElement {
  const body = el('tbody');
  for (const [what, before, after, change] of rowsOf(trial)) {
    const head = el('th', '', what);
    head.scope = 'row';
    body.append(el('tr', '', head, el('td', '', before), el('td', '', after), el('td', '', change)));
  }
  const heads = ['', 'before', 'after', 'change'].map(title => {
    const cell = title === '' ? el('td') : el('th', '', title);
    if (cell instanceof HTMLTableCellElement && title !== '') {
      cell.scope = 'col';
    }
    return cell;
  });
  const table = el('table', 'jp-MaxLab-adviceTable', el('thead', '', el('tr', '', ...heads)), body);
  table.setAttribute('aria-label', 'Before and after');
  const spread =
    `A run changes by ${formatSaving(trial.saved_ns)}, predicted ${formatSaving(trial.predicted_ns)}; ` +
    `between ${formatSaving(trial.high_ns)} and ${formatSaving(trial.low_ns)} in 95% of such trials ` +
    `(${trial.runs} runs of each, in turns).`;
  return el(
    'div',
    'jp-MaxLab-adviceResult',
    el('strong', trial.clear && trial.saved_ns > 0 ? 'jp-mod-good' : '', verdict(trial)),
    bars(trial),
    table,
    el('p', 'jp-MaxLab-note', spread),
    el('p', 'jp-MaxLab-note', `Outputs: ${outputs(trial)}.`)
  );
}
