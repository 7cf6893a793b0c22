/** What browsers have and jsdom lacks, and code asks for as it is loaded. */

if (typeof window !== 'undefined') {
  window.matchMedia ??= ((media: string) => ({
    matches: false,
    media,
    addEventListener: () => undefined,
    removeEventListener: () => undefined
  })) as never;
}
