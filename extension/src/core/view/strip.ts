/** The strip below the toolbar of a view that is edited: what can be done, and what was said last. */

import { button, el } from './dom';
import { Overflow } from './overflow';
import { Roving } from './roving';

/** Command, text and name of each button. */
const TOOLS = [
  ['run', 'Run', 'Compile what changed and run the graph (X)'],
  ['edit-replace', 'Replace', 'Replace the selected operation by another (Shift+R)'],
  ['edit-change', 'Change', 'Change what is selected: name, operands, attributes, type (F2)'],
  ['edit-duplicate', 'Duplicate', 'Add the selected operations once more (Shift+D)'],
  ['edit-group', 'Group', 'Make a group of the selected operations (G)'],
  ['edit-remove', 'Remove', 'Remove what is selected (Delete)'],
  ['edit-output', 'Output', 'Let the graph give what is selected (O)'],
  ['edit-input', '+ Input', 'Add an input'],
  ['edit-constant', '+ Constant', 'Add a constant: random numbers, as weights begin, a variable or a file'],
  ['edit-undo', 'Undo', 'Undo the last step (U or Ctrl+Z)'],
  ['edit-redo', 'Redo', 'Do the step again that was undone (Shift+U or Ctrl+Y)'],
  ['edit-write', 'Write to the cell', 'Write the edits to the cell that built the graph (Shift+W)'],
  ['edit-save', 'Save', 'Save the graph as a document (Shift+S)']
] as const;

export type Tool = (typeof TOOLS)[number][0];

/** Which go into the menu where there is no room, the last of them first: they have keys, or are rare. */
const KEPT: readonly Tool[] = [
  'run',
  'edit-undo',
  'edit-input',
  'edit-constant',
  'edit-change',
  'edit-remove',
  'edit-redo',
  'edit-output',
  'edit-group',
  'edit-replace',
  'edit-duplicate',
  'edit-write',
  'edit-save'
];

/** Of the strip with two rows of buttons. */
const TWO_ROWS_PX = 70;

export class Strip {
  readonly element = el('div', 'jp-MaxLab-strip');
  /** As wide as the strip, and of no height: what it watches must not change by what comes of it. */
  readonly gauge = el('div', 'jp-MaxLab-stripGauge');
  private readonly _said = el('span', 'jp-MaxLab-stripSaid');
  private readonly _drafts: HTMLButtonElement;
  private _withDrafts = (): void => undefined;
  private readonly _buttons = new Map<Tool, HTMLButtonElement>();
  private readonly _overflow: Overflow;
  private readonly _roving: Roving;

  /**
   * @param first what stands before the buttons.
   * @param last what stands behind them.
   * @param run does a command of the view.
   */
  constructor(first: HTMLElement, last: HTMLElement, run: (command: string) => unknown) {
    const { element } = this;
    element.setAttribute('role', 'toolbar');
    element.setAttribute('aria-label', 'Edit the graph');
    for (const [command, text, title] of TOOLS) {
      const node = button('jp-MaxLab-plainButton', title, () => {
        if (node.getAttribute('aria-disabled') !== 'true') {
          run(command);
        }
      });
      node.textContent = text;
      node.dataset.command = command;
      this._buttons.set(command, node);
    }
    this._drafts = button('jp-MaxLab-plainButton', 'Keep what reads it as drafts', () => this._withDrafts());
    this._drafts.hidden = true;
    this._roving = new Roving(element);
    this._overflow = new Overflow({
      row: element,
      room: () => element.closest<HTMLElement>('.jp-MaxLab-view') ?? element,
      buttons: () => KEPT.map(tool => this._buttons.get(tool)).filter(one => one !== undefined),
      name: 'More ways to edit',
      isFull: () => element.offsetHeight > TWO_ROWS_PX,
      watched: this.gauge,
      fitted: () => this._roving.update()
    });
    element.append(first, ...this._buttons.values(), this._overflow.more, this._drafts, last, this._said);
    this._roving.update();
  }

  enable(tool: Tool, isEnabled: boolean): void {
    this._buttons.get(tool)?.setAttribute('aria-disabled', String(!isEnabled));
  }

  /** Takes away what can be done nowhere here. */
  leaveOut(tool: Tool): void {
    this._buttons.get(tool)?.remove();
    this._buttons.delete(tool);
    this._overflow.fit();
    this._roving.update();
  }

  say(text: string): void {
    this._said.textContent = text;
    this._said.title = text;
  }

  /** Offers to `apply` a step with drafts that was refused without them; no longer for an empty label. */
  offerDrafts(label: string, apply: () => void): void {
    const { _drafts: node } = this;
    node.hidden = label === '';
    node.textContent = label;
    node.title = label;
    node.setAttribute('aria-label', label);
    this._withDrafts = apply;
    this._overflow.fit();
  }

  /** Whether the offer of drafts has the keyboard. */
  get isOnDrafts(): boolean {
    return this._drafts === document.activeElement;
  }

  dispose(): void {
    this._overflow.dispose();
  }
}
