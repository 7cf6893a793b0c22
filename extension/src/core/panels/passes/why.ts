/** Why two operations share a kernel or do not, for the selected ones. */

import type { GraphModel, IGraphNode } from '../../model/graph';
import { button, el } from '../../view/dom';
import type { IPanelView } from '../../view/panel';
import { Asked } from '../parts/asked';
import type { IWhy } from './stages';

/** An operation has many users at times; more than these are asked by selecting two. */
const MOST_NEIGHBOURS = 8;

/** The operations that an operation reads from, and those that read it. */
export function neighbours(model: GraphModel, node: IGraphNode): { before: IGraphNode[]; after: IGraphNode[] } {
  const before = new Set<IGraphNode>();
  const after = new Set<IGraphNode>();
  for (const index of node.operands) {
    const maker = model.nodes[model.values[index]?.producer ?? -1];
    if (maker !== undefined && !maker.isChip) {
      before.add(maker);
    }
  }
  for (const index of node.results) {
    for (const user of model.values[index]?.consumers ?? []) {
      const reader = model.nodes[user];
      if (reader !== undefined) {
        after.add(reader);
      }
    }
  }
  return { before: [...before], after: [...after] };
}

/** The pair in the order of the graph: who makes comes before who reads. */
export function ordered(model: GraphModel, a: IGraphNode, b: IGraphNode): [IGraphNode, IGraphNode] {
  return neighbours(model, b).after.includes(a) ? [b, a] : [a, b];
}

function called(node: IGraphNode): string {
  return `${node.node.op} ${node.node.id}`;
}

export class WhySection {
  readonly element = el('section', 'jp-MaxLab-section');
  private readonly _asked: Asked<'why', IWhy>;
  private readonly _body = el('div', 'jp-MaxLab-why');
  private _pair: [IGraphNode, IGraphNode] | null = null;
  private _ids: readonly string[] = [];

  constructor(private readonly _view: IPanelView) {
    this._asked = new Asked(_view, 'why', answer => answer, () => this._show());
    this.element.append(el('h3', '', 'In one kernel, or not?'), this._body);
    this._show();
  }

  update(): void {
    this._pair = null;
    this._ids = [];
    this.selected(this._view.selection);
  }

  selected(ids: readonly string[]): void {
    if (ids.length === this._ids.length && ids.every((id, i) => id === this._ids[i])) {
      return;
    }
    this._ids = [...ids];
    const { model } = this._view;
    const [a, b] = ids.map(id => model.node(id));
    this._pair = null;
    this._asked.clear();
    if (ids.length === 2 && a !== undefined && b !== undefined) {
      this._ask(a, b);
    } else {
      this._show();
    }
  }

  dispose(): void {
    this._asked.clear();
  }

  private _ask(a: IGraphNode, b: IGraphNode): void {
    const [first, second] = ordered(this._view.model, a, b);
    this._pair = [first, second];
    void this._asked.ask({ a: first.node.id, b: second.node.id });
  }

  private _show(): void {
    const only = this._ids.length === 1 ? this._view.model.node(this._ids[0] ?? '') : undefined;
    const children: (HTMLElement | null)[] = [];
    if (this._pair === null && only === undefined) {
      const text = 'Select an operation, or two (Shift+click), to see why they share a kernel or do not.';
      children.push(el('p', 'jp-MaxLab-note', text));
    }
    if (only !== undefined) {
      children.push(this._choices(only));
    }
    if (this._pair !== null) {
      children.push(this._answer(this._pair));
    }
    this._body.replaceChildren(...children.filter(child => child !== null));
  }

  /** Buttons for what stands next to a node. */
  private _choices(node: IGraphNode): HTMLElement {
    const { before, after } = neighbours(this._view.model, node);
    const list = el('p', 'jp-MaxLab-members');
    const add = (other: IGraphNode, sign: string): void => {
      const isPressed = this._pair?.includes(other) === true;
      const link = button(
        'jp-MaxLab-link',
        `Why ${called(node)} and ${called(other)} share a kernel or do not`,
        () => this._ask(node, other),
        `${sign} ${called(other)}`
      );
      link.setAttribute('aria-pressed', String(isPressed));
      link.classList.toggle('jp-mod-current', isPressed);
      list.append(link);
    };
    before.slice(0, MOST_NEIGHBOURS).forEach(other => add(other, '↑'));
    after.slice(0, MOST_NEIGHBOURS).forEach(other => add(other, '↓'));
    const isAlone = before.length + after.length === 0;
    return isAlone
      ? el('p', 'jp-MaxLab-note', `${called(node)} has no neighbours.`)
      : el('div', '', el('p', 'jp-MaxLab-sub', `${called(node)} and`), list);
  }

  /** What the kernels of a saved graph say, when there is nobody to ask for the reason. */
  private _saved(a: IGraphNode, b: IGraphNode): IWhy | null {
    const { notLive } = this._view;
    if (notLive === null) {
      return null;
    }
    const shared = a.kernels.find(kernel => b.kernels.includes(kernel));
    const first = shared ?? a.kernels[0];
    const second = shared ?? b.kernels[0];
    return {
      together: shared !== undefined,
      kernel_a: first?.id ?? null,
      kernel_b: second?.id ?? null,
      reason: `the reason needs a running kernel: ${notLive}`,
      rule: '',
      attempt: ''
    };
  }

  private _answer([a, b]: [IGraphNode, IGraphNode]): HTMLElement {
    const why = this._asked.value ?? this._saved(a, b);
    if (why === null) {
      return this._asked.placeholder('Asking the scheduler…') ?? el('div');
    }
    const { kernel_a: first, kernel_b: second } = why;
    const where =
      why.together || first === second
        ? (first ?? second ?? '')
        : [first ?? 'no kernel', second ?? 'no kernel'].join(' and ');
    const verdict = why.together ? '⋈ In one kernel' : '✗ Not in one kernel';
    const block = el(
      'div',
      `jp-MaxLab-verdict ${why.together ? 'jp-mod-together' : 'jp-mod-apart'}`,
      el('strong', '', `${called(a)} → ${called(b)}`),
      el('p', '', `${verdict}${where === '' ? '' : ` (${where})`}: ${why.reason.replace(/\.$/, '')}.`),
      why.rule === '' ? null : el('p', 'jp-MaxLab-sub', `Rule: ${why.rule}`),
      why.attempt === '' ? null : el('pre', 'jp-MaxLab-source', el('code', '', why.attempt))
    );
    block.setAttribute('role', 'status');
    return block;
  }
}
