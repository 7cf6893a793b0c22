/** The card of a line: the operations that it made, what they take, and what went wrong there. */

import { type Extension, StateEffect, StateField } from '@codemirror/state';
import { type EditorView, closeHoverTooltips, hoverTooltip, keymap, showTooltip, type Tooltip, tooltips, type TooltipView } from '@codemirror/view';

import { formatTime } from '../../core';
import type { IHintCall, IHintOp } from '../../proto/hints';
import { hintsAt, type IShownHint } from './field';
import { callText, labelOf, markText } from './words';

/** What a card asks of the page. */
export interface ICardHost {
  /** Shows operations of a call on its graph; with the source of their kernel, where that is wanted. */
  show(view: EditorView, call: IHintCall, ids: readonly string[], withSource: boolean): void;
}

/** How long the mouse rests on a hint before its card opens, and is away before it closes. */
const REST_MS = 350;

interface IOpen {
  line: number;
  /** Where the text of the line begins. */
  pos: number;
  /** Whether the keyboard goes into the card. */
  isFocused: boolean;
}

const setOpen = StateEffect.define<IOpen | null>();

function el(tag: string, className: string, text = ''): HTMLElement {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

function button(text: string, label: string, call: () => void): HTMLElement {
  const element = document.createElement('button');
  element.type = 'button';
  element.textContent = text;
  element.setAttribute('aria-label', label);
  element.addEventListener('click', call);
  return element;
}

function opRow(op: IHintOp, showSource: (ids: readonly string[]) => void): HTMLElement {
  const row = el('tr', '');
  row.append(
    el('td', 'jp-MaxLab-card-op', op.op),
    el('td', 'jp-MaxLab-card-type', op.type),
    el('td', 'jp-MaxLab-card-time', op.ns === null ? '' : formatTime(op.ns))
  );
  const kernel = el('td', 'jp-MaxLab-card-kernel');
  if (op.kernel !== '') {
    const text = `${op.kernel} ${op.kernel_name}`;
    kernel.append(button(text, `Show the source of kernel ${text}`, () => showSource([op.id])));
  }
  row.append(kernel);
  return row;
}

function callSection(view: EditorView, call: IHintCall, calls: readonly IHintCall[], host: ICardHost): HTMLElement {
  const section = el('section', '');
  const showSource = (ids: readonly string[]): void => host.show(view, call, ids, true);
  const label = labelOf(call, calls);
  section.append(el('p', 'jp-MaxLab-card-call', `${label === '' ? '' : `${label} `}${callText(call)}`));
  const table = el('table', '');
  call.ops.forEach(op => table.append(opRow(op, showSource)));
  section.append(table);
  const left = call.count - call.ops.length;
  const about = [
    ...(left > 0 ? [`${left} more ${left === 1 ? 'operation' : 'operations'}`] : []),
    ...(call.run > 0 ? [`run [${call.run}]`] : []),
    ...(call.title === '' ? [] : [`graph ${call.title}`])
  ];
  const foot = el('p', 'jp-MaxLab-card-foot', about.join(' · '));
  const name = call.title === '' ? 'the graph' : call.title;
  foot.append(button('Show on graph', `Show on ${name}`, () => host.show(view, call, call.ops.map(({ id }) => id), false)));
  section.append(foot);
  return section;
}

/** The card of a line with these hints. */
export function cardOf(view: EditorView, line: number, hints: readonly IShownHint[], host: ICardHost): HTMLElement {
  const card = el('div', 'jp-MaxLab-card');
  card.setAttribute('role', 'dialog');
  card.setAttribute('aria-label', `What line ${line} made`);
  card.tabIndex = -1;
  card.append(el('h3', '', `Line ${line}`));
  if (hints.some(({ isStale }) => isStale)) {
    card.append(el('p', 'jp-MaxLab-card-note', 'This line was edited since it ran: this is of the text that ran.'));
  }
  for (const { hint } of hints) {
    for (const mark of hint.marks) {
      const note = el('p', 'jp-MaxLab-card-mark', markText(mark));
      note.dataset.kind = mark.kind;
      card.append(note);
    }
    hint.calls.forEach(call => card.append(callSection(view, call, hint.calls, host)));
  }
  if (hints.length === 0) {
    card.append(el('p', 'jp-MaxLab-card-note', 'This line has made no operation, or has not run yet.'));
  }
  return card;
}

function opened(view: EditorView, line: number, isFocused: boolean): IOpen | null {
  const { doc } = view.state;
  if (line > doc.lines) {
    return null;
  }
  const { from, text } = doc.line(line);
  return { line, pos: from + text.length - text.trimStart().length, isFocused };
}

/** Opens the card of a line and gives it the keyboard. */
export function openCard(view: EditorView, line: number): void {
  // A card of the mouse would lie on top of it.
  view.dispatch({ effects: [setOpen.of(opened(view, line, true)), closeHoverTooltips] });
}

function closeCard(view: EditorView, isLeaving: boolean): void {
  view.dispatch({ effects: [setOpen.of(null), closeHoverTooltips] });
  if (!isLeaving) {
    view.focus();
  }
}

/** The cards of an editor: one that is opened by hand, and those of the mouse. */
export class Cards {
  constructor(private readonly _host: ICardHost) {}

  /** The mouse is over the hint of a line, or has left it. */
  readonly hovered = (view: EditorView, line: number | null): void => {
    this._soon(() => {
      const open = view.state.field(this._open, false);
      if (open?.isFocused !== true && view.dom.isConnected) {
        view.dispatch({ effects: setOpen.of(line === null ? null : opened(view, line, false)) });
      }
    });
  };

  get extension(): Extension {
    return [
      tooltips({ parent: document.body, position: 'fixed' }),
      this._open,
      showTooltip.from(this._open, open => (open === null ? null : this._tooltip(open))),
      hoverTooltip(
        (view, pos) => {
          const { number, from, text } = view.state.doc.lineAt(pos);
          const hints = hintsAt(view, number);
          return hints.length === 0 || view.state.field(this._open, false) !== null
            ? null
            : {
                pos: from + text.length - text.trimStart().length,
                above: false,
                create: () => ({ dom: cardOf(view, number, hints, this._host) })
              };
        },
        { hoverTime: 600, hideOnChange: true }
      ),
      keymap.of([
        {
          key: 'Escape',
          run: view => {
            const isOpen = (view.state.field(this._open, false) ?? null) !== null;
            if (isOpen) {
              closeCard(view, false);
            }
            return isOpen;
          }
        }
      ])
    ];
  }

  private _soon(call: () => void): void {
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(call, REST_MS);
  }

  private _tooltip(open: IOpen): Tooltip {
    return { pos: open.pos, above: false, create: view => this._mounted(view, open) };
  }

  private _mounted(view: EditorView, { line, isFocused }: IOpen): TooltipView {
    const dom = cardOf(view, line, hintsAt(view, line), this._host);
    dom.addEventListener('mouseenter', () => window.clearTimeout(this._timer));
    if (!isFocused) {
      dom.addEventListener('mouseleave', () => this.hovered(view, null));
    }
    dom.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        event.preventDefault();
        event.stopPropagation();
        closeCard(view, false);
      }
    });
    dom.addEventListener('focusout', ({ relatedTarget }) => {
      if (isFocused && !(relatedTarget instanceof Node && dom.contains(relatedTarget))) {
        // The tooltip may be going away as its editor is told something else.
        window.setTimeout(() => {
          if (view.dom.isConnected && view.state.field(this._open, false)?.isFocused === true) {
            closeCard(view, true);
          }
        });
      }
    });
    return {
      dom,
      mount: () => {
        if (isFocused) {
          (dom.querySelector('button') ?? dom).focus();
        }
      }
    };
  }

  private _timer = 0;

  private readonly _open = StateField.define<IOpen | null>({
    create: () => null,
    update(open, transaction) {
      let next = transaction.docChanged ? null : open;
      for (const effect of transaction.effects) {
        if (effect.is(setOpen)) {
          next = effect.value;
        }
      }
      return next;
    }
  });
}
