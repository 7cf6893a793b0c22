/** What is known of the entry that is marked in the palette: parameters, and an example to take along. */

import type { IAboutAnswer, IOfferedOp } from '../../proto/changes';
import { copyText } from './copying';
import { button, el } from './dom';

export interface IDetailHost {
  about(offer: IOfferedOp): Promise<IAboutAnswer>;
  /** Puts a program into a cell; null where no one can. */
  readonly insert: ((code: string) => boolean) | null;
  say(text: string): void;
}

/** Entries that are passed by are not asked for. */
const WAIT_MS = 120;

export class Detail {
  readonly element = el('div', 'jp-MaxLab-detail');
  /** The entry that is shown. */
  offer: IOfferedOp | null = null;
  private readonly _title = el('div', 'jp-MaxLab-detailTitle');
  private readonly _says = el('div', 'jp-MaxLab-detailSays');
  private readonly _parameters = el('dl', 'jp-MaxLab-detailParameters');
  private readonly _code = el('pre', 'jp-MaxLab-detailCode');
  private readonly _buttons = el('div', 'jp-MaxLab-detailButtons');
  private readonly _insert: HTMLButtonElement;
  private readonly _known = new Map<string, IAboutAnswer>();
  private _timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly _host: IDetailHost,
    left: () => void
  ) {
    const copy = button('jp-MaxLab-plainButton', 'Copy the example (Ctrl+C in the field)', () => void this._copy(), 'Copy example');
    this._insert = button('jp-MaxLab-plainButton', 'Insert the example as a cell below (Alt+Enter)', () => this.insert(), 'Insert as cell');
    this._insert.hidden = _host.insert === null;
    this._buttons.append(copy, this._insert);
    this.element.setAttribute('role', 'group');
    const text = el('div', 'jp-MaxLab-detailText', this._title, this._says, this._parameters, this._code);
    // It scrolls, by the keyboard too.
    text.tabIndex = 0;
    this.element.append(text, this._buttons);
    this.element.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        event.preventDefault();
        left();
      } else if (event.key !== 'Tab') {
        // Keys of the graph are none here.
        event.stopPropagation();
      }
    });
    this.show(null);
  }

  /** Other values are read now: what was known of entries may be otherwise. */
  forget(): void {
    this._known.clear();
  }

  show(offer: IOfferedOp | null): void {
    clearTimeout(this._timer);
    this.offer = offer;
    this.element.hidden = offer === null;
    if (offer === null) {
      return;
    }
    this.element.setAttribute('aria-label', `About ${offer.name}`);
    const gives = offer.result === '' ? `asks for ${offer.needs.join(', ')}` : `gives ${offer.result}`;
    this._title.replaceChildren(el('strong', '', offer.name), ' ', el('span', '', gives));
    const known = this._known.get(offer.name);
    if (known !== undefined) {
      this._fill(known);
      return;
    }
    this._fill({ version: 1, says: offer.says, parameters: [], example: '' });
    this._timer = setTimeout(() => void this._ask(offer), WAIT_MS);
  }

  private async _ask(offer: IOfferedOp): Promise<void> {
    try {
      const about = await this._host.about(offer);
      this._known.set(offer.name, about);
      if (this.offer === offer) {
        this._fill(about);
      }
    } catch {
      // What the list says of it is there.
    }
  }

  private _fill({ says, parameters, example }: IAboutAnswer): void {
    this._says.textContent = says;
    this._parameters.replaceChildren(
      ...parameters.flatMap(one => [
        el('dt', '', el('code', '', one.name), one.default === '' ? '' : ` = ${one.default}`),
        el('dd', '', one.says)
      ])
    );
    this._code.textContent = example;
    this._code.hidden = example === '';
    this._buttons.hidden = example === '';
  }

  private get _example(): string {
    return this._code.textContent ?? '';
  }

  private async _copy(): Promise<void> {
    const isDone = await copyText(this._example);
    this._host.say(isDone ? 'copied the example' : 'the browser does not let a page copy');
  }

  /** What the browser calls copying, while nothing is marked, copies the example. */
  copied(event: ClipboardEvent, input: HTMLInputElement): void {
    const isMarked =
      document.activeElement === input
        ? input.selectionStart !== input.selectionEnd
        : document.getSelection()?.isCollapsed === false;
    if (!isMarked && this._example !== '' && event.clipboardData !== null) {
      event.clipboardData.setData('text/plain', this._example);
      event.preventDefault();
      this._host.say('copied the example');
    }
  }

  /** Puts the example into a cell of a notebook. */
  insert(): void {
    const { insert } = this._host;
    if (insert === null || this._example === '') {
      return;
    }
    this._host.say(insert(this._example) ? 'inserted the example as a cell' : 'there is no notebook to insert a cell into');
  }
}
