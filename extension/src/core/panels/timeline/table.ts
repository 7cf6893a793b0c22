/** The timeline in words: what took the most time, as a table that needs no canvas. */

import { csvOf, headOf } from '../../csv';
import { formatShare, formatTime } from '../../model/format';
import { button, el } from '../../view/dom';
import type { IFramedTable } from '../parts/frame';
import type { ITotal } from './model';

const MAX_ROWS = 200;

function totalsCsv(totals: readonly ITotal[], kernelNs: number): string {
  return csvOf(
    ['what', 'kernel', 'times', headOf('total', 'ns'), 'share of kernels', headOf('longest', 'ns')],
    totals.map(total => [
      total.label,
      total.kernel,
      total.count,
      total.ns,
      hasShare(total, kernelNs) ? total.ns / kernelNs : null,
      total.longestNs
    ])
  );
}

/**
 * A table of totals, the first of which are drawn; choosing a row calls `choose`. Kernels have a share of
 * the time of all kernels.
 */
export function totalsTable(
  totals: readonly ITotal[],
  kernelNs: number,
  choose: (total: ITotal) => void
): IFramedTable {
  const head = el('tr');
  for (const [title, isNumber] of [
    ['What', false],
    ['Kernel', false],
    ['Times', true],
    ['Total', true],
    ['Share', true],
    ['Longest', true]
  ] as const) {
    const cell = el('th', isNumber ? 'jp-mod-number' : '', title);
    cell.scope = 'col';
    head.append(cell);
  }
  const body = el('tbody');
  for (const total of totals.slice(0, MAX_ROWS)) {
    const title = `Show ${total.label}, ${formatTime(total.ns)}`;
    const name = el('th', '', button('jp-MaxLab-link', title, () => choose(total), total.label));
    name.scope = 'row';
    const row = el(
      'tr',
      '',
      name,
      el('td', '', total.kernel ?? '–'),
      el('td', 'jp-mod-number', total.count.toLocaleString('en-US')),
      el('td', 'jp-mod-number', formatTime(total.ns)),
      el('td', 'jp-mod-number', share(total, kernelNs)),
      el('td', 'jp-mod-number', formatTime(total.longestNs))
    );
    if (total.kernel !== null) {
      row.dataset.kernel = total.kernel;
    }
    body.append(row);
  }
  const element = el(
    'table',
    'jp-MaxLab-dataTable',
    el('caption', '', 'By total time, all threads together; the share is of the time of all kernels'),
    el('thead', '', head),
    body
  );
  return { element, csv: () => totalsCsv(totals, kernelNs) };
}

function hasShare(total: ITotal, kernelNs: number): boolean {
  return total.kernel !== null && kernelNs > 0;
}

function share(total: ITotal, kernelNs: number): string {
  return hasShare(total, kernelNs) ? formatShare(total.ns / kernelNs) : '–';
}
