/**
 * Editing: a strip below the toolbar that adds operations, changes what is there, takes steps back and
 * runs the graph. The graph itself is in the kernel, which does each step whole or not at all; what it
 * shows afterwards comes as any other document.
 */

import type { IChangeAnswer, IChangeArgs, IChangeField, IOfferArgs, IOfferedOp } from '../../proto/changes';
import type { IQuestions, QuestionName } from '../../proto/questions';
import type { GraphModel } from '../model/graph';
import type { IEdge, IItem } from '../model/scene';
import { messageOf } from '../narrow';
import { ChangeForm } from './change-form';
import { button, el } from './dom';
import type { Announcer } from './hud';
import { Palette } from './palette';
import type { IAnswer } from './panel';
import { RanCard } from './ran';

export interface IEditingHost {
  readonly model: GraphModel;
  readonly announcer: Announcer;
  /** Keys of the selected items: operations, boxes, inputs (`in:`) and outputs (`out:`). */
  readonly chosen: readonly string[];
  /** Ids of the selected operations, with those inside of boxes. */
  readonly selection: readonly string[];
  readonly edge: IEdge | null;
  readonly canProfile: boolean;
  readonly stage: { readonly element: HTMLElement };
  readonly tree: { readonly active: IItem | null; focus(): void };
  select(ids: readonly string[]): void;
  execute(command: string): boolean;
  refresh(): void;
}

type Ask = <K extends QuestionName>(
  what: K,
  args: IQuestions[K]['args']
) => Promise<IAnswer<IQuestions[K]['answer']>>;

type Place = Pick<IOfferArgs, 'way' | 'on' | 'op' | 'operand'>;
type Do = IChangeArgs['do'];

const field = (name: string, kind: IChangeField['kind'], text: string, hint: string, needed = false): IChangeField => ({
  name,
  kind,
  text,
  needed,
  choices: [],
  hint
});

const NAME = field('name', 'text', '', 'letters, digits and _; may be left out');
const INPUT_FIELDS = [NAME, field('type', 'type', '', 'a dtype and sizes, such as float32[batch, 8]', true)];
const CONSTANT_FIELDS = [
  NAME,
  field('type', 'type', '', 'a dtype and sizes that are numbers, such as float32[8, 16]', true),
  field('scale', 'data', '0.1', 'how far the numbers lie from 0'),
  field('seed', 'data', '0', 'a whole number')
];

