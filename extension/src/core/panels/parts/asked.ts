/** One question of a panel and its newest answer; late answers to older questions are dropped. */

import { button, el } from '../../view/dom';
import type { IQuestions, QuestionName } from '../../../proto/questions';
import type { IPanelView } from '../../view/panel';

type State<T> =
  | { name: 'idle' | 'asking' }
  | { name: 'failed'; problem: string }
  | { name: 'ready'; value: T };

export class Asked<K extends QuestionName, T> {
  private _state: State<T> = { name: 'idle' };
  private _number = 0;
  private _args: IQuestions[K]['args'] | undefined;

  constructor(
    private readonly _view: IPanelView,
    private readonly _what: K,
    private readonly _read: (data: IQuestions[K]['answer']) => T,
    private readonly _changed: () => void
  ) {}

  get value(): T | null {
    return this._state.name === 'ready' ? this._state.value : null;
  }

  get isAsking(): boolean {
    return this._state.name === 'asking';
  }

  get problem(): string | null {
    return this._state.name === 'failed' ? this._state.problem : null;
  }

  /** Asks; `changed` is called when the state is another. Resolves when this question is over. */
  async ask(args?: IQuestions[K]['args']): Promise<void> {
    this._number += 1;
    const number = this._number;
    this._args = args;
    this._set({ name: 'asking' });
    let state: State<T>;
    try {
      const { data } = await this._view.ask(this._what, args);
      state = { name: 'ready', value: this._read(data) };
    } catch (error) {
      state = { name: 'failed', problem: error instanceof Error ? error.message : String(error) };
    }
    if (number === this._number) {
      this._set(state);
    }
  }

  /** Forgets the answer, and the question that is on its way. */
  clear(): void {
    this._number += 1;
    this._state = { name: 'idle' };
  }

  /** What to show while there is no answer; null when there is one. */
  placeholder(waiting: string): HTMLElement | null {
    switch (this._state.name) {
      case 'ready':
        return null;
      case 'failed':
        return el(
          'div',
          'jp-MaxLab-panelNote',
          el('p', '', this._state.problem),
          button('jp-MaxLab-link', 'Ask again', () => void this.ask(this._args), 'Ask again')
        );
      default:
        return el('p', 'jp-MaxLab-panelNote jp-MaxLab-note', waiting);
    }
  }

  private _set(state: State<T>): void {
    this._state = state;
    this._changed();
  }
}
