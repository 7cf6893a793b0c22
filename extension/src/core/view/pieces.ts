/**
 * Pieces of a graph: what is selected becomes a group, a group is put back, and operations are copied, cut
 * and pasted as a text, between the graphs of all notebooks and documents.
 */

import type { IChangeAnswer, IChangeArgs, IChangeField } from '../../proto/changes';
import type { IQuestions, QuestionName } from '../../proto/questions';
import { placesInGroup, placesOutOfGroup } from '../layout/regrouping';
import type { GraphModel } from '../model/graph';
import { plural } from '../model/format';
import type { IScene } from '../model/scene';
import { messageOf } from '../narrow';
import { copyText } from './copying';
import { Disposables } from './dom';
import type { Announcer } from './hud';
import type { IAnswer } from './panel';

export interface IPiecesHost {
  readonly model: GraphModel;
  readonly scene: IScene | null;
  readonly announcer: Announcer;
  readonly element: HTMLElement;
  /** Keys of the selected items: operations, boxes, inputs (`in:`) and outputs (`out:`). */
  readonly chosen: readonly string[];
  /** Ids of the selected operations, with those inside of boxes. */
  readonly selection: readonly string[];
  readonly canProfile: boolean;
  readonly tree: { readonly element: HTMLElement };
}

export interface IPiecesEditing {
  readonly isOn: boolean;
  /** Ids of the selected operations and values. */
  readonly items: readonly string[];
  say(text: string): void;
  change(args: Partial<IChangeArgs> & { do: IChangeArgs['do'] }): Promise<IChangeAnswer | null>;
  ask(title: string, fields: readonly IChangeField[], apply: (typed: Record<string, string>) => Promise<void>): void;
  close(answer: IChangeAnswer | null): void;
}

type Ask = <K extends QuestionName>(
  what: K,
  args: IQuestions[K]['args']
) => Promise<IAnswer<IQuestions[K]['answer']>>;

/** What was copied last where the browser did not let the page write to the clipboard. */
let kept: string | null = null;

const NAME: IChangeField = {
  name: 'name',
  kind: 'text',
  text: '',
  needed: false,
  choices: [],
  hint: 'letters, digits and _; a group that computes the same and has this name is shared'
};

/** Whether `text` may be a clip, or a graph that was saved. */
function isGraph(text: string): boolean {
  return text.trimStart().startsWith('{') || text.includes('"mo.graph"');
}

/** Whether text is marked in `root`, or a field has the keyboard: the browser copies and pastes there. */
function isText(root: HTMLElement): boolean {
  const { activeElement } = document;
  if (activeElement?.matches('input, textarea, select, [contenteditable="true"]') === true) {
    return true;
  }
  const marked = document.getSelection();
  return marked?.isCollapsed === false && root.contains(marked.anchorNode);
}

export class Pieces {
  private readonly _disposables = new Disposables();
  /** What was copied from this view, which is still selected when it is pasted. */
  private _copied = '';

  constructor(
    private readonly _host: IPiecesHost,
    private readonly _editing: IPiecesEditing,
    private readonly _ask: Ask
  ) {
    // Where nothing is marked, browsers send what the clipboard is asked for to the page's body.
    const listen = (name: 'copy' | 'cut' | 'paste', act: (event: ClipboardEvent) => boolean): void => {
      const heard = (event: ClipboardEvent): void => this._heard(event, act);
      document.addEventListener(name, heard, true);
      this._disposables.add(() => document.removeEventListener(name, heard, true));
    };
    listen('copy', () => this._start(this.canCopy, () => this.copy()));
    listen('cut', () => this._start(this._editing.isOn && this.canCopy, () => this.cut()));
    listen('paste', event => {
      const text = event.clipboardData?.getData('text/plain') ?? '';
      return this._start(this._editing.isOn, () => this.paste(text));
    });
  }

  get canCopy(): boolean {
    return this._host.canProfile && this._host.selection.length > 0;
  }

  /** Whether one group is selected, or one operation that stands in one. */
  get canDissolve(): boolean {
    const { chosen, selection, model } = this._host;
    const [first, ...more] = chosen;
    if (!this._editing.isOn || first === undefined || more.length > 0) {
      return false;
    }
    if (first.startsWith('box:')) {
      return true;
    }
    const node = selection[0] === undefined ? undefined : model.node(selection[0])?.node;
    return node !== undefined && node.scope !== '';
  }

