/** What browsers have and jsdom lacks, and code asks for as it is loaded or used. */

/** Gives `target` those of `members` that it lacks. */
function supply(target: object, members: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(members)) {
    if (Reflect.get(target, name) === undefined) {
      Object.defineProperty(target, name, { configurable: true, writable: true, value });
    }
  }
}

if (typeof window !== 'undefined') {
  const nothing = (): void => undefined;
  supply(window, {
    matchMedia: (media: string) => ({
      matches: false,
      media,
      addEventListener: nothing,
      removeEventListener: nothing
    })
  });
  // jsdom lays nothing out, so that there is nothing to scroll; its pointers are not captured.
  supply(Element.prototype, { scrollIntoView: nothing, setPointerCapture: nothing });
  supply(document, { execCommand: () => false });
}
