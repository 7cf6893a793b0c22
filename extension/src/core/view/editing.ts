/**
 * Editing: a strip below the toolbar that adds operations, changes what is there, takes steps back and
 * runs the graph. The graph itself is in the kernel, which does each step whole or not at all; what it
 * shows afterwards comes as any other document.
 */

import type { IChangeAnswer, IChangeArgs, IChangeField, IOfferArgs, IOfferedOp } from '../../proto/changes';
import type { IQuestions, QuestionName } from '../../proto/questions';
import { plural } from '../model/format';
import type { IEdge, IItem } from '../model/scene';
import { messageOf } from '../narrow';
import type { IRect } from '../render/camera';
import { Alone, NeedsKernelError, type IAlone } from './alone';
import { Beginning } from './beginning';
import { ChangeForm } from './change-form';
import { el } from './dom';
import { Palette, remember, type ICarried } from './palette';
import type { IAnswer } from './panel';
import { addPieces, Pieces, type IPiecesHost } from './pieces';
import { RanCard } from './ran';
import { Strip } from './strip';
import { Unanswered } from './unanswered';
import { Writing } from './writing';

export interface IEditingHost extends IPiecesHost {
  readonly edge: IEdge | null;
  readonly stage: { readonly element: HTMLElement };
  readonly tree: { readonly element: HTMLElement; readonly active: IItem | null; focus(): void };
  select(ids: readonly string[]): void;
  /** Selects what a change made, and brings it into view. */
  selectMade(ids: readonly string[]): void;
  /** Comments come before the graph where one of them has the keyboard. */
  readonly comments: { readonly focused: string; editFocused(): boolean; removeFocused(): boolean };
  execute(command: string): boolean;
  refresh(): void;
  /** Editing was switched on or off. */
  editingChanged(): void;
  /** The place that something has whose top left corner is drawn at a point of the stage. */
  placeAt(x: number, y: number): { x: number; y: number };
  /** A run failed at an operation, whose id is empty where a run went well. */
  ran(failedAt: string, says: string): void;
  /** The number of the first of some places on the stage at which something covers least. */
  freest(rects: readonly IRect[]): number;
  /** Makes a step of what is not one yet, if there is something. */
  settle(): void;
  readonly isUnsettled: boolean;
  /** Lists the ports of what is selected. */
  openPorts(): void;
  /** Drags an entry of the palette over the drawing. */
  carry(offer: IOfferedOp): ICarried;
  /** Puts a program into a cell of a notebook; null where the page has none. */
  readonly insertCode: ((code: string) => boolean) | null;
}

export type Ask = <K extends QuestionName>(
  what: K,
  args: IQuestions[K]['args']
) => Promise<IAnswer<IQuestions[K]['answer']>>;

export type Place = Pick<IOfferArgs, 'way' | 'on' | 'op' | 'operand'>;
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
  field('type', 'type', '', 'a dtype and sizes that are numbers, such as float32[8, 16]; of numbers that are given, theirs'),
  field('from', 'text', '', 'a variable of the notebook, an .npy file or weights.safetensors:name; random numbers if left out'),
  field('scale', 'data', '0.1', 'how far the numbers lie from 0'),
  field('seed', 'data', '0', 'a whole number')
];

/** Families of what is put down whole: it is more than one operation. */
const WHOLE: ReadonlySet<string> = new Set(['layer', 'snippet', 'kernel', 'subgraph']);

export class Editing {
  readonly element = el('div', 'jp-MaxLab-editing');
  readonly ran: RanCard;
  readonly pieces: Pieces;
  readonly beginning: Beginning;
  readonly writing: Writing;
  private readonly _palette: Palette;
  private readonly _form: ChangeForm;
  private readonly _alone = new Alone();
  private readonly _ask: Ask;
  private readonly _strip: Strip;
  private _isOn = false;
  private _saves: (() => void) | null = null;
  private _way: 'add' | 'replace' = 'add';
  private _place: Place = { way: 'add', on: [], op: '', operand: 0 };
  private _canUndo = false;
  private _canRedo = false;
  /** Where something is to be added that is no longer what is selected, until the palette closes. */
  private _spot: Place | null = null;
  /** Where it is drawn then. */
  private _at: { x: number; y: number } | null = null;
  private _inputs: Record<string, string> = {};
  /** Changes are made one after the other, in the order in which they were asked for. */
  private _last: Promise<unknown> = Promise.resolve();
  private readonly _unanswered = new Unanswered(() => this._host.model);

