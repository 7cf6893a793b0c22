/** The side panel: everything known about the selected operation, box, input or output. */

import type { IKernel } from '../../proto/document';
import { FAMILY_NAMES } from '../model/families';
import { formatBytes, formatShare, formatTime, plural, scopeText } from '../model/format';
import type { IGraphNode, IGraphValue } from '../model/graph';
import type { IEdge, IItem } from '../model/scene';
import { valueBytes } from '../model/timing';
import { button, el, type Child } from './dom';
import { facts, kernelSection, MAX_LISTED, nodeLink, section, type IInspectorHost } from './kernel';
import { at } from '../narrow';

/** Lines of the user's code that are shown of one kernel. */
const MAX_LINES = 5;

/** What the operands of a branch and a loop are, and what comes out of their parts. */
const WORDS: Record<string, string[]> = {
  while: ['Begins with', 'Goes on while', 'Next turn'],
  cond: ['Flag', 'Result if true', 'Result if false']
};

export class Inspector {
  readonly element = el('div', 'jp-MaxLab-inspector');

  constructor(private readonly _host: IInspectorHost) {
    this.element.setAttribute('role', 'region');
    this.element.setAttribute('aria-label', 'Inspector');
  }

  /** Fills the panel for the selected items; the graph itself when nothing is selected. */
  show(items: readonly IItem[], ids: readonly string[]): void {
    const { model } = this._host;
    const top = this.element.scrollTop;
    const before = this.element.dataset.key;
    const key = ids.join(' ');
    const item = items[0];
    const node = model.node(ids[0] ?? '');
    let content: Child[];
    if (ids.length > 1) {
      content = this._several(ids);
    } else if (node !== undefined) {
      content = this._node(node);
    } else if (item?.box !== null && item?.box !== undefined) {
      content = this._box(item);
    } else if (item?.value !== null && item?.value !== undefined) {
      content = this._terminal(item, item.value);
    } else {
      content = this._graph();
    }
    this.element.replaceChildren();
    for (const child of content) {
      if (child !== null && child !== undefined && child !== false) {
        this.element.append(child);
      }
    }
    this.element.dataset.key = key;
    this.element.scrollTop = before === key ? top : 0;
  }

  /** Fills the panel for an edge: what flows, from where, to where. */
  showEdge(edge: IEdge): void {
    const { model } = this._host;
    const { values } = edge;
    const first = model.values[values[0] ?? -1]?.value;
    const title = values.length === 1 ? (first?.type ?? '') : plural(values.length, 'tensor');
    const producers = new Set<IGraphNode>();
    const consumers = new Set<IGraphNode>();
    let nbytes = 0;
    const dims = this._host.timing.profile?.dims ?? {};
    const rows: [string, Child][] = [];
    for (const index of values) {
      const entry = at(model.values, index);
      const maker = model.nodes[entry.producer];
      if (maker !== undefined) {
        producers.add(maker);
      }
      entry.consumers.forEach(c => consumers.add(at(model.nodes, c)));
      nbytes += entry.value.nbytes ?? valueBytes(entry.value, dims);
      if (values.length > 1 && rows.length < MAX_LISTED) {
        rows.push([entry.value.id, el('code', '', entry.value.type)]);
      }
    }
    if (first !== undefined && values.length === 1) {
      rows.push(['value', first.id], ['dtype', first.dtype], ['shape', `[${first.shape.join(', ')}]`]);
    }
    if (nbytes > 0) {
      rows.push(['size', formatBytes(nbytes)]);
    }
    const links = (nodes: ReadonlySet<IGraphNode>): HTMLElement => {
      const list = el('p', 'jp-MaxLab-members');
      [...nodes].slice(0, MAX_LISTED).forEach(node => list.append(nodeLink(this._host, node), ' '));
      return nodes.size === 0 ? el('p', 'jp-MaxLab-note', 'the border of the graph') : list;
    };
    this.element.replaceChildren(
      this._heading(title, 'edge'),
      section('Carries', facts(rows)),
      section('From', links(producers)),
      section('To', links(consumers))
    );
    this.element.dataset.key = '';
    this.element.scrollTop = 0;
  }

  private _heading(title: string, sub: string, color = ''): HTMLElement {
    const dot = color === '' ? null : el('span', 'jp-MaxLab-dot');
    if (dot !== null) {
      dot.style.background = color;
    }
    return el(
      'header',
      'jp-MaxLab-inspectorHead',
      el('h2', '', dot, title),
      sub === '' ? null : el('p', '', sub)
    );
  }

