/** Every editor of the page that can have hints, and the hints of each. */

import type { CodeEditor } from '@jupyterlab/codeeditor';
import { Compartment, type Extension } from '@codemirror/state';
import { type EditorView, ViewPlugin } from '@codemirror/view';

import type { ISourceHints } from '../../proto/hints';
import { Cards, type ICardHost, openCard } from './card';
import { hintsDrawing, hintsField, marksGutter, setHints } from './field';

interface IEditor {
  readonly model: CodeEditor.IModel;
  readonly hints: Compartment;
  readonly marks: Compartment;
}

export class HintedEditors {
  /**
   * @param host what cards ask for.
   * @param hintsOf the hints of an editor that has just come; null where there are none.
   */
  constructor(
    host: ICardHost,
    private readonly _hintsOf: (view: EditorView, model: CodeEditor.IModel) => ISourceHints | null
  ) {
    this._cards = new Cards(host);
  }

  /** What an editor of `model` has: a place for hints, which is empty while they are off. */
  extensionFor(model: CodeEditor.IModel): Extension {
    const editor: IEditor = { model, hints: new Compartment(), marks: new Compartment() };
    const plugin = ViewPlugin.define(view => {
      this._views.set(view, editor);
      if (this._isOn) {
        // Its notebook knows it a moment later.
        window.setTimeout(() => {
          if (this._views.has(view)) {
            this._fill(view, editor);
          }
        });
      }
      return { destroy: () => this._views.delete(view) };
    });
    return [editor.hints.of(this._isOn ? this._extension : []), editor.marks.of([]), plugin];
  }

  get isOn(): boolean {
    return this._isOn;
  }

  /** Switches all hints on or off. */
  set isOn(isOn: boolean) {
    if (isOn === this._isOn) {
      return;
    }
    this._isOn = isOn;
    for (const [view, editor] of this._views) {
      view.dispatch({
        effects: [
          editor.hints.reconfigure(isOn ? this._extension : []),
          ...(isOn ? [] : [editor.marks.reconfigure([])])
        ]
      });
      this._marked.delete(view);
      if (isOn) {
        this._fill(view, editor);
      }
    }
  }

  /** Gives an editor its hints; null takes them away. */
  give(view: EditorView, source: ISourceHints | null): void {
    const editor = this._views.get(view);
    if (editor === undefined || !this._isOn) {
      return;
    }
    const hasMarks = source?.lines.some(({ marks }) => marks.length > 0) === true;
    const hadMarks = this._marked.has(view);
    if (hasMarks) {
      this._marked.add(view);
    } else {
      this._marked.delete(view);
    }
    view.dispatch({
      effects: [
        setHints.of(source === null || source.lines.length === 0 ? null : source),
        ...(hasMarks === hadMarks ? [] : [editor.marks.reconfigure(hasMarks ? this._gutter : [])])
      ]
    });
  }

  private _fill(view: EditorView, editor: IEditor): void {
    const source = this._hintsOf(view, editor.model);
    if (source !== null || view.state.field(hintsField, false)?.source !== null) {
      this.give(view, source);
    }
  }

  private get _extension(): Extension {
    return [hintsDrawing(this._cards.hovered), this._cards.extension];
  }

  private readonly _cards: Cards;
  private readonly _views = new Map<EditorView, IEditor>();
  private readonly _marked = new WeakSet<EditorView>();
  private readonly _gutter = marksGutter(openCard);
  private _isOn = false;
}