  dispose(): void {
    this._disposables.dispose();
  }

  /** Asks what the group is called. */
  openGroup(): void {
    const on = [...this._host.selection];
    const { scene, model, chosen } = this._host;
    const items = scene === null ? [] : chosen.flatMap(key => scene.byKey.get(key) ?? []);
    const places = scene === null ? [] : placesInGroup(model, scene, items.filter(item => item.value === null));
    this._editing.ask(`Group ${plural(on.length, 'operation')}`, [NAME], async fields => {
      this._editing.close(await this._editing.change({ do: 'group', on, fields, places }));
    });
  }

  dissolve(): Promise<unknown> {
    const { scene, model, chosen, selection } = this._host;
    const [first = ''] = chosen;
    const item = scene?.byKey.get(first) ?? null;
    const box = item?.box === null ? item.parent : item;
    const places = scene === null || box === null ? [] : placesOutOfGroup(model, scene, box);
    return this._editing.change(
      first.startsWith('box:')
        ? { do: 'dissolve', op: first.slice('box:'.length), places }
        : { do: 'dissolve', on: [...selection], places }
    );
  }

  /** Copies what is selected; false where that was not possible. */
  async copy(): Promise<boolean> {
    const on = [...this._host.selection];
    try {
      const { data } = await this._ask('clip', { on });
      const isWritten = await copyText(data.text);
      kept = isWritten ? null : data.text;
      this._copied = on.join();
      this._editing.say(isWritten ? data.said : `${data.said}, for this page alone: the browser keeps the clipboard`);
      return true;
    } catch (error) {
      this._failed(error);
      return false;
    }
  }

  /** Copies what is selected as `print(graph)` writes it, for a text that people read. */
  async copyText(): Promise<void> {
    try {
      const { data } = await this._ask('clip', { on: [...this._host.selection] });
      const isWritten = await copyText(data.listing);
      this._editing.say(isWritten ? `${data.said} as text` : 'The browser does not let a page copy');
    } catch (error) {
      this._failed(error);
    }
  }

  async cut(): Promise<void> {
    const on = [...this._host.selection];
    if (await this.copy()) {
      await this._editing.change({ do: 'remove', on });
      this._copied = '';
    }
  }

  /** Pastes `text`, or what the clipboard has. What is selected is read, unless it was just copied. */
  async paste(text?: string): Promise<void> {
    try {
      const found = text ?? (await navigator.clipboard.readText());
      const given = kept === null || isGraph(found) ? found : kept;
      if (given.trim() === '') {
        this._editing.say('there is no text on the clipboard');
        return;
      }
      const isCopied = this._host.selection.join() === this._copied;
      const on = isCopied ? [] : [...this._editing.items];
      await this._editing.change({ do: 'paste', on, fields: { text: given } });
    } catch {
      this._failed(new Error('The browser does not let this page read the clipboard: press Ctrl+V in the graph'));
    }
  }

  private _heard(event: ClipboardEvent, act: (event: ClipboardEvent) => boolean): void {
    const { tree } = this._host;
    // Panels have tables and texts of their own to copy.
    if (!tree.element.contains(document.activeElement) || isText(this._host.element)) {
      return;
    }
    if (act(event)) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  private _start(isPossible: boolean, act: () => Promise<unknown>): boolean {
    if (isPossible) {
      void act();
    }
    return isPossible;
  }

  private _failed(error: unknown): void {
    const [text = ''] = messageOf(error).split('\n');
    this._host.announcer.hint(text);
    this._editing.say(text);
  }
}

/** The commands of pieces. */
export function addPieces(
  pieces: () => Pieces,
  isOn: () => boolean,
  hasItem: () => boolean,
  add: (id: string, label: string, execute: () => void, isEnabled?: () => boolean) => void
): void {
  add('edit-group', 'Group what is selected', () => pieces().openGroup(), hasItem);
  add('edit-dissolve', 'Dissolve the group', () => void pieces().dissolve(), () => pieces().canDissolve);
  add('edit-copy', 'Copy', () => void pieces().copy(), () => pieces().canCopy);
  add('edit-copy-text', 'Copy as text', () => void pieces().copyText(), () => pieces().canCopy);
  add('edit-cut', 'Cut', () => void pieces().cut(), () => isOn() && pieces().canCopy);
  add('edit-paste', 'Paste', () => void pieces().paste(), isOn);
}
