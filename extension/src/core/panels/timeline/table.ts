/** The timeline in words: what took the most time, as a table that needs no canvas. */

import { formatShare, formatTime } from '../../model/format';
import { button, el } from '../../view/dom';
import type { ITotal } from './model';

export const MAX_ROWS = 200;

/** A table of totals; choosing a row calls `choose`. Kernels have a share of the time of all kernels. */
export function totalsTable(
  totals: readonly ITotal[],
  kernelNs: number,
  choose: (total: ITotal) => void
): HTMLElement {
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
  for (const total of totals) {
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
  return el(
    'table',
    'jp-MaxLab-dataTable',
    el('caption', '', 'By total time, all threads together; the share is of the time of all kernels'),
    el('thead', '', head),
    body
  );
}

function share(total: ITotal, kernelNs: number): string {
  return total.kernel === null || kernelNs <= 0 ? '–' : formatShare(total.ns / kernelNs);
}
