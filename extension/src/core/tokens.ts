/**
 * The tokens of an answer as buttons, in HTML that the kernel drew or that a notebook saved. One of them
 * is a stop of Tab; arrows go on from it, Enter chooses, and Escape lets go of what was chosen.
 */

const TOKENS = '.mx-rq-tokens';
const TOKEN = '.mx-rq-token';

export class TokenButtons {
  /**
   * @param place - What has the tokens in it.
   * @param _choose - Called with the place of a token that is chosen; with -1 where it is let go of.
   */
  constructor(
    place: Element,
    private readonly _choose: (token: number) => void
  ) {
    this._frame = place.querySelector<HTMLElement>(TOKENS);
    this._tokens = [...(this._frame?.querySelectorAll<HTMLElement>(TOKEN) ?? [])];
    // Arrows and Enter are those of the tokens, and none of the notebook's.
    this._frame?.setAttribute('data-lm-suppress-shortcuts', 'true');
    this._frame?.removeAttribute('tabindex');
    for (const token of this._tokens) {
      token.setAttribute('role', 'button');
      token.setAttribute('aria-pressed', 'false');
      token.setAttribute('aria-label', token.title);
      token.classList.add('mx-rq-button');
      token.tabIndex = -1;
    }
    const last = this._tokens[this._tokens.length - 1];
    if (last !== undefined) {
      last.tabIndex = 0;
    }
    this._frame?.addEventListener('click', this._clicked);
    this._frame?.addEventListener('keydown', this._pressed);
    if (last !== undefined) {
      this._explain();
    }
  }

  /** The number of tokens. */
  get count(): number {
    return this._tokens.length;
  }

  /** Draws the token at a place as chosen; -1 draws none so. */
  mark(place: number): void {
    for (const token of this._tokens) {
      token.setAttribute('aria-pressed', String(this._placeOf(token) === place));
    }
  }

  dispose(): void {
    this._frame?.removeEventListener('click', this._clicked);
    this._frame?.removeEventListener('keydown', this._pressed);
  }

  /** Says in the legend what a token does. */
  private _explain(): void {
    const parts = this._frame?.parentElement;
    const legend = parts?.querySelector('.mx-rq-legend') ?? document.createElement('ul');
    legend.className = 'mx-rq-legend';
    const item = document.createElement('li');
    item.textContent = 'a click on a token, or Enter: the graph of its step; arrows go to the others';
    legend.append(item);
    parts?.append(legend);
  }

  /** The place of a token in the answer, of which a page may have the last ones alone. */
  private _placeOf(token: HTMLElement): number {
    return Number(token.dataset['token'] ?? this._tokens.indexOf(token));
  }

  private readonly _clicked = (event: Event): void => {
    const token = event.target instanceof Element ? event.target.closest<HTMLElement>(TOKEN) : null;
    if (token !== null) {
      this._goTo(token);
      this._take(token);
    }
  };

  private readonly _pressed = (event: KeyboardEvent): void => {
    const token = event.target instanceof Element ? event.target.closest<HTMLElement>(TOKEN) : null;
    if (token === null || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const at = this._tokens.indexOf(token);
    const next: Record<string, () => HTMLElement | undefined> = {
      ArrowRight: () => this._tokens[at + 1],
      ArrowLeft: () => this._tokens[at - 1],
      ArrowDown: () => this._across(token, 1),
      ArrowUp: () => this._across(token, -1),
      Home: () => this._tokens[0],
      End: () => this._tokens[this._tokens.length - 1]
    };
    const found = next[event.key];
    if (found !== undefined) {
      const to = found();
      if (to !== undefined) {
        this._goTo(to);
      }
    } else if (event.key === 'Enter' || event.key === ' ') {
      this._take(token);
    } else if (event.key === 'Escape') {
      this._choose(-1);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  /** The nearest token in the line below (`1`) or above (`-1`). */
  private _across(from: HTMLElement, way: 1 | -1): HTMLElement | undefined {
    const middle = (one: HTMLElement): number => one.offsetLeft + one.offsetWidth / 2;
    const away = (one: HTMLElement): number => (one.offsetTop - from.offsetTop) * way;
    const beyond = this._tokens.filter(one => away(one) > 2);
    const nearest = Math.min(...beyond.map(away));
    const line = beyond.filter(one => away(one) <= nearest + 2);
    const off = (one: HTMLElement): number => Math.abs(middle(one) - middle(from));
    return line.sort((a, b) => off(a) - off(b))[0];
  }

  private _goTo(token: HTMLElement): void {
    for (const one of this._tokens) {
      one.tabIndex = one === token ? 0 : -1;
    }
    token.focus();
  }

  /** Chooses a token, or lets go of it where it is chosen. */
  private _take(token: HTMLElement): void {
    const isChosen = token.getAttribute('aria-pressed') === 'true';
    this._choose(isChosen ? -1 : this._placeOf(token));
  }

  private readonly _frame: HTMLElement | null;
  private readonly _tokens: HTMLElement[];
}
