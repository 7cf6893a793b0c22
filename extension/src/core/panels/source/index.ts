/**
 * Your code and the generated code of one kernel, side by side, with the lines of one operation linked;
 * and an editor for the generated code, whose result is compiled, checked and measured before it is kept.
 */

import type { IEditAnswer, ITextAnswer } from '../../../proto/checks';
import type { IKernel } from '../../../proto/document';
import { asRegion, button, el } from '../../view/dom';
import { languageOf } from '../../view/kernel';
import type { IPanel, IPanelHost, IPanelView } from '../../view/panel';
import { Asked } from '../parts/asked';
import { compiledPanel } from '../parts/compiled';
import { WhenShown } from '../parts/when';
import { SOURCE_STYLES } from './css';
import { Editor } from './editor';
import { trialView } from './result';
import { CellSide, TextSide, type ISidesHost } from './sides';
import { headline } from './trial';

const NEXT = 'Your newest text is next: it is tried when this trial is over.';

class SourcePanel implements IPanel {
  readonly element = el('div', 'jp-MaxLab-sourcePanel');
  private readonly _view: IPanelView;
  private readonly _when = new WhenShown(() => this._load());
  private readonly _text: Asked<'text', ITextAnswer>;
  private readonly _trial: Asked<'edit', IEditAnswer>;
  private readonly _cell: CellSide;
  private readonly _generated: TextSide;
  private readonly _editor: Editor;
  private readonly _picker = el('select');
  private readonly _tools = el('div', 'jp-MaxLab-tools');
  private readonly _result = el('div', 'jp-MaxLab-trialBox');
  private readonly _right = el('div', 'jp-MaxLab-sourceRight');
  private readonly _drafts = new Map<string, string>();
  private _kernel: IKernel | null = null;
  private _isEditing = false;
  /** The text that the newest trial is of. */
  private _tried = '';
  /** The text was asked to be tried while another trial ran. */
  private _isNext = false;
  private readonly _stale = el('p', 'jp-MaxLab-panelNote jp-MaxLab-staleNote');
  private _pointed: ReadonlySet<string> = new Set();

  constructor(host: IPanelHost) {
    this._view = host.view;
    this._text = new Asked(host.view, 'text', text => text, () => this._gotText());
    this._trial = new Asked(host.view, 'edit', trial => trial, () => this._gotTrial());
    const sides: ISidesHost = {
      point: nodes => {
        this._pointed = new Set(nodes);
        this._mark();
      },
      choose: nodes => this._view.select(nodes),
      reveal: node => {
        if (!this._view.reveal(node)) {
          this._view.say('This page has no editor to open the line in.');
        }
      }
    };
    this._cell = new CellSide(sides);
    this._generated = new TextSide(sides);
    this._editor = new Editor('Text of the kernel', draft => this._drafted(draft), () => this._try());
    this._picker.setAttribute('aria-label', 'Kernel');
    this._picker.addEventListener('change', () => this._pick(this._picker.value, true));
    asRegion(this._result, 'Result of the edit');
    this._result.setAttribute('aria-live', 'polite');
    this.element.append(
      this._tools,
      el('div', 'jp-MaxLab-sourceSides', this._cell.element, el('div', 'jp-MaxLab-sourceMain', this._result, this._right))
    );
  }

  update(): void {
    this._when.update();
  }

  shown(isShown: boolean): void {
    this._when.shown(isShown);
  }

  selected(ids: readonly string[]): void {
    const kernel = this._kernelOf(ids);
    // A text that is being edited stays in front, whatever is selected elsewhere.
    if (kernel !== null && kernel !== this._kernel && !this._isEditing && this._when.isShown) {
      this._pick(kernel.id, false);
    }
    this._mark();
    if (this._text.value !== null) {
      this._generated.reveal(new Set(ids));
    }
  }

  resized(): void {
    // The browser lays the text out.
  }

  dispose(): void {
    this._text.clear();
    this._trial.clear();
    this._editor.dispose();
    this.element.remove();
  }

  private _kernelOf(ids: readonly string[]): IKernel | null {
    for (const id of ids) {
      const kernel = this._view.model.node(id)?.kernels[0];
      if (kernel !== undefined) {
        return kernel;
      }
    }
    return null;
  }

