/** Test hook: every mounted dashboard, reachable from a browser test. It reads, and drives nothing. */

export interface ITestDashboard {
  element: HTMLElement;
  readonly samples: number;
  readonly shown: { start: number; end: number };
  readonly isFollowing: boolean;
  readonly state: unknown;
  readonly marks: unknown[];
  /** Title and words of each chart. */
  charts(): Record<string, string>;
  /** The time that a chart draws. */
  drawn(title: string): { start: number; end: number } | null;
  /** How many pixels of a chart are neither its background nor its axes. */
  ink(title: string): number;
}

/** What is read of a dashboard. */
export interface IListedDashboard {
  readonly element: HTMLElement;
  readonly data: { readonly times: ArrayLike<number>; readonly state: unknown };
  readonly shown: { start: number; end: number };
  readonly range: { readonly isFollowing: boolean };
  readonly marks: Iterable<unknown>;
  readonly cards: readonly {
    readonly title: string;
    readonly words: string;
    readonly plot: {
      readonly drawn: { start: number; end: number } | null;
      readonly canvas: HTMLCanvasElement | null;
    } | null;
  }[];
}

function ink(canvas: HTMLCanvasElement | null): number {
  const pixels = canvas?.getContext('2d')?.getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let n = 0; pixels !== undefined && n < pixels.length; n += 4) {
    const [r = 0, g = 0, b = 0, alpha = 0] = pixels.subarray(n, n + 4);
    // Lines of data have a hue; axes and grids are grey.
    if (alpha > 40 && Math.max(r, g, b) - Math.min(r, g, b) > 40) {
      count += 1;
    }
  }
  return count;
}

/** Lists a dashboard under `window.__maxlabTest.dashboards`; returns how to take it off again. */
export function registerDashboard(dashboard: IListedDashboard): () => void {
  const registry = ((globalThis.__maxlabTest ??= { views: [] }).dashboards ??= []);
  const entry: ITestDashboard = {
    element: dashboard.element,
    get samples() {
      return dashboard.data.times.length;
    },
    get shown() {
      return dashboard.shown;
    },
    get isFollowing() {
      return dashboard.range.isFollowing;
    },
    get state() {
      return dashboard.data.state;
    },
    get marks() {
      return [...dashboard.marks];
    },
    charts: () => Object.fromEntries(dashboard.cards.map(card => [card.title, card.words])),
    drawn: title => dashboard.cards.find(card => card.title === title)?.plot?.drawn ?? null,
    ink: title => ink(dashboard.cards.find(card => card.title === title)?.plot?.canvas ?? null)
  };
  registry.push(entry);
  return () => {
    registry.splice(registry.indexOf(entry), 1);
  };
}
