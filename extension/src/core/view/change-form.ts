/** A form for what an operation needs, or has: one field for each parameter, errors beside them. */

import type { IChangeField, IWrongField } from '../../proto/changes';
import { button, el } from './dom';

export interface IFormHost {
  /** Names of values that fields may hold, with their types. */
  values(): readonly { name: string; type: string }[];
  /** The keyboard is to go back to the graph. */
  left(): void;
}

/** What was typed, by field; fields that still have the text they began with are left out. */
type Apply = (typed: Record<string, string>) => void;

/** Another way to use what was typed. */
export interface IOtherWay {
  label: string;
  apply: Apply;
}

let forms = 0;

export class ChangeForm {
  readonly element = el('form', 'jp-MaxLab-changeForm');
  private readonly _title = el('strong', 'jp-MaxLab-changeTitle');
  private readonly _fields = el('div', 'jp-MaxLab-changeFields');
  private readonly _wrong = el('div', 'jp-MaxLab-changeWrong');
  private readonly _values = el('datalist');
  private readonly _dtypes = el('datalist');
  private readonly _id = `jp-MaxLab-change-${(forms += 1)}`;
  private _inputs = new Map<string, { input: HTMLInputElement | HTMLSelectElement; was: string }>();
  private _apply: Apply = () => undefined;
  private readonly _other: HTMLButtonElement;
  private _otherWay: IOtherWay | null = null;

  constructor(private readonly _host: IFormHost) {
    this.element.hidden = true;
    this.element.noValidate = true;
    this._values.id = `${this._id}-values`;
    this._dtypes.id = `${this._id}-dtypes`;
    const apply = el('button', 'jp-MaxLab-button', 'Apply');
    apply.type = 'submit';
    apply.title = 'Apply (Enter)';
    apply.setAttribute('aria-label', apply.title);
    const cancel = button('jp-MaxLab-plainButton', 'Cancel (Esc)', () => this.close(), 'Cancel');
    this._other = button('jp-MaxLab-plainButton', 'Put it down unfinished', () => this._otherWay?.apply(this._typed()));
    this.element.append(
      this._title,
      this._fields,
      el('div', 'jp-MaxLab-changeEnd', apply, this._other, cancel),
      this._wrong,
      this._values,
      this._dtypes
    );
    this.element.addEventListener('submit', event => {
      event.preventDefault();
      this._apply(this._typed());
    });
    this.element.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        this.close();
      } else if (event.key === 'Enter' && event.target instanceof HTMLSelectElement) {
        // A field of words is applied as any other: browsers would open it.
        event.preventDefault();
        this.element.requestSubmit();
      }
    });
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  /** Opens the form, and gives the keyboard to its first field that needs something. */
  open(title: string, fields: readonly IChangeField[], apply: Apply, other: IOtherWay | null = null): void {
    this._apply = apply;
    this._otherWay = other;
    this._other.hidden = other === null;
    this._other.textContent = other?.label ?? '';
    this._other.title = other?.label ?? '';
    this._other.setAttribute('aria-label', other?.label ?? '');
    this._title.textContent = title;
    this.element.setAttribute('aria-label', title);
    this.wrong([]);
    this._values.replaceChildren(
      ...this._host.values().map(({ name, type }) => {
        const option = el('option', '', type);
        option.value = name;
        return option;
      })
    );
    this._inputs = new Map();
    const rows = fields.map((field, index) => this._row(field, index));
    this._fields.replaceChildren(...rows);
    this.element.hidden = false;
    const first = fields.find(field => field.needed && field.text === '') ?? fields[0];
    const input = first === undefined ? undefined : this._inputs.get(first.name)?.input;
    input?.focus();
    if (input instanceof HTMLInputElement) {
      input.select();
    }
  }

  close(): void {
    if (this.isOpen) {
      this.element.hidden = true;
      this._host.left();
    }
  }

  /** Says which texts cannot be read. */
  wrong(fields: readonly IWrongField[], other = ''): void {
    for (const [name, { input }] of this._inputs) {
      const said = fields.find(field => field.name === name)?.says ?? '';
      input.setAttribute('aria-invalid', String(said !== ''));
    }
    const known = fields.map(({ name, says }) => `${name}: ${says}`);
    // An alert only while it says something.
    this._wrong.toggleAttribute('hidden', known.length === 0 && other === '');
    if (this._wrong.hidden) {
      this._wrong.removeAttribute('role');
    } else {
      this._wrong.setAttribute('role', 'alert');
    }
    this._wrong.textContent = [...known, ...(other === '' ? [] : [other])].join('\n');
    const first = fields[0];
    if (first !== undefined) {
      this._inputs.get(first.name)?.input.focus();
    }
  }

  private _row(field: IChangeField, index: number): HTMLElement {
    const { name, kind, text, needed, choices, hint } = field;
    const id = `${this._id}-${index}`;
    let input: HTMLInputElement | HTMLSelectElement;
    if (kind === 'choice' && choices.length > 0) {
      input = el('select', 'jp-MaxLab-changeInput', ...choices.map(choice => el('option', '', choice)));
      input.value = text;
    } else {
      input = el('input', 'jp-MaxLab-changeInput');
      input.type = 'text';
      input.value = text;
      input.spellcheck = false;
      input.autocomplete = 'off';
      if (kind === 'value' || kind === 'values') {
        input.setAttribute('list', this._values.id);
      } else if (kind === 'dtype') {
        this._dtypes.replaceChildren(
          ...choices.map(choice => {
            const option = el('option');
            option.value = choice;
            return option;
          })
        );
        input.setAttribute('list', this._dtypes.id);
      }
    }
    input.id = id;
    input.title = hint;
    input.required = needed;
    const label = el('label', 'jp-MaxLab-changeLabel', name, needed ? el('span', 'jp-MaxLab-changeNeeded', ' needed') : null);
    label.htmlFor = id;
    this._inputs.set(name, { input, was: text });
    return el('div', 'jp-MaxLab-changeRow', label, input);
  }

  private _typed(): Record<string, string> {
    const typed: Record<string, string> = {};
    for (const [name, { input, was }] of this._inputs) {
      if (input.value !== was || (input.required && input.value === '')) {
        typed[name] = input.value;
      }
    }
    return typed;
  }
}