  private _node(node: IGraphNode): Child[] {
    const { document } = this._host.model;
    const { op, name, id, scope, attrs, source, error } = node.node;
    const failed = document.error?.node === id ? document.error : null;
    const family = FAMILY_NAMES[node.family];
    const color = this._host.familyColor(node);
    const parts: Child[] = [this._heading(op, `${id} · ${family}`, color)];
    if (failed !== null || error !== null) {
      parts.push(this._error(failed?.code ?? '', error ?? failed?.message ?? '', failed?.fix ?? null));
    }
    if (source !== null) {
      parts.push(this._source(node));
    }
    const cost = this._host.timing.ofNode(node.index);
    if (node.kernels.length > 0 || cost.ns > 0) {
      parts.push(this._nodeTime(node));
    }
    const [reads, ...given] = WORDS[node.gives.length > 0 ? op : ''] ?? ['Operands'];
    parts.push(section(reads ?? '', this._values(node.operands, 'from')));
    given.forEach((word, i) => parts.push(section(word, this._values(node.gives[i] ?? [], 'from'))));
    parts.push(section('Results', this._values(node.results, 'to')));
    const rows = Object.entries(attrs).map(([k, v]): [string, string] => [k, v]);
    if (name !== '' && name !== op) {
      rows.unshift(['name', name]);
    }
    if (scope !== '') {
      rows.push(['scope', scopeText(scope)]);
    }
    if (rows.length > 0) {
      parts.push(section('Attributes', facts(rows)));
    }
    for (const kernel of node.kernels) {
      parts.push(kernelSection(this._host, kernel, new Set([id])));
    }
    return parts;
  }

  private _error(code: string, message: string, fix: string | null): HTMLElement {
    return el(
      'div',
      'jp-MaxLab-error',
      el('strong', '', code === '' ? 'Error' : `Error ${code}`),
      el('p', '', message),
      fix === null || fix === '' ? null : el('p', 'jp-MaxLab-fix', `Fix: ${fix}`)
    );
  }

  private _source(node: IGraphNode): HTMLElement {
    return section('Source', ...this._line(node));
  }

  /** The lines that the operations of a kernel were written on, each once. */
  private _sources(nodes: readonly IGraphNode[]): HTMLElement | null {
    const first = new Map<string, IGraphNode>();
    for (const node of nodes) {
      const { source } = node.node;
      const key = source === null ? '' : `${source.file}:${source.line}`;
      if (key !== '' && !node.isChip && !first.has(key)) {
        first.set(key, node);
      }
    }
    const lines = [...first.values()];
    if (lines.length === 0) {
      return null;
    }
    const more = lines.length > MAX_LINES ? `and ${lines.length - MAX_LINES} more lines` : '';
    return section(
      'Source',
      ...lines.slice(0, MAX_LINES).flatMap(node => this._line(node)),
      more === '' ? null : el('p', 'jp-MaxLab-sub', more)
    );
  }

  private _line(node: IGraphNode): HTMLElement[] {
    const source = node.node.source;
    if (source === null) {
      return [];
    }
    const place = `${source.file}, line ${source.line}`;
    const where = this._host.canReveal()
      ? button('jp-MaxLab-link', `Go to ${place}`, () => this._host.reveal(node), place)
      : el('span', 'jp-MaxLab-place', place);
    const trimmed = source.text.replace(/\s+$/, '');
    const indent = trimmed.length - trimmed.trimStart().length;
    const text = trimmed.slice(indent);
    const at = Math.max(0, Math.min(text.length, source.col - indent));
    const end = Math.min(text.length, (source.end ?? 0) - indent);
    const token = end > at ? text.slice(at, end) : /^\w*/.exec(text.slice(at))?.[0] || text.slice(at, at + 1);
    const line = el(
      'code',
      'jp-MaxLab-sourceLine',
      text.slice(0, at),
      el('mark', '', token),
      text.slice(at + token.length)
    );
    const inside = source.function ? ` in ${source.function}` : '';
    return [el('p', 'jp-MaxLab-sub', where, inside), el('pre', 'jp-MaxLab-source', line)];
  }

  private _nodeTime(node: IGraphNode): Child {
    const { timing } = this._host;
    const cost = timing.ofNode(node.index);
    if (cost.ns === 0) {
      return null;
    }
    const parts: Child[] = [this._meter(cost.ns, cost.approx)];
    const turns = Math.max(...node.kernels.map(k => timing.kernel(k.id)?.count ?? 1), 0);
    if (turns > 1) {
      parts.push(el('p', 'jp-MaxLab-note', `The sum of all ${turns} turns.`));
    }
    const first = node.kernels[0];
    if (cost.approx && first !== undefined) {
      const ns = timing.kernel(first.id)?.ns ?? 0;
      parts.push(
        el(
          'p',
          'jp-MaxLab-note',
          `≈ Part of kernel ${first.id} (${formatTime(ns)}), which computes ` +
            `${plural(first.nodes.length, 'operation')} together. Split by ${timing.splitBy}.`
        )
      );
    }
    return section('Time', ...parts);
  }