export class Editing {
  readonly element = el('div', 'jp-MaxLab-editing');
  readonly ran: RanCard;
  private readonly _palette: Palette;
  private readonly _form: ChangeForm;
  private readonly _said = el('span', 'jp-MaxLab-stripSaid');
  private readonly _buttons = new Map<string, HTMLButtonElement>();
  private _isOn = false;
  private _way: 'add' | 'replace' = 'add';
  private _place: Place = { way: 'add', on: [], op: '', operand: 0 };
  private _canUndo = false;
  private _canRedo = false;
  private _inputs: Record<string, string> = {};
  /** Changes are made one after the other, in the order in which they were asked for. */
  private _last: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly _host: IEditingHost,
    private readonly _ask: Ask
  ) {
    this.element.hidden = true;
    this._palette = new Palette({
      opened: () => void this._offer(),
      chosen: offer => void this._chosen(offer),
      left: () => this._leave()
    });
    this._form = new ChangeForm({
      values: () => this._values(),
      left: () => _host.tree.focus()
    });
    this.ran = new RanCard(() => _host.tree.focus());
    const strip = el('div', 'jp-MaxLab-strip', this._palette.element);
    strip.setAttribute('role', 'toolbar');
    strip.setAttribute('aria-label', 'Edit the graph');
    for (const [command, text, title] of [
      ['edit-replace', 'Replace', 'Replace the selected operation by another (Shift+R)'],
      ['edit-change', 'Change', 'Change what is selected: name, operands, attributes, type (F2)'],
      ['edit-duplicate', 'Copy', 'Copy the selected operations (Shift+D)'],
      ['edit-remove', 'Remove', 'Remove what is selected (Delete)'],
      ['edit-output', 'Output', 'Let the graph give what is selected (O)'],
      ['edit-input', '+ Input', 'Add an input'],
      ['edit-constant', '+ Constant', 'Add a constant of random numbers, as weights begin'],
      ['edit-undo', 'Undo', 'Undo the last step (U)'],
      ['edit-redo', 'Redo', 'Do the step again that was undone (Shift+U)'],
      ['edit-save', 'Save', 'Save the graph as a document (Shift+S)'],
      ['run', 'Run', 'Compile what changed and run the graph (X)']
    ] as const) {
      const node = button('jp-MaxLab-plainButton', title, () => {
        if (node.getAttribute('aria-disabled') !== 'true') {
          _host.execute(command);
        }
      });
      node.textContent = text;
      node.dataset.command = command;
      this._buttons.set(command, node);
      strip.append(node);
    }
    strip.append(this._said);
    this.element.append(strip, this._form.element);
  }

  get isOn(): boolean {
    return this._isOn;
  }

  get canUndo(): boolean {
    return this._isOn && this._canUndo;
  }

  get canRedo(): boolean {
    return this._isOn && this._canRedo;
  }

  /** Switches editing on, when the kernel has a graph to change, or off. */
  async toggle(): Promise<void> {
    if (this._isOn) {
      this._setOn(false);
      this._host.tree.focus();
      return;
    }
    const answer = await this._change({ do: 'look' });
    if (answer !== null) {
      this._setOn(true);
      this._say('editing: A adds an operation, F2 changes one, U takes a step back');
    }
  }

  /** Gives the keyboard to the palette; what is chosen is added, or takes the place of an operation. */
  open(way: 'add' | 'replace'): void {
    this._way = way;
    this._palette.input.focus();
    if (this._palette.input === document.activeElement && this._place.way !== way) {
      void this._offer();
    }
  }

  /** Shows what can be typed for the selected item. */
  async openChange(): Promise<void> {
    const item = this._one();
    if (item === null) {
      return;
    }
    try {
      const { data } = await this._ask('details', { item });
      this._form.open(`Change ${data.title}`, data.fields, fields => {
        if (Object.keys(fields).length === 0) {
          this._form.close();
        } else {
          void this._apply({ do: 'set', op: item, fields });
        }
      });
    } catch (error) {
      this._say(messageOf(error));
    }
  }

  openInput(): void {
    this._form.open('New input', INPUT_FIELDS, fields => void this._apply({ do: 'input', fields }));
  }

  openConstant(): void {
    this._form.open('New constant of random numbers', CONSTANT_FIELDS, fields =>
      void this._apply({ do: 'random', fields })
    );
  }

  remove(): Promise<unknown> {
    return this._change({ do: 'remove', on: this._items() });
  }

  duplicate(): Promise<unknown> {
    return this._change({ do: 'duplicate', on: [...this._host.selection] });
  }

  setOutputs(): Promise<unknown> {
    return this._change({ do: 'outputs', on: this._items() });
  }

  undo(): Promise<unknown> {
    return this._change({ do: 'undo' });
  }

  redo(): Promise<unknown> {
    return this._change({ do: 'redo' });
  }

  /** Whether something is selected that can be changed. */
  get hasItem(): boolean {
    return this._isOn && this._items().length > 0;
  }

  /** Asks for inputs, where the graph has any, and runs it. */
  openRun(): void {
    const { model } = this._host;
    const names = model.document.inputs.map(id => model.value(id)?.value.name ?? id);
    if (names.length === 0) {
      void this._run();
      return;
    }
    const fields = names.map(name =>
      field(name, 'text', this._inputs[name] ?? '', 'a variable of the notebook or an .npy file; random numbers if left out')
    );
    this._form.open('Run with', fields, typed => {
      this._inputs = { ...this._inputs, ...typed };
      void this._run();
    });
  }

  /** What is shown has changed: buttons say what can be done now. */
  update(): void {
    const enable = (command: string, isEnabled: boolean): void =>
      this._buttons.get(command)?.setAttribute('aria-disabled', String(!isEnabled));
    const hasItem = this.hasItem;
    enable('edit-replace', this._host.selection.length === 1);
    enable('edit-change', this._one() !== null);
    enable('edit-duplicate', this._host.selection.length > 0);
    enable('edit-remove', hasItem);
    enable('edit-output', hasItem);
    enable('edit-undo', this._canUndo);
    enable('edit-redo', this._canRedo);
    enable('run', this._host.canProfile);
  }

  /** Asks for a path, and saves the graph there. */
  openSave(): void {
    const path = `${this._host.model.document.name || 'graph'}.mlgraph`;
    const fields = [field('path', 'text', path, 'a path of the kernel: from its folder, or a whole one', true)];
    this._form.open('Save as', fields, typed => void this._apply({ do: 'save', fields: { path, ...typed } }));
  }

  private async _run(): Promise<void> {
    this._say('running …');
    try {
      const inputs = Object.fromEntries(
        Object.entries(this._inputs).filter(([name]) => this._valueNamed(name))
      );
      const { data } = await this._ask('run', { inputs });
      this.ran.show(data);
      this._form.close();
      this._say(`ran; it gives ${data.outputs.map(({ name, type }) => `${name}, ${type}`).join('; ')}`);
    } catch (error) {
      this._failed(error);
    }
  }

  private _valueNamed(name: string): boolean {
    const { model } = this._host;
    return model.document.inputs.some(id => (model.value(id)?.value.name ?? id) === name);
  }

  private _setOn(isOn: boolean): void {
    this._isOn = isOn;
    this.element.hidden = !isOn;
    // The menu of the graph has entries for editing while it is on.
    this._host.stage.element.toggleAttribute('data-editing', isOn);
    if (!isOn) {
      this._form.element.hidden = true;
      this.ran.close();
    }
    this._host.refresh();
  }

  private _leave(): void {
    this._way = 'add';
    this._host.tree.focus();
  }

  private _say(text: string): void {
    this._said.textContent = text;
    this._said.title = text;
    this._host.announcer.say(text);
  }

  /** Ids of the selected operations and values. */
  private _items(): string[] {
    return this._host.chosen.flatMap(key =>
      key.startsWith('box:') ? [] : [key.replace(/^(in|out):/, '')]
    );
  }

  /** Id of the selected operation or input; null unless one is selected. */
  private _one(): string | null {
    const [first, ...more] = this._host.chosen;
    if (!this._isOn || first === undefined || more.length > 0 || /^(box|out):/.test(first)) {
      return null;
    }
    return first.replace(/^in:/, '');
  }

  /** Names and ids by which fields know values. */
  private _values(): { name: string; type: string }[] {
    const { values } = this._host.model;
    const count = new Map<string, number>();
    for (const { value } of values) {
      const name = value.name ?? '';
      count.set(name, (count.get(name) ?? 0) + 1);
    }
    return values.map(({ value }) => {
      const name = value.name ?? '';
      return { name: name !== '' && count.get(name) === 1 ? name : value.id, type: value.type };
    });
  }

  /** Where what is chosen in the palette would go. */
  private _where(): Place {
    const { edge, selection, model } = this._host;
    if (this._way === 'replace') {
      return { way: 'replace', on: [], op: selection[0] ?? '', operand: 0 };
    }
    const value = edge === null ? undefined : model.values[edge.values[0] ?? -1];
    const reader = edge?.to?.node ?? null;
    if (value !== undefined && reader !== null) {
      const operand = Math.max(0, reader.node.operands.indexOf(value.value.id));
      return { way: 'insert', on: [], op: reader.node.id, operand };
    }
    if (value !== undefined && edge?.to?.kind === 'output') {
      return { way: 'insert', on: [], op: 'output', operand: model.document.outputs.indexOf(value.value.id) };
    }
    return { way: 'add', on: this._items(), op: '', operand: 0 };
  }

  private async _offer(): Promise<void> {
    const place = this._where();
    this._place = place;
    this._palette.explain('');
    this._palette.wait();
    try {
      const { data } = await this._ask('offer', place);
      if (this._place === place) {
        const words = { add: 'It reads', insert: 'On the edge, it reads', replace: 'In its place, reading' };
        this._palette.explain(`${words[place.way]} ${data.on}`);
        this._palette.show(data.offers);
      }
    } catch (error) {
      this._palette.show([]);
      this._palette.explain(messageOf(error));
    }
  }

  private async _chosen(offer: IOfferedOp): Promise<void> {
    const { way, on, op, operand } = this._place;
    const step = { do: way satisfies Do, name: offer.name, on, op, operand };
    this._way = 'add';
    if (offer.needs.length === 0) {
      this._host.tree.focus();
      await this._change(step);
    } else {
      this._form.open(`New ${offer.name}`, offer.fields, fields => void this._apply({ ...step, fields }));
    }
  }

  /** Makes the change that the form is for; it stays open while something is wrong. */
  private async _apply(args: Partial<IChangeArgs> & { do: Do }): Promise<void> {
    const answer = await this._change(args);
    if (answer !== null) {
      this._form.wrong(answer.wrong);
      if (answer.wrong.length === 0) {
        this._form.close();
      }
    }
  }

  private _change(args: Partial<IChangeArgs> & { do: Do }): Promise<IChangeAnswer | null> {
    const next = this._last.then(() => this._step(args));
    this._last = next;
    return next;
  }

  private async _step(args: Partial<IChangeArgs> & { do: Do }): Promise<IChangeAnswer | null> {
    try {
      const given = { name: '', on: [], op: '', operand: 0, fields: {}, ...args };
      const { data } = await this._ask('change', given);
      this._canUndo = data.can_undo;
      this._canRedo = data.can_redo;
      if (data.said !== '') {
        this._say(data.said);
      }
      if (data.select.length > 0) {
        this._host.select(data.select);
      }
      this._host.refresh();
      return data;
    } catch (error) {
      this._failed(error);
      return null;
    }
  }

  private _failed(error: unknown): void {
    const text = messageOf(error);
    if (this._form.isOpen) {
      this._form.wrong([], text);
    } else {
      this._host.announcer.hint(text.split('\n')[0] ?? text);
    }
    this._say(text.split('\n')[0] ?? text);
  }
}

