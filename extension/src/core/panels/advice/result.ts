/** What became of an action that was tried: predicted beside measured, and what else changed. */

import type { ITryAnswer } from '../../../proto/costs';
import { csvOf } from '../../csv';
import { csvButton } from '../../view/copying';
import { el } from '../../view/dom';
import {
  formatSaving,
  intervalText,
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
  const { zero, predicted, expected, measured, interval } = savingBars(trial);
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
      trial.predicted_ns === null ? 'not said' : formatSaving(trial.predicted_ns),
      ...(predicted === null ? [] : [place(el('span', 'jp-MaxLab-adviceBar jp-mod-predicted'), predicted)]),
      ...(expected === null ? [] : [place(el('span', 'jp-MaxLab-adviceSpread'), expected)])
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

function csvOfTrial(trial: ITryAnswer): string {
  const change = (before: number, after: number): [number, number, number] => [before, after, after - before];
  return csvOf(
    ['', 'before', 'after', 'change'],
    [
      ['time of a run (median) [ns]', trial.before_ns, trial.after_ns, -trial.saved_ns],
      ['bytes moved [B]', ...change(trial.before_bytes, trial.after_bytes)],
      ['kernels', ...change(trial.before_kernels, trial.after_kernels)]
    ]
  );
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
  heads[heads.length - 1]?.append(csvButton(() => csvOfTrial(trial), table));
  const { predicted_ns: predictedNs, predicted_low_ns: least = null, predicted_high_ns: most = null } = trial;
  const expected = least === null || most === null ? '' : `, ${intervalText(least, most)}`;
  const spread =
    `Measured: ${formatSaving(trial.saved_ns)} a run, ${intervalText(trial.low_ns, trial.high_ns)} in 95% of such ` +
    `trials (${trial.runs} ${trial.runs === 1 ? 'run' : 'runs'} of each, in turns). This is the median of the ` +
    'differences between neighbouring runs, which need not be the difference between the medians. ' +
    (predictedNs === null ? 'Nothing was predicted.' : `Predicted: ${formatSaving(predictedNs)}${expected}.`);
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