  private _meter(ns: number, approx: boolean): HTMLElement {
    const share = this._host.timing.share(ns);
    const bar = el('div', 'jp-MaxLab-meterBar');
    bar.style.width = `${Math.max(0.5, share * 100)}%`;
    const mark = approx ? '≈ ' : '';
    return el(
      'div',
      'jp-MaxLab-meter',
      el(
        'div',
        'jp-MaxLab-meterText',
        el('strong', '', `${mark}${formatTime(ns)}`),
        el('span', '', `${mark}${formatShare(share)} of all kernels`)
      ),
      el('div', 'jp-MaxLab-meterTrack', bar)
    );
  }

  private _values(indexes: readonly number[], side: 'from' | 'to'): HTMLElement {
    const { model } = this._host;
    if (indexes.length === 0) {
      return el('p', 'jp-MaxLab-note', 'none');
    }
    const list = el('ul', 'jp-MaxLab-values');
    for (const index of indexes.slice(0, MAX_LISTED)) {
      const entry = at(model.values, index);
      const links: Child[] = [];
      const add = (node: IGraphNode | undefined): void => {
        if (node !== undefined && !node.isChip) {
          if (links.length > 0) {
            links.push(', ');
          }
          links.push(nodeLink(this._host, node));
        }
      };
      if (side === 'from' && entry.producer >= 0) {
        add(model.nodes[entry.producer]);
      } else if (side === 'to') {
        entry.consumers.slice(0, 8).forEach(c => add(model.nodes[c]));
      }
      const { kind } = entry.value;
      const word = kind === 'tensor' ? (entry.isOutput ? 'output' : '') : kind;
      list.append(
        el(
          'li',
          '',
          el('code', '', entry.value.type || entry.value.id),
          el(
            'span',
            'jp-MaxLab-sub',
            [word, entry.value.name ?? ''].filter(Boolean).join(' '),
            links.length > 0 ? (side === 'from' ? ' from ' : ' to ') : '',
            ...links
          )
        )
      );
    }
    return list;
  }

  private _box(item: IItem): Child[] {
    const { model, timing } = this._host;
    const { box } = item;
    if (box === null) {
      return [];
    }
    const title = item.count > 1 ? `${box.label} ×${item.count}` : box.label;
    const parts: Child[] = [this._heading(title, [box.type, scopeText(box.path)].filter(Boolean).join(' · '))];
    const cost = timing.ofBox(box);
    if (cost.ns > 0) {
      const isTurned = model
        .nodesIn(box)
        .some(i => model.nodes[i]?.kernels.some(k => (timing.kernel(k.id)?.count ?? 1) > 1));
      const notes = isTurned ? ['Times of loops are sums of all turns.'] : [];
      notes.push(`${plural(cost.whole, 'kernel')} wholly inside: ${formatTime(cost.exactNs)}.`);
      if (cost.shared > 0) {
        notes.push(
          `≈ ${plural(cost.shared, 'kernel')} shared with other scopes: ` +
            `${formatTime(cost.ns - cost.exactNs)}, split by ${timing.splitBy}.`
        );
      }
      parts.push(
        section(
          'Time',
          this._meter(cost.ns, cost.approx),
          el('p', 'jp-MaxLab-note', notes.join(' '))
        )
      );
    }
    const counts = new Map<string, number>();
    const inside = new Set(model.nodesIn(box));
    let weights = 0;
    const seen = new Set<number>();
    for (const index of inside) {
      const node = model.nodes[index];
      if (node === undefined) {
        continue;
      }
      if (!node.isChip) {
        counts.set(node.node.op, (counts.get(node.node.op) ?? 0) + 1);
      }
      for (const value of model.chipsOf(node)) {
        if (value.value.kind === 'weight' && !seen.has(value.index)) {
          seen.add(value.index);
          weights += value.value.nbytes ?? 0;
        }
      }
    }
    const rows: [string, Child][] = [['operations', String(box.total)]];
    if (seen.size > 0) {
      rows.push(['weights', `${seen.size}${weights > 0 ? ` · ${formatBytes(weights)}` : ''}`]);
    }
    if (item.count > 1) {
      rows.push(['identical', `${item.count} (fingerprint ${box.children[0]?.fingerprint.slice(0, 8) ?? ''})`]);
    }
    parts.push(section('Contents', facts(rows), this._opCounts(counts)));
    parts.push(this._boxKernels(inside));
    return parts;
  }

  private _opCounts(counts: ReadonlyMap<string, number>): HTMLElement {
    const list = el('p', 'jp-MaxLab-opCounts');
    for (const [op, count] of [...counts].sort((a, b) => b[1] - a[1]).slice(0, 24)) {
      list.append(el('span', '', count > 1 ? `${op} ×${count}` : op), ' ');
    }
    return list;
  }