  constructor(
    private readonly _host: IEditingHost,
    ask: Ask
  ) {
    this._ask = this._alone.guarded(ask);
    this.element.hidden = true;
    this._palette = new Palette({
      opened: () => {
        if (this._refuse()) {
          this._host.tree.focus();
        } else {
          void this._offer();
        }
      },
      chosen: offer => void this._chosen(offer, this._place, this._at),
      carried: offer => _host.carry(offer),
      about: async ({ name }) => (await this._ask('about', { name, ...this._place })).data,
      insert: _host.insertCode,
      say: text => this.say(text),
      left: () => this._leave(),
      closed: () => {
        this._spot = null;
        this._at = null;
      }
    });
    this._form = new ChangeForm({
      values: () => this._values(),
      left: () => _host.tree.focus()
    });
    this.beginning = new Beginning(command => _host.execute(command));
    this.ran = new RanCard(
      () => _host.tree.focus(),
      rects => _host.freest(rects)
    );
    this.pieces = new Pieces(_host, this, this._ask);
    this.writing = new Writing({ say: text => this.say(text), left: () => _host.tree.focus() }, this._ask);
    this._strip = new Strip(this._palette.element, this._alone.element, command => _host.execute(command));
    this.element.append(this._strip.element, this._strip.gauge, this._form.element, this.writing.element);
  }

  get isOn(): boolean {
    return this._isOn;
  }

  /** Whether there is no kernel, and what is laid beside the graph can be changed all the same. */
  get isAlone(): boolean {
    return this._alone.given !== null;
  }

  /** Lets `given` answer where there is no kernel, and switches editing on. */
  async setAlone(given: IAlone): Promise<void> {
    if (this._alone.given !== given) {
      this._alone.given = given;
      this._form.close();
      await this.change({ do: 'look' });
      this._setOn(true);
    }
  }

  get canUndo(): boolean {
    return this._isOn && (this._canUndo || this._host.isUnsettled);
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
    const answer = await this.change({ do: 'look' });
    if (answer !== null) {
      this._setOn(true);
      this.say(
        this.isAlone
          ? 'laying out: drag things where they shall stand, Shift+P pins, M writes a comment, U takes a step back'
          : 'editing: A adds an operation, F2 changes one, U takes a step back'
      );
    }
  }

  /** Gives the keyboard to the palette; what is chosen is added, or takes the place of an operation. */
  open(way: 'add' | 'replace'): void {
    if (this._refuse()) {
      return;
    }
    this._way = way;
    this._palette.input.focus();
    if (this._palette.input === document.activeElement && this._place.way !== way) {
      void this._offer();
    }
  }

  /**
   * Opens the palette over the drawing, at a point of it in whose place what is chosen is drawn; it goes to
   * `place`, or to what is selected.
   */
  openAt(place: Place | null, x: number, y: number): void {
    if (this._refuse()) {
      return;
    }
    this._way = 'add';
    this._spot = place;
    this._at = this._host.placeAt(x, y);
    this._palette.openAt(this._host.stage.element, x, y);
  }

  /** Makes a change after those that were asked for before; why not, where it is refused. */
  attempt(args: Partial<IChangeArgs> & { do: Do }): Promise<string | null> {
    this._host.settle();
    const next = this._last.then(() => this._made(args)).then(() => null, messageOf);
    this._last = next;
    return next;
  }

