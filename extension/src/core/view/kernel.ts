/** Parts of the inspector: sections, lists of facts, links to nodes, and all about one kernel. */

import type { IKernel } from '../../proto/document';
import { evaluate } from '../model/expr';
import {
  formatByteRate,
  formatBytes,
  formatFlopRate,
  formatFlops,
  formatShare,
  formatTime,
  plural
} from '../model/format';
import type { GraphModel, IGraphNode } from '../model/graph';
import { isControl, type Timing } from '../model/timing';
import { codeBlock } from './code';
import { button, el, type Child } from './dom';

/** What the panel can ask of the view. */
export interface IInspectorHost {
  readonly model: GraphModel;
  readonly timing: Timing;
  select(keys: readonly string[]): void;
  reveal(node: IGraphNode): void;
  /** True when a source was asked for and will arrive. */
  requestSource(kernel: IKernel): boolean;
  canReveal(): boolean;
  familyColor(node: IGraphNode): string;
  /** Runs a command of the view. */
  execute(command: string): boolean;
}

/** Longer lists are cut. */
export const MAX_LISTED = 40;

export function section(title: string, ...children: Child[]): HTMLElement {
  return el('section', 'jp-MaxLab-section', el('h3', '', title), ...children);
}

export function facts(rows: readonly (readonly [string, Child])[]): HTMLElement {
  const list = el('dl', 'jp-MaxLab-facts');
  for (const [name, value] of rows) {
    list.append(el('dt', '', name), el('dd', '', value));
  }
  return list;
}

/** A button that selects a node. */
export function nodeLink(
  host: IInspectorHost,
  node: IGraphNode,
  withId = true
): HTMLElement {
  const text = withId ? `${node.node.op} ${node.node.id}` : node.node.op;
  return button('jp-MaxLab-link', `Select ${text}`, () => host.select([node.node.id]), text);
}

/** Everything known about a kernel; the lines of `marked` nodes are highlighted in its text. */
export function kernelSection(
  host: IInspectorHost,
  kernel: IKernel,
  marked: ReadonlySet<string>
): HTMLElement {
  const { model, timing } = host;
  if (isControl(kernel)) {
    const text = (kernel.source ?? '').replace(/^\/\*\s*|\s*\*\/\s*$/g, '');
    const sentence = text === '' ? 'It says where the run goes on.' : `${text[0]?.toUpperCase()}${text.slice(1)}.`;
    return section(`Step ${kernel.id} · ${kernel.kind}`, el('p', 'jp-MaxLab-note', sentence));
  }
  const dims = timing.profile?.dims ?? {};
  const profile = timing.kernel(kernel.id);
  const flops = profile?.flops ?? evaluate(kernel.flops, dims);
  const bytes = profile?.bytes ?? evaluate(kernel.bytes, dims);
  const rows: [string, Child][] = [['kind', kernel.kind]];
  if (kernel.device !== undefined) {
    rows.push(['device', kernel.device]);
  }
  if (profile !== undefined) {
    rows.push([
      'time',
      `${formatTime(profile.ns)} · ${formatShare(timing.share(profile.ns))}` +
        (profile.count > 1 ? ` · all ${profile.count} turns` : '') +
        ` · best ${formatTime(profile.ns_min)}`
    ]);
  }
  if (flops !== null || kernel.flops !== null) {
    const rate = profile !== undefined && flops !== null ? formatFlopRate(flops, profile.ns) : '';
    const text = flops !== null ? formatFlops(flops) : String(kernel.flops);
    rows.push(['work', rate === '' ? text : `${text} · ${rate}`]);
  }
  if (bytes !== null || kernel.bytes !== null) {
    const rate = profile !== undefined && bytes !== null ? formatByteRate(bytes, profile.ns) : '';
    const text = bytes !== null ? formatBytes(bytes) : String(kernel.bytes);
    rows.push(['traffic', rate === '' ? text : `${text} · ${rate}`]);
  }
  if (kernel.parallel !== null) {
    rows.push(['parallel', String(kernel.parallel)]);
  }
  if (kernel.symbol !== '') {
    rows.push(['symbol', el('code', '', kernel.symbol)]);
  }
  const members = el('p', 'jp-MaxLab-members');
  const nodes = kernel.nodes.map(id => model.node(id)).filter(n => n !== undefined);
  for (const node of nodes.slice(0, MAX_LISTED)) {
    const link = nodeLink(host, node, false);
    link.classList.toggle('jp-mod-current', marked.has(node.node.id));
    link.title = `Select ${node.node.op} ${node.node.id}`;
    members.append(link, ' ');
  }
  if (nodes.length > MAX_LISTED) {
    members.append(`and ${nodes.length - MAX_LISTED} more`);
  }
  const isShared = nodes.length > 1;
  return section(
    `Kernel ${kernel.id} · ${kernel.name}`,
    isShared ? el('p', 'jp-MaxLab-sub', `Computes ${plural(nodes.length, 'operation')}:`) : null,
    isShared ? members : null,
    kernel.kind === 'torch'
      ? el('p', 'jp-MaxLab-note', 'torch ran this: maxlab has no kernel for it.')
      : null,
    facts(rows),
    code(host, kernel, marked),
    panelLinks(host)
  );
}

/** Ways to the panels that say more about the kernel of the selection. */
function panelLinks(host: IInspectorHost): HTMLElement {
  const link = (command: string, text: string): HTMLElement =>
    button('jp-MaxLab-link', text, () => host.execute(command), text);
  return el(
    'p',
    'jp-MaxLab-sub',
    link('panel-source', 'Beside your code, and edit'),
    ' · ',
    link('panel-passes', 'Why one kernel?')
  );
}

/** What the generated text of a kernel is written in. */
export function languageOf(kernel: IKernel): string {
  return kernel.language === 'cuda' ? 'CUDA' : kernel.language === 'python' ? 'Python' : 'C';
}

function code(host: IInspectorHost, kernel: IKernel, marked: ReadonlySet<string>): Child {
  if (kernel.source !== null) {
    return codeBlock(kernel.source, kernel.lines, marked, languageOf(kernel));
  }
  const text = host.requestSource(kernel)
    ? `Fetching the generated ${languageOf(kernel)}…`
    : `The generated ${languageOf(kernel)} is not in this snapshot.`;
  return el('p', 'jp-MaxLab-note', text);
}