  private _boxKernels(inside: ReadonlySet<number>): Child {
    const { model, timing } = this._host;
    const touched = timing.kernels.filter(k =>
      timing.nodesOf(k).some(id => inside.has(model.node(id)?.index ?? -1))
    );
    if (touched.length === 0) {
      return null;
    }
    const list = el('ol', 'jp-MaxLab-kernels');
    for (const profile of touched.slice(0, 12)) {
      const ids = timing.nodesOf(profile);
      const isWhole = ids.every(id => inside.has(model.node(id)?.index ?? -1));
      const name = model.kernels.get(profile.id)?.name ?? profile.id;
      list.append(
        el(
          'li',
          '',
          button('jp-MaxLab-link', `Select the operations of ${name}`, () => this._host.select(ids), name),
          el('span', 'jp-MaxLab-sub', `${isWhole ? '' : 'shared, '}${formatTime(profile.ns)}`)
        )
      );
    }
    return section('Slowest kernels', list);
  }

  private _terminal(item: IItem, entry: IGraphValue): Child[] {
    const word = item.kind === 'input' ? 'graph input' : 'graph output';
    const { value } = entry;
    const rows: [string, Child][] = [['type', el('code', '', value.type)]];
    if (typeof value.nbytes === 'number') {
      rows.push(['size', formatBytes(value.nbytes)]);
    }
    return [
      this._heading(value.name ?? value.id, `${value.id} · ${word}`),
      section('Value', facts(rows)),
      section(
        item.kind === 'input' ? 'Used by' : 'Made by',
        this._values([entry.index], item.kind === 'input' ? 'to' : 'from')
      )
    ];
  }

  private _several(ids: readonly string[]): Child[] {
    const { model } = this._host;
    const nodes = ids.map(id => model.node(id)).filter(n => n !== undefined);
    const kernels = new Set<IKernel>();
    nodes.forEach(n => n.kernels.forEach(k => kernels.add(k)));
    const title = plural(ids.length, 'operation');
    const [only] = [...kernels];
    if (kernels.size === 1 && only !== undefined) {
      return [
        this._heading(only.name, `${title} in one kernel`),
        this._sources(nodes),
        kernelSection(this._host, only, new Set(ids))
      ];
    }
    const list = el('p', 'jp-MaxLab-members');
    nodes.slice(0, MAX_LISTED).forEach(n => list.append(nodeLink(this._host, n), ' '));
    return [this._heading(title, plural(kernels.size, 'kernel')), section('Selected', list)];
  }

  private _graph(): Child[] {
    const { model, timing } = this._host;
    const { document } = model;
    const parts: Child[] = [this._heading(document.name, `revision ${document.revision}`)];
    if (document.error !== null) {
      const { code, message, fix, node } = document.error;
      const block = this._error(code, message, fix);
      const failed = node === null ? undefined : model.node(node);
      if (failed !== undefined) {
        block.append(nodeLink(this._host, failed));
      }
      parts.push(block);
    }
    const rows: [string, Child][] = [
      ['operations', String(model.root.total)],
      ['inputs', String(document.inputs.length)],
      ['outputs', String(document.outputs.length)]
    ];
    if (document.kernels.length > 0) {
      rows.push(['kernels', String(document.kernels.length)]);
    }
    parts.push(section('Graph', facts(rows)));
    const { profile } = timing;
    if (profile !== null) {
      const dims = Object.entries(profile.dims).map(([k, v]) => `${k}=${v}`);
      const overhead = profile.wall_ns - timing.totalNs;
      const times: [string, Child][] = [
        ['wall', formatTime(profile.wall_ns)],
        ['kernels', formatTime(timing.totalNs)]
      ];
      if (overhead > 0) {
        times.push(['outside', `${formatTime(overhead)} (dispatch, waiting)`]);
      }
      times.push(
        ['device', `${profile.device}, ${plural(profile.threads, 'thread')}`],
        ['runs', `${profile.runs} (median shown)`]
      );
      if (dims.length > 0) {
        times.push(['sizes', dims.join(', ')]);
      }
      parts.push(section('Profile', facts(times)));
    }
    if (document.passes.length > 0) {
      const rowsOf = document.passes.map((p): [string, Child] => [
        p.name,
        `${p.before === p.after ? plural(p.after, 'op') : `${p.before} → ${plural(p.after, 'op')}`} · ${p.ms.toFixed(1)} ms`
      ]);
      parts.push(section('Passes', facts(rowsOf)));
    }
    parts.push(
      el('p', 'jp-MaxLab-note', 'Select something to inspect it. Press ? for the keys.')
    );
    return parts;
  }
}
