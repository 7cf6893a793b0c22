/** Beside the graph of a lesson: its text, how far the goal is, and hints, one after the other. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { prose } from '../../core';
import type { IEditorGoal, ILessonText } from '../../proto/editor';

function element(tag: string, className: string, ...children: (string | Node)[]): HTMLElement {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...children);
  return made;
}

export class LessonPanel {
  readonly element = element('aside', 'jp-MaxLab-lesson');

  constructor(private readonly _trans: TranslationBundle) {
    this.element.hidden = true;
    this.element.setAttribute('aria-label', _trans.__('Lesson'));
    this.element.tabIndex = 0;
    this._goal.setAttribute('role', 'status');
    this._goal.append(this._head, this._parts);
    this._more.type = 'button';
    this._more.className = 'jp-MaxLab-editor-action';
    this._more.onclick = () => this._showHint();
    this.element.append(this._text, this._goal, this._hints, this._more);
  }

  /** Shows `lesson`; one without a text has no panel. */
  show(lesson: ILessonText | null, hasGoal: boolean): void {
    const text = lesson?.text ?? '';
    this.element.hidden = text === '' && !hasGoal;
    this._text.replaceChildren(element('h2', '', lesson?.title ?? ''), ...prose(text));
    this._goal.hidden = !hasGoal;
    this._waiting = [...(lesson?.hints ?? [])];
    this._hints.replaceChildren();
    this._count = this._waiting.length;
    this._update();
    this.showGoal(null, hasGoal);
  }

  /** Shows how far the goal is; null before a kernel has looked. */
  showGoal(goal: IEditorGoal | null, hasGoal: boolean): void {
    const trans = this._trans;
    this._goal.hidden = !hasGoal;
    if (!hasGoal) {
      return;
    }
    if (goal?.state === 'checking') {
      // What was found before stays until more is known.
      this._goal.dataset.checking = 'true';
      this._head.textContent = trans.__('Goal: checking …');
      return;
    }
    delete this._goal.dataset.checking;
    const state = goal?.state ?? 'unknown';
    this._goal.dataset.state = state;
    this._head.textContent =
      goal === null
        ? trans.__('Goal: checked when a kernel is there')
        : goal.state === 'met'
          ? trans.__('✓ Goal met')
          : trans.__('Goal: not met yet');
    this._parts.replaceChildren(
      ...(goal?.parts ?? []).map(({ says, met }) => {
        const item = element('li', '', `${met ? '✓' : '○'} ${says}`);
        item.dataset.met = String(met);
        return item;
      })
    );
  }

  private _showHint(): void {
    const hint = this._waiting.shift();
    if (hint !== undefined) {
      const number = this._count - this._waiting.length;
      const shown = element('div', 'jp-MaxLab-lesson-hint', element('strong', '', this._trans.__('Hint %1', String(number))));
      shown.append(...prose(hint));
      this._hints.append(shown);
    }
    this._update();
  }

  private _update(): void {
    const left = this._waiting.length;
    this._more.hidden = left === 0;
    this._more.textContent = this._trans.__('Show hint %1 of %2', String(this._count - left + 1), String(this._count));
  }

  private readonly _text = element('div', 'jp-MaxLab-lesson-text');
  private readonly _goal = element('div', 'jp-MaxLab-goal');
  private readonly _head = element('strong', '');
  private readonly _parts = element('ul', '');
  private readonly _hints = element('div', 'jp-MaxLab-hints');
  private readonly _more = document.createElement('button');
  private _waiting: string[] = [];
  private _count = 0;
}
