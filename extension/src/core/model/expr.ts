/** Evaluates the size expressions of a document, such as `2*batch*seq*384`, without `eval`. */

import type { Quantity } from '../../proto/document';

const TOKEN = /\s*(?:(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|([A-Za-z_][\w.]*)|(\*\*|\/\/|[-+*/%(),]))/y;

type Dims = Readonly<Record<string, number>>;

class Parser {
  private readonly _tokens: string[] = [];
  private _at = 0;

  constructor(
    text: string,
    private readonly _dims: Dims
  ) {
    TOKEN.lastIndex = 0;
    while (TOKEN.lastIndex < text.length) {
      const start = TOKEN.lastIndex;
      const match = TOKEN.exec(text);
      if (match === null) {
        if (text.slice(start).trim() === '') {
          break;
        }
        throw new SyntaxError(`cannot read ${text}`);
      }
      this._tokens.push(match[0].trim());
    }
  }

  parse(): number {
    const value = this._sum();
    if (this._at !== this._tokens.length) {
      throw new SyntaxError('trailing text');
    }
    return value;
  }

  private _take(...wanted: string[]): string | undefined {
    const token = this._tokens[this._at];
    if (token !== undefined && wanted.includes(token)) {
      this._at += 1;
      return token;
    }
    return undefined;
  }

  private _sum(): number {
    let value = this._product();
    for (let op = this._take('+', '-'); op !== undefined; op = this._take('+', '-')) {
      const right = this._product();
      value = op === '+' ? value + right : value - right;
    }
    return value;
  }

  private _product(): number {
    let value = this._unary();
    for (;;) {
      const op = this._take('*', '/', '//', '%');
      if (op === undefined) {
        return value;
      }
      const right = this._unary();
      if (op === '*') {
        value *= right;
      } else if (op === '/') {
        value /= right;
      } else if (op === '//') {
        value = Math.floor(value / right);
      } else {
        value -= right * Math.floor(value / right);
      }
    }
  }

  private _unary(): number {
    if (this._take('-') !== undefined) {
      return -this._unary();
    }
    const base = this._atom();
    return this._take('**') !== undefined ? base ** this._unary() : base;
  }

  private _atom(): number {
    const token = this._tokens[this._at++];
    if (token === undefined) {
      throw new SyntaxError('unexpected end');
    }
    if (token === '(') {
      const value = this._sum();
      this._expect(')');
      return value;
    }
    if (/^\d/.test(token)) {
      return Number(token);
    }
    if ((token === 'min' || token === 'max') && this._take('(') !== undefined) {
      const values = [this._sum()];
      while (this._take(',') !== undefined) {
        values.push(this._sum());
      }
      this._expect(')');
      return token === 'min' ? Math.min(...values) : Math.max(...values);
    }
    const size = Object.prototype.hasOwnProperty.call(this._dims, token)
      ? this._dims[token]
      : undefined;
    if (size === undefined) {
      throw new ReferenceError(token);
    }
    return size;
  }

  private _expect(token: string): void {
    if (this._take(token) === undefined) {
      throw new SyntaxError(`expected ${token}`);
    }
  }
}

/** The number that `quantity` stands for under `dims`; null when unknown or not evaluable. */
export function evaluate(quantity: Quantity | undefined, dims: Dims): number | null {
  if (quantity === null || quantity === undefined || typeof quantity === 'number') {
    return quantity ?? null;
  }
  try {
    const value = new Parser(quantity, dims).parse();
    return Number.isFinite(value) ? value : null;
  } catch {
    return null;
  }
}