/** The commands that edit a graph. */
export function addEditing(
  editing: () => Editing,
  add: (id: string, label: string, execute: () => void, isEnabled?: () => boolean) => void,
  canEdit: () => boolean
): void {
  const isOn = (): boolean => editing().isOn;
  const hasItem = (): boolean => editing().hasItem;
  add('toggle-edit', 'Edit the graph', () => void editing().toggle(), canEdit);
  add('edit-add', 'Add an operation', () => editing().open('add'), isOn);
  add('edit-replace', 'Replace the operation', () => editing().open('replace'), hasItem);
  add('edit-change', 'Change what is selected', () => void editing().openChange(), hasItem);
  add('edit-duplicate', 'Copy the operations', () => void editing().duplicate(), hasItem);
  add('edit-remove', 'Remove what is selected', () => void editing().remove(), hasItem);
  add('edit-output', 'Let the graph give what is selected', () => void editing().setOutputs(), hasItem);
  add('edit-input', 'Add an input', () => editing().openInput(), isOn);
  add('edit-constant', 'Add a constant of random numbers', () => editing().openConstant(), isOn);
  add('edit-undo', 'Undo', () => void editing().undo(), () => editing().canUndo);
  add('edit-redo', 'Redo', () => void editing().redo(), () => editing().canRedo);
  add('edit-save', 'Save the graph as a document', () => editing().openSave(), isOn);
  add('run', 'Run the graph', () => editing().openRun(), isOn);
}