  /** Shows the kernel of the selection, the one that was shown, or the slowest. */
  private _load(): void {
    const { model, timing } = this._view;
    const names = [...model.kernels.values()].map(kernel => {
      const option = el('option', '', kernel.id === kernel.name ? kernel.id : `${kernel.id} · ${kernel.name}`);
      option.value = kernel.id;
      return option;
    });
    this._picker.replaceChildren(...names);
    const known = model.kernels.get(this._kernel?.id ?? '');
    const slowest = model.kernels.get(timing.kernels[0]?.id ?? '');
    const [first] = [...model.kernels.values()];
    const kernel = this._isEditing ? known : (this._kernelOf(this._view.selection) ?? known ?? slowest ?? first);
    if (kernel !== undefined) {
      this._pick(kernel.id, false);
    }
  }

  private _pick(id: string, isChosen: boolean): void {
    const kernel = this._view.model.kernels.get(id);
    if (kernel === undefined) {
      return;
    }
    if (this._isEditing && kernel.id !== this._kernel?.id) {
      this._isEditing = false;
    }
    if (kernel.id !== this._kernel?.id) {
      this._trial.clear();
      this._isNext = false;
      this._result.replaceChildren();
    }
    this._kernel = kernel;
    this._picker.value = kernel.id;
    this._cell.show(this._view.model, kernel);
    this._fetch(kernel);
    if (isChosen) {
      this._view.select(kernel.nodes);
    }
  }

  /** Asks for the text; where nobody answers, what is in the document is shown. */
  private _fetch(kernel: IKernel): void {
    if (this._view.notLive === null) {
      void this._text.ask({ kernel: kernel.id });
    } else {
      this._text.clear();
      this._gotText();
    }
  }

  private _gotText(): void {
    const kernel = this._kernel;
    if (kernel === null) {
      return;
    }
    const got = this._text.value;
    if (got !== null && got.kernel === kernel.id) {
      // The inspector shows this text as well.
      kernel.source = got.source;
      kernel.lines = got.lines;
    }
    this._tool();
    if (this._isEditing) {
      return;
    }
    if (kernel.source !== null) {
      this._generated.show(kernel, this._language());
      this._right.replaceChildren(this._generated.element);
      this._mark();
      requestAnimationFrame(() => this._generated.reveal(new Set(this._view.selection)));
      return;
    }
    const placeholder = this._view.notLive === null ? this._text.placeholder('Fetching the generated text…') : null;
    const reason = `The generated ${this._language()} is not in this snapshot.`;
    this._right.replaceChildren(placeholder ?? el('p', 'jp-MaxLab-panelNote jp-MaxLab-note', reason));
  }

  private _language(): string {
    return this._kernel === null ? 'code' : languageOf(this._kernel);
  }

  private _mark(): void {
    const selected = new Set(this._view.selection);
    this._cell.mark(this._pointed, selected);
    this._generated.mark(this._pointed, selected);
  }

  // --- editing ----------------------------------------------------------------------------------

  private _edit(): void {
    const source = this._kernel?.source ?? null;
    if (this._kernel === null || source === null) {
      return;
    }
    this._isEditing = true;
    this._editor.set(this._drafts.get(this._kernel.id) ?? source, source);
    this._right.replaceChildren(this._editor.element);
    this._tool();
    this._editor.area.focus();
  }

  private _drafted(draft: string): void {
    if (this._kernel !== null) {
      this._drafts.set(this._kernel.id, draft);
      this._markStale();
      this._tool();
    }
  }

  private _close(): void {
    this._isEditing = false;
    this._isNext = false;
    this._gotText();
  }

  private _try(): void {
    const kernel = this._kernel;
    if (kernel !== null && this._isEditing && this._trial.isAsking) {
      this._isNext = true;
      this._view.say(NEXT);
      this._showTrial();
    } else if (kernel !== null && this._isEditing) {
      this._isNext = false;
      this._editor.setErrors([]);
      this._tried = this._editor.text;
      this._drafts.set(kernel.id, this._tried);
      void this._trial.ask({ kernel: kernel.id, source: this._tried });
    }
  }

  private _gotTrial(): void {
    if (this._isNext && !this._trial.isAsking && this._isEditing) {
      this._try();
      return;
    }
    const trial = this._trial.value;
    this._showTrial();
    if (trial !== null) {
      this._editor.setErrors(trial.errors);
      this._view.say(headline(trial));
    }
    this._tool();
  }

  /** Shows the verdict of the newest trial, or what is waited for. */
  private _showTrial(): void {
    const trial = this._trial.value;
    const waiting = 'Compiling, checking against the reference and measuring in turns…';
    const { isAsking } = this._trial;
    this._result.replaceChildren(
      trial === null
        ? (this._trial.placeholder(waiting) ?? '')
        : trialView(trial, (line, column) => this._editor.goTo(line, column)),
      ...(isAsking && this._isNext ? [el('p', 'jp-MaxLab-panelNote', NEXT)] : [])
    );
    this._markStale();
  }

