/** The hints of an editor: a state that follows its edits, and what is drawn of it. */

import { type Extension, type Range, StateEffect, StateField } from '@codemirror/state';
import {
  Decoration,
  type DecorationSet,
  type EditorView,
  gutter,
  GutterMarker,
  ViewPlugin,
  type ViewUpdate,
  WidgetType
} from '@codemirror/view';

import type { ILineHints, ISourceHints } from '../../proto/hints';
import { follow, type IPlacedHints, isOtherText, lineOf, NOTHING, place } from './placing';
import { hintText, markText, markTitle } from './words';

/** Gives an editor other hints; null takes them away. */
export const setHints = StateEffect.define<ISourceHints | null>();

export const hintsField = StateField.define<IPlacedHints>({
  create: () => NOTHING,
  update(hints, transaction) {
    const { docChanged, changes, state } = transaction;
    let next = docChanged && hints.source !== null ? follow(hints, changes, state.doc) : hints;
    for (const effect of transaction.effects) {
      if (effect.is(setHints)) {
        next = effect.value === null ? NOTHING : place(effect.value, state.doc, next);
      }
    }
    return next;
  }
});

/** The hints of the line `number`, and whether they are of an older text. */
export interface IShownHint {
  hint: ILineHints;
  isStale: boolean;
}

/** What is known of a line of the editor now. */
export function hintsAt(view: EditorView, number: number): IShownHint[] {
  const { doc } = view.state;
  const hints = view.state.field(hintsField, false) ?? NOTHING;
  const isOther = isOtherText(hints, doc);
  return hints.placed
    .filter(one => lineOf(one, doc) === number)
    .map(one => ({ hint: one.hint, isStale: isOther || one.state === 'stale' }));
}

/** Says that the mouse is over the hint of a line, or has left it. */
export type Hovered = (view: EditorView, line: number | null) => void;

class HintWidget extends WidgetType {
  constructor(
    private readonly _text: string,
    private readonly _isStale: boolean,
    private readonly _hovered: Hovered
  ) {
    super();
  }

  override eq(other: HintWidget): boolean {
    return other._text === this._text && other._isStale === this._isStale;
  }

  override toDOM(view: EditorView): HTMLElement {
    const element = document.createElement('span');
    element.className = 'jp-MaxLab-lineHint';
    element.classList.toggle('jp-mod-stale', this._isStale);
    element.textContent = this._text;
    // A screen reader reads the code alone; the card of the line says all this in words.
    element.setAttribute('aria-hidden', 'true');
    element.addEventListener('mouseenter', () => {
      this._hovered(view, view.state.doc.lineAt(view.posAtDOM(element)).number);
    });
    element.addEventListener('mouseleave', () => this._hovered(view, null));
    return element;
  }

  override ignoreEvent(): boolean {
    return false;
  }
}

/** Draws the hints of the lines that can be seen. */
class Drawing {
  decorations: DecorationSet;

  constructor(
    view: EditorView,
    private readonly _hovered: Hovered
  ) {
    this.decorations = this._draw(view);
    this._fit(view);
  }

  update(update: ViewUpdate): void {
    const { view, startState, state } = update;
    if (
      update.docChanged ||
      update.viewportChanged ||
      startState.field(hintsField, false) !== state.field(hintsField, false)
    ) {
      this.decorations = this._draw(view);
    }
    if (update.docChanged || update.viewportChanged || update.geometryChanged) {
      this._fit(view);
    }
  }

  private _draw(view: EditorView): DecorationSet {
    const { doc } = view.state;
    const hints = view.state.field(hintsField, false) ?? NOTHING;
    const { from, to } = view.viewport;
    const isOther = isOtherText(hints, doc);
    const drawn: Range<Decoration>[] = [];
    for (const one of hints.placed) {
      // Long statements begin before the viewport; shorter ones are found by where they begin.
      if (one.from > to || one.to < from) {
        continue;
      }
      const line = lineOf(one, doc);
      const text = line === null ? '' : hintText(one.hint);
      if (line !== null && text !== '') {
        const widget = new HintWidget(text, isOther || one.state === 'stale', this._hovered);
        drawn.push(Decoration.widget({ widget, side: 1 }).range(doc.line(line).to));
      }
    }
    return Decoration.set(drawn, true);
  }

  /** Lets hints end where the editor does: one that is too long makes nothing scroll. */
  private _fit(view: EditorView): void {
    view.requestMeasure({
      key: this,
      read: () => {
        const right = view.scrollDOM.getBoundingClientRect().right;
        return [...view.contentDOM.querySelectorAll<HTMLElement>('.jp-MaxLab-lineHint')].map(
          element => ({ element, room: right - element.getBoundingClientRect().left - 8 })
        );
      },
      write: rooms => {
        for (const { element, room } of rooms) {
          element.style.maxWidth = `${Math.max(room, 0)}px`;
        }
      }
    });
  }
}

// ---------------------------------------------------------------- marks

const SIGNS: Record<string, string> = { nan: 'N', inf: '∞', failed: '✕' };

class Mark extends GutterMarker {
  constructor(
    private readonly _hint: ILineHints,
    private readonly _isStale: boolean
  ) {
    super();
  }

  override eq(other: Mark): boolean {
    return other._hint === this._hint && other._isStale === this._isStale;
  }

  override toDOM(): Node {
    const { marks } = this._hint;
    const kind = marks[0]?.kind ?? 'failed';
    const element = document.createElement('span');
    element.className = 'jp-MaxLab-lineMark';
    element.classList.toggle('jp-mod-stale', this._isStale);
    element.dataset.kind = kind;
    element.textContent = SIGNS[kind] ?? '';
    element.title = marks.map(markText).join('\n\n');
    element.setAttribute('role', 'img');
    element.setAttribute('aria-label', marks.map(markTitle).join(', '));
    return element;
  }
}

/** The gutter with what went wrong; an editor in which nothing did has none. */
export function marksGutter(clicked: (view: EditorView, line: number) => void): Extension {
  return gutter({
    class: 'jp-MaxLab-lineMarks',
    lineMarker: (view, block) => {
      const line = view.state.doc.lineAt(block.from).number;
      const marked = hintsAt(view, line).find(({ hint }) => hint.marks.length > 0);
      return marked === undefined ? null : new Mark(marked.hint, marked.isStale);
    },
    lineMarkerChange: update =>
      update.startState.field(hintsField, false) !== update.state.field(hintsField, false),
    domEventHandlers: {
      click: (view, block) => {
        clicked(view, view.state.doc.lineAt(block.from).number);
        return true;
      }
    }
  });
}

/** Everything of an editor with hints but its marks and its card. */
export function hintsDrawing(hovered: Hovered): Extension {
  return [
    hintsField,
    ViewPlugin.define(view => new Drawing(view, hovered), { decorations: drawing => drawing.decorations })
  ];
}
