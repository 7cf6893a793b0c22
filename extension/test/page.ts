/** A page for tests of views: jsdom has no canvas, no sizes and no observers of them. */

import { StubContext } from './canvas';

export function installPage(): void {
  document.body.replaceChildren();
  HTMLCanvasElement.prototype.getContext = (() => new StubContext()) as never;
  for (const [name, size] of [['clientWidth', 900], ['clientHeight', 500]] as const) {
    Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => size });
  }
  globalThis.ResizeObserver = class {
    constructor(private readonly _call: () => void) {}
    observe(): void {
      this._call();
    }
    unobserve(): void {}
    disconnect(): void {}
  } as never;
}
