/** The list of kernels, slowest first; choosing one selects the operations it computes. */

import { formatFlopRate, formatShare, formatTime, scopeText } from '../model/format';
import type { GraphModel } from '../model/graph';
import type { Timing } from '../model/timing';
import { button, el } from './dom';

const MAX_ROWS = 200;

/** The innermost scope that holds all: `a.b` of `a.b.c` and `a.b.d`. */
function commonScope(scopes: readonly string[]): string {
  let common = (scopes[0] ?? '').split('.');
  for (const scope of scopes) {
    const parts = scope.split('.');
    const end = common.findIndex((part, i) => part !== parts[i]);
    common = end < 0 ? common : common.slice(0, end);
  }
  return common.join('.');
}

export class HottestList {
  readonly element = el('div', 'jp-MaxLab-hottest');

  constructor(private readonly _select: (ids: readonly string[]) => void) {
    this.element.setAttribute('role', 'region');
    this.element.setAttribute('aria-label', 'Kernels by time');
  }

  show(model: GraphModel, timing: Timing, selection: ReadonlySet<string>): void {
    this.element.replaceChildren();
    if (timing.kernels.length === 0) {
      this.element.append(
        el('p', 'jp-MaxLab-note', 'No times yet. Profile the model to see what each kernel costs.')
      );
      return;
    }
    const list = el('ol', 'jp-MaxLab-hotRows');
    const top = timing.kernels[0]?.ns ?? 1;
    for (const kernel of timing.kernels.slice(0, MAX_ROWS)) {
      const ids = timing.nodesOf(kernel);
      const name = model.kernels.get(kernel.id)?.name ?? kernel.id;
      const where = commonScope(ids.map(id => model.node(id)?.node.scope ?? ''));
      const bar = el('span', 'jp-MaxLab-hotBar');
      bar.style.width = `${Math.max(1, (kernel.ns / top) * 100)}%`;
      const rate = kernel.flops === null ? '' : ` · ${formatFlopRate(kernel.flops, kernel.ns)}`;
      const row = button(
        'jp-MaxLab-hotRow',
        `${name}, ${formatTime(kernel.ns)}, ${formatShare(timing.share(kernel.ns))} of all kernels`,
        () => this._select(ids),
        bar,
        el('span', 'jp-MaxLab-hotName', name),
        el(
          'span',
          'jp-MaxLab-hotTime',
          `${formatTime(kernel.ns)} · ${formatShare(timing.share(kernel.ns))}`
        ),
        el('span', 'jp-MaxLab-hotWhere', `${scopeText(where) || 'top level'}${rate}`)
      );
      row.setAttribute('aria-pressed', String(ids.length > 0 && ids.every(id => selection.has(id))));
      list.append(el('li', '', row));
    }
    this.element.append(list);
    if (timing.kernels.length > MAX_ROWS) {
      this.element.append(
        el('p', 'jp-MaxLab-note', `and ${timing.kernels.length - MAX_ROWS} faster ones`)
      );
    }
  }
}
