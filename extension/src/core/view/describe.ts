/** Items in words: for screen readers, tooltips and error messages. */

import { describeChange } from '../model/changes';
import { formatShare, formatTime, plural, scopeText } from '../model/format';
import type { GraphModel } from '../model/graph';
import type { IEdge, IItem } from '../model/scene';
import type { Timing } from '../model/timing';
import { lineOf } from '../render/picture';
import { el } from './dom';
import type { Stage } from './stage';

/** What is told of. */
export interface IDescribed {
  readonly model: GraphModel;
  readonly timing: Timing;
  readonly stage: Stage;
}

function resultType(view: IDescribed, item: IItem): string {
  const result = item.node?.results[0];
  return result === undefined ? '' : (view.model.values[result]?.value.type ?? '');
}

function timeOf(view: IDescribed, item: IItem): string[] {
  const { timing } = view;
  const cost =
    item.node !== null
      ? timing.ofNode(item.node.index)
      : item.box !== null
        ? timing.ofBox(item.box)
        : null;
  if (cost === null || cost.ns === 0) {
    return [];
  }
  const about = cost.approx ? 'about ' : '';
  return [`${about}${formatTime(cost.ns)}`, formatShare(timing.share(cost.ns))];
}

/** `matmul, encoder.layers.0.attention, f32[batch, seq, 384], 1.2 ms, 14%`. */
export function describeItem(view: IDescribed, item: IItem): string {
  const parts: string[] = [];
  if (item.node !== null) {
    const { node } = item.node;
    parts.push(node.op, scopeText(node.scope), resultType(view, item));
    if (view.stage.picture?.errors.has(item) === true) {
      const what = item.node.isDraft ? 'draft' : 'error';
      parts.push(`${what}: ${node.error ?? view.model.document.error?.message ?? ''}`);
    }
  } else if (item.box !== null) {
    const times = item.count > 1 ? `${item.label}, ${item.count} identical` : item.label;
    parts.push(times, item.box.type, plural(item.box.total, 'operation'));
  } else {
    parts.push(`${item.kind} ${item.label}`, item.value?.value.type ?? '');
  }
  parts.push(failureOf(view, item), ...notesOf(view, item));
  return [...parts, ...changeOf(view, item), ...timeOf(view, item)].filter(Boolean).join(', ');
}

/** What a run failed with here. */
function failureOf({ stage }: IDescribed, item: IItem): string {
  const { failed } = stage.marks;
  return failed?.item === item ? `the run failed here: ${failed.says}` : '';
}

/** Whether it is pinned, and what people wrote on it. */
function notesOf(view: IDescribed, item: IItem): string[] {
  const comments = (view.model.document.comments ?? []).filter(comment => comment.on === item.key);
  const isPinned = view.stage.marks.pinned.includes(item);
  return [isPinned ? 'pinned' : '', ...comments.map(comment => `comment: ${comment.text}`)];
}

function changeOf(view: IDescribed, item: IItem): string[] {
  const change = view.stage.marks.changes.get(item);
  return change === undefined ? [] : [describeChange(item, change)];
}

export function tooltipLines(view: IDescribed, item: IItem): string[] {
  const heat = view.stage.picture?.heat.get(item);
  const { picture } = view.stage;
  const note = picture === null || picture.notes === null ? '' : (lineOf(picture, item) ?? '');
  const time = [note, heat?.text ?? ''].filter(Boolean).join('  ');
  if (item.node !== null) {
    const { node } = item.node;
    const { source } = node;
    const error = view.stage.picture?.errors.has(item) === true;
    return [
      `${node.op}  ${node.id}${item.node.isDraft ? '  draft' : ''}`,
      error ? (node.error ?? view.model.document.error?.message ?? '') : '',
      failureOf(view, item),
      resultType(view, item),
      scopeText(node.scope),
      source === null ? '' : `${source.file}:${source.line}  ${source.text.trim().slice(0, 70)}`,
      time,
      ...changeOf(view, item)
    ];
  }
  if (item.box !== null) {
    const hint = item.container === null ? 'double-click to unfold' : 'double-click to fold';
    const title = item.count > 1 ? `${item.label} ×${item.count}` : item.label;
    return [title, failureOf(view, item), item.box.type, plural(item.box.total, 'operation'), time, ...changeOf(view, item), hint];
  }
  return [item.label, `graph ${item.kind}`, item.value?.value.type ?? ''];
}

export function edgeLines(view: IDescribed, edge: IEdge): string[] {
  const types = edge.values.map(index => {
    const value = view.model.values[index]?.value;
    return value === undefined ? '' : [value.type, value.name ?? ''].filter(Boolean).join('  ');
  });
  const more = types.length > 4 ? [`and ${types.length - 4} more`] : [];
  return [...types.slice(0, 4), ...more];
}

export function errorView(title: string, problems: readonly string[]): HTMLElement {
  const list = el('ul');
  problems.forEach(text => list.append(el('li', '', text)));
  const box = el('div', 'jp-MaxLab-problem', el('h2', '', title), list);
  box.setAttribute('role', 'alert');
  return box;
}