  /** Says whether the verdict is of the text that stands in the editor. */
  private _markStale(): void {
    const kernel = this._kernel;
    const isStale =
      kernel !== null && this._trial.value !== null && this._drafts.get(kernel.id) !== this._tried;
    this._result.classList.toggle('jp-mod-stale', isStale);
    if (isStale) {
      this._stale.textContent = 'Of an earlier text: Ctrl+Enter checks the one that stands here now.';
      this._result.prepend(this._stale);
    } else {
      this._stale.remove();
    }
  }

  /** Keeps the last edit in the model, or goes back to what the compiler made. */
  private async _end(isKept: boolean): Promise<void> {
    const kernel = this._kernel;
    if (kernel === null) {
      return;
    }
    const what = isKept ? 'keep' : 'discard';
    try {
      // A draft that was never tried is known here only.
      const isLocal = !isKept && this._trial.value === null && this._text.value?.edited !== true;
      const message = isLocal
        ? 'The draft is gone.'
        : (await this._view.ask(what, { kernel: kernel.id })).data.message;
      this._trial.clear();
      this._drafts.delete(kernel.id);
      this._isEditing = false;
      this._result.replaceChildren(el('p', 'jp-MaxLab-panelNote', message));
      this._view.say(message);
      this._fetch(kernel);
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error);
      this._result.replaceChildren(el('p', 'jp-MaxLab-panelNote', words));
      this._view.say(words);
    }
    this._tool();
  }

  private _tool(): void {
    const kernel = this._kernel;
    const { notLive } = this._view;
    const make = (title: string, label: string, run: () => void, isEnabled: boolean, isPrimary = false): HTMLElement => {
      const node = button(
        `jp-MaxLab-plainButton${isPrimary ? ' jp-mod-primary' : ''}`,
        title,
        run,
        label
      );
      node.disabled = !isEnabled;
      return node;
    };
    const held = document.activeElement;
    const focus = held instanceof HTMLElement && this._tools.contains(held) ? held.textContent : null;
    const trial = this._trial.value;
    const isBusy = this._trial.isAsking;
    const isSame = kernel !== null && this._drafts.get(kernel.id) === this._tried;
    const canKeep = trial?.can_keep === true && isSame;
    const isEdited = this._text.value?.edited === true;
    const isDraft = kernel !== null && this._drafts.has(kernel.id);
    const children: HTMLElement[] = [el('label', '', 'Kernel', this._picker)];
    if (isEdited) {
      children.push(el('strong', '', 'edited by hand'));
    } else if (isDraft && !this._isEditing) {
      children.push(el('span', '', 'has a draft'));
    }
    const why = notLive === null ? '' : ` This needs a running kernel: ${notLive}.`;
    if (this._isEditing) {
      const hint = isBusy ? 'Try the text of now when this trial is over' : 'Compile and check the edited text';
      const run = make(`${hint} (Ctrl+Enter)`, 'Compile & check', () => this._try(), notLive === null, true);
      children.push(run, make('Leave the editor; the draft stays', 'Close', () => this._close(), true));
    } else {
      // What torch runs is not generated: there is nothing to edit.
      const isGenerated = kernel?.language !== 'python' && (kernel?.source ?? null) !== null;
      const title = isGenerated
        ? `Edit the generated ${this._language()}.${why}`
        : 'This kernel has no generated text to edit.';
      const label = isDraft ? 'Edit draft' : 'Edit';
      children.push(make(title, label, () => this._edit(), notLive === null && isGenerated));
    }
    if (trial !== null || isDraft || isEdited) {
      if (trial !== null) {
        const title = canKeep
          ? 'Run the edited text in this model from now on'
          : isSame
            ? 'Only what is right can be kept'
            : 'The text has changed since: compile and check it again';
        children.push(make(title, 'Keep', () => void this._end(true), canKeep && !isBusy));
      }
      children.push(make('Throw the edit away', 'Discard', () => void this._end(false), !isBusy && notLive === null));
    }
    this._tools.replaceChildren(...children);
    if (focus !== null) {
      const again = [...this._tools.querySelectorAll<HTMLElement>('button, select')].find(
        node => node.textContent === focus
      );
      again?.focus();
    }
  }
}

export const sourcePanel = compiledPanel({
  id: 'source',
  title: 'Source',
  hint: 'Your code and the generated code side by side; edit, check, measure and keep a kernel',
  css: SOURCE_STYLES,
  uncompiled: 'Code is generated when the graph is compiled: press Profile, or load it in a session.',
  make: host => new SourcePanel(host)
});