  /** Shows what can be typed for the selected item. */
  async openChange(): Promise<void> {
    if (this._host.comments.editFocused()) {
      return;
    }
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
      this._failed(error);
    }
  }

  openPorts(): void {
    this._host.openPorts();
  }

  openInput(): void {
    if (this._refuse()) {
      return;
    }
    this._form.open('New input', INPUT_FIELDS, fields => void this._apply({ do: 'input', fields }));
  }

  openConstant(): void {
    if (this._refuse()) {
      return;
    }
    this._form.open('New constant', CONSTANT_FIELDS, fields =>
      void this._apply({ do: 'random', fields })
    );
  }

  async remove(): Promise<unknown> {
    if (this._host.comments.removeFocused()) {
      return null;
    }
    return this.change({ do: 'remove', on: this.items });
  }

  duplicate(): Promise<unknown> {
    return this.change({ do: 'duplicate', on: [...this._host.selection] });
  }

  setOutputs(): Promise<unknown> {
    return this.change({ do: 'outputs', on: this.items });
  }

  undo(): Promise<unknown> {
    return this.change({ do: 'undo' });
  }

  redo(): Promise<unknown> {
    return this.change({ do: 'redo' });
  }

  /** Whether something is selected that can be changed. */
  get hasItem(): boolean {
    return this._isOn && (this.items.length > 0 || this._host.comments.focused !== '');
  }

  /** Asks for inputs, where the graph has any, and runs it. */
  openRun(): void {
    if (this._refuse()) {
      return;
    }
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
    const { _strip: strip } = this;
    const hasItem = this.hasItem;
    const { nodes, inputs } = this._host.model.document;
    this.beginning.show(this._isOn && nodes.length === 0 && inputs.length === 0);
    strip.enable('edit-replace', this._host.selection.length === 1);
    strip.enable('edit-change', this._one() !== null);
    strip.enable('edit-duplicate', this._host.selection.length > 0);
    strip.enable('edit-group', this._host.selection.length > 0);
    strip.enable('edit-remove', hasItem);
    strip.enable('edit-output', hasItem);
    strip.enable('edit-undo', this._canUndo);
    strip.enable('edit-redo', this._canRedo);
    strip.enable('run', this._host.canProfile);
  }

  /** Saves the graph to the file that it is of, and that no cell built. */
  set saves(save: () => void) {
    if (this._saves === null) {
      this._strip.leaveOut('edit-write');
    }
    this._saves = save;
  }

  /** Whether a cell may have built the graph, and takes what it became. */
  get hasCell(): boolean {
    return this._isOn && this._saves === null;
  }

  /** Saves the graph: to its file, or to a path that is asked for. */
  openSave(): void {
    this._host.settle();
    if (this._saves !== null) {
      this._saves();
      return;
    }
    const path = `${this._host.model.document.name || 'graph'}.mlgraph`;
    const fields = [field('path', 'text', path, 'a path of the kernel: from its folder, or a whole one', true)];
    this._form.open('Save as', fields, typed => void this._apply({ do: 'save', fields: { path, ...typed } }));
  }

  private async _run(): Promise<void> {
    this.say('running …');
    try {
      const inputs = Object.fromEntries(
        Object.entries(this._inputs).filter(([name]) => this._valueNamed(name))
      );
      const { data } = await this._ask('run', { inputs });
      if (data.failed !== undefined) {
        const { op, says } = data.failed;
        this._form.close();
        this._host.select([op]);
        this._host.ran(op, says);
        throw new Error(says);
      }
      this._host.ran('', '');
      this.ran.show(data);
      this._form.close();
      const left = this._host.model.document.conflicts?.length ?? 0;
      const as = left === 0 ? '' : `, as 'ours' has it: ${plural(left, 'conflict')} of a merge left to decide`;
      this.say(`ran${as}; it gives ${data.outputs.map(({ name, type }) => `${name}, ${type}`).join('; ')}`);
    } catch (error) {
      this._failed(error);
    }
  }

  private _valueNamed(name: string): boolean {
    const { model } = this._host;
    return model.document.inputs.some(id => (model.value(id)?.value.name ?? id) === name);
  }

  /** Told that editing was switched on or off. */
  switched: (() => void) | null = null;

  private _setOn(isOn: boolean): void {
    this._host.settle();
    this._isOn = isOn;
    this._host.editingChanged();
    this.switched?.();
    this.element.hidden = !isOn;
    // The menu of the graph has entries for editing while it is on.
    this._host.stage.element.toggleAttribute('data-editing', isOn);
    if (!isOn) {
      this._form.element.hidden = true;
      this.writing.element.hidden = true;
      this.ran.close();
    }
    this._host.refresh();
  }

  private _leave(): void {
    this._way = 'add';
    this._host.tree.focus();
  }

  /** Says something in the strip, and to screen readers. */
  say(text: string): void {
    this._strip.say(text);
    this._host.announcer.say(text);
  }

  /** Asks for `fields`. */
  ask(title: string, fields: readonly IChangeField[], apply: (typed: Record<string, string>) => Promise<void>): void {
    if (this._refuse()) {
      return;
    }
    this._form.open(title, fields, typed => void apply(typed));
  }

  /** Closes the form, unless `answer` says that something is wrong. */
  close(answer: IChangeAnswer | null): void {
    if (answer !== null) {
      this._form.wrong(answer.wrong);
      if (answer.wrong.length === 0) {
        this._form.close();
      }
    }
  }

  /** Ids of the selected operations and values. */
  get items(): string[] {
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
    if (this._spot !== null) {
      return this._spot;
    }
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
    return { way: 'add', on: this.items, op: '', operand: 0 };
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

  /** Adds an entry that was dragged out of the palette: at a place, or with what the palette was opened for. */
  async drop(offer: IOfferedOp, place: Place | null, x: number, y: number): Promise<void> {
    remember(offer.name);
    if (place === null) {
      this._palette.clear();
      await this._chosen(offer, this._place, this._host.placeAt(x, y));
      return;
    }
    try {
      // It may be asked for something else there: what it reads is known now.
      const { data } = await this._ask('offer', place);
      const found = data.offers.find(({ name }) => name === offer.name);
      if (found === undefined) {
        this._failed(new Error(`${offer.name} does not fit there`));
        return;
      }
      this._palette.clear();
      await this._chosen(found, place, null);
    } catch (error) {
      this._failed(error);
    }
  }

  private async _chosen(offer: IOfferedOp, place: Place, at: { x: number; y: number } | null): Promise<void> {
    const { way, on, op, operand } = place;
    const places = at === null ? [] : [{ key: '', ...at, pinned: false }];
    const step = { do: way satisfies Do, name: offer.name, on, op, operand, places };
    this._way = 'add';
    if (offer.needs.length === 0) {
      this._host.tree.focus();
      await this.change(step);
    } else {
      const unfinished = {
        label: 'Put it down unfinished',
        apply: (fields: Record<string, string>) => void this._apply({ ...step, do: 'draft' as const, fields })
      };
      this._form.open(
        `New ${offer.name}`,
        offer.fields,
        fields => void this._apply({ ...step, fields }),
        way === 'add' && !WHOLE.has(offer.family) ? unfinished : null
      );
    }
  }

  /** Makes the change that the form is for; it stays open while something is wrong. */
  private async _apply(args: Partial<IChangeArgs> & { do: Do }): Promise<void> {
    this.close(await this.change(args));
  }

  change(args: Partial<IChangeArgs> & { do: Do }): Promise<IChangeAnswer | null> {
    this._host.settle();
    const next = this._unanswered.asked(
      args,
      this._last,
      () => this._made(args),
      error => this._failed(error)
    );
    this._last = next;
    return next;
  }

  dispose(): void {
    this._strip.dispose();
    this.pieces.dispose();
  }

  private async _made(args: Partial<IChangeArgs> & { do: Do }): Promise<IChangeAnswer> {
    const given = { name: '', on: [], op: '', operand: 0, fields: {}, ...args };
    const data = this._alone.change(given) ?? (await this._ask('change', given)).data;
    this._canUndo = data.can_undo;
    this._canRedo = data.can_redo;
    this._offerDrafts(given, data.refused?.drafts ?? 0);
    if (data.refused !== undefined) {
      throw new Error(data.refused.says);
    }
    if (data.said !== '') {
      this.say(data.said);
    }
    if (data.select.length > 0) {
      this._host.selectMade(data.select);
    }
    this._host.refresh();
    return data;
  }

  /** Offers to make a step with drafts that was refused without them. */
  private _offerDrafts(args: IChangeArgs, count: number): void {
    if (count === 0 && this._strip.isOnDrafts) {
      this._host.tree.focus();
    }
    const drafts = count === 1 ? 'a draft' : `${count} drafts`;
    const isOfReaders = args.do === 'remove' || args.op === '' || this._host.model.value(args.op) !== undefined;
    const doing = args.do === 'connect' ? 'Connect' : 'Change';
    const label = isOfReaders ? `Keep what reads it as ${drafts}` : `${doing} it all the same, with ${drafts}`;
    this._strip.offerDrafts(count === 0 ? '' : label, () => void this._apply({ ...args, fields: { ...args.fields, drafts: 'yes' } }));
  }

  /** Says that a kernel is needed where there is none; false where there is one. */
  private _refuse(): boolean {
    if (this.isAlone) {
      this._failed(new NeedsKernelError());
    }
    return this.isAlone;
  }

  private _failed(error: unknown): void {
    this._alone.offer(error);
    const text = messageOf(error);
    if (this._form.isOpen) {
      this._form.wrong([], text);
    } else {
      this._host.announcer.hint(text.split('\n')[0] ?? text);
    }
    this.say(text.split('\n')[0] ?? text);
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
  add('edit-connect', 'Connect the operation', () => editing().openPorts(), hasItem);
  add('edit-change', 'Change what is selected', () => void editing().openChange(), hasItem);
  add('edit-duplicate', 'Duplicate the operations', () => void editing().duplicate(), hasItem);
  add('edit-remove', 'Remove what is selected', () => void editing().remove(), hasItem);
  add('edit-output', 'Let the graph give what is selected', () => void editing().setOutputs(), hasItem);
  add('edit-input', 'Add an input', () => editing().openInput(), isOn);
  add('edit-constant', 'Add a constant', () => editing().openConstant(), isOn);
  add('edit-undo', 'Undo', () => void editing().undo(), () => editing().canUndo);
  add('edit-redo', 'Redo', () => void editing().redo(), () => editing().canRedo);
  add('edit-write', 'Write the edits to the cell', () => void editing().writing.open(), () => editing().hasCell);
  add('edit-unwrite', 'Take back what was written to the cell', () => editing().writing.undo(), () => editing().isOn && editing().writing.canUndo);
  add('edit-save', 'Save the graph as a document', () => editing().openSave(), isOn);
  addPieces(() => editing().pieces, isOn, hasItem, add);
  add('run', 'Run the graph', () => editing().openRun(), isOn);
}
