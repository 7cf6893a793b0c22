/** Small helpers to build DOM. Text always goes in as text: nothing from a document becomes markup. */

export type Child = Node | string | null | undefined | false;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = '',
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  if (className !== '') {
    node.className = className;
  }
  append(node, ...children);
  return node;
}

export function append(node: Element, ...children: Child[]): void {
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) {
      node.append(child);
    }
  }
}

/** A push button with a tooltip that is also its accessible name. */
export function button(
  className: string,
  title: string,
  onClick: () => void,
  ...children: Child[]
): HTMLButtonElement {
  const node = el('button', className, ...children);
  node.type = 'button';
  node.title = title;
  node.setAttribute('aria-label', title);
  node.addEventListener('click', onClick);
  return node;
}

const SVG = 'http://www.w3.org/2000/svg';

const PATHS = {
  area: 'M2 4V2h2M6.5 2h3M12 2h2v2M2 6.5v3M2 12v2h2M7 7l7 2.8-3 1.2L9.8 14z',
  fit: 'M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4',
  plus: 'M8 3v10M3 8h10',
  minus: 'M3 8h10',
  unfold: 'M4 6l4-4 4 4M4 10l4 4 4-4',
  fold: 'M4 2l4 4 4-4M4 14l4-4 4 4',
  edit: 'M3 13l.6-3L10.8 2.8a1.2 1.2 0 0 1 1.7 0l.7.7a1.2 1.2 0 0 1 0 1.7L6 12.4z',
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.8 10.8L14 14',
  flame: 'M8 14c3 0 4.5-2 4.5-4.5C12.5 6 9 5 8.5 1.5 6.5 3.5 6.8 5 6.8 6.5 5.5 6 5.3 5 5.3 5 4 6.5 3.5 8 3.5 9.5 3.5 12 5 14 8 14z',
  dock: 'M2 3h12v10H2zM2 9h12',
  panel: 'M2 3h12v10H2zM10 3v10',
  play: 'M4 3l9 5-9 5z',
  moveOut: 'M6 3H3v10h10v-3M9 2h5v5M14 2L7.5 8.5',
  putBack: 'M2 3h12v10H2zM2 9h12M8 2v4M6 4.5L8 6.5l2-2',
  close: 'M4 4l8 8M12 4l-8 8',
  more: 'M3.2 8h.01M8 8h.01M12.8 8h.01',
  copy: 'M6 2h8v8h-8zM10 10v4H2V6h4',
  back: 'M10 3L5 8l5 5',
  forward: 'M6 3l5 5-5 5',
  up: 'M4 10l4-4 4 4',
  down: 'M4 6l4 4 4-4',
  chip: 'M4 4h8v8H4zM6 1v3M10 1v3M6 12v3M10 12v3M1 6h3M1 10h3M12 6h3M12 10h3',
  help: 'M6 6a2 2 0 1 1 2.7 1.9c-.5.2-.7.6-.7 1.1v.5M8 12v.1'
} as const;

export type IconName = keyof typeof PATHS;

export function icon(name: IconName): SVGSVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('class', 'jp-MaxLab-icon');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', PATHS[name]);
  svg.append(path);
  return svg;
}

/** Functions to call when a view goes away. */
export class Disposables {
  private _calls: (() => void)[] = [];

  add(call: () => void): void {
    this._calls.push(call);
  }

  /** Listens to an element until the view goes away. */
  listen<K extends keyof HTMLElementEventMap>(
    target: HTMLElement,
    type: K,
    listener: (event: HTMLElementEventMap[K]) => void,
    options?: AddEventListenerOptions
  ): void {
    target.addEventListener(type, listener, options);
    this._calls.push(() => target.removeEventListener(type, listener, options));
  }

  /** Listens to anything else that emits events until the view goes away. */
  hear(target: EventTarget, type: string, listener: (event: Event) => void): void {
    target.addEventListener(type, listener);
    this._calls.push(() => target.removeEventListener(type, listener));
  }

  dispose(): void {
    const calls = this._calls;
    this._calls = [];
    for (const call of calls.reverse()) {
      call();
    }
  }
}

/** A minimal typed signal. */
export class Emitter<Events> {
  private _listeners: { [K in keyof Events]?: Set<(value: Events[K]) => void> } = {};

  on<K extends keyof Events>(name: K, listener: (value: Events[K]) => void): () => void {
    const set = (this._listeners[name] ??= new Set());
    set.add(listener);
    return () => set.delete(listener);
  }

  emit<K extends keyof Events>(name: K, value: Events[K]): void {
    for (const listener of [...(this._listeners[name] ?? [])]) {
      listener(value);
    }
  }

  clear(): void {
    this._listeners = {};
  }
}

/** Makes `node` a region called `label`, which the keyboard reaches: it scrolls. */
export function asRegion(node: HTMLElement, label: string): void {
  node.tabIndex = 0;
  node.setAttribute('role', 'region');
  node.setAttribute('aria-label', label);
}
