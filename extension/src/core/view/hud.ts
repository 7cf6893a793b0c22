/** Small things over the drawing: heat legend, breadcrumb, tooltip, zoom buttons, hints. */

import type { IBox } from '../model/boxes';
import type { Changes } from '../model/changes';
import type { IScale } from '../model/scale';
import { button, el, icon, type IconName } from './dom';
import { KEY_WORDS } from './keys';

export class Legend {
  readonly element = el('div', 'jp-MaxLab-legend');
  private _scale: IScale | null = null;

  /** What it says; null while it is hidden. */
  get scale(): IScale | null {
    return this._scale;
  }

  /** Says what the colours mean; nothing where that is null. */
  show(scale: IScale | null, chooser: HTMLElement | null = null): void {
    this._scale = scale;
    this.element.hidden = scale === null;
    if (scale === null) {
      return;
    }
    const { title, colors, note, isHatched } = scale;
    const parts: HTMLElement[] = [el('div', 'jp-MaxLab-legendTitle', chooser, title)];
    if (colors.length > 0) {
      const ticks = el('div', 'jp-MaxLab-legendTicks');
      for (const { at, text, share } of scale.ticks) {
        const tick = el('span', '', el('b', '', text), share);
        tick.style.left = `${at * 100}%`;
        ticks.append(tick);
      }
      parts.push(scaleBar(colors), ticks);
    }
    if (note !== '') {
      const hatch = isHatched ? el('span', 'jp-MaxLab-legendHatch') : null;
      parts.push(el('div', 'jp-MaxLab-legendNote', hatch, note));
    }
    this.element.replaceChildren(...parts);
  }
}

/** The colours of a scale from its lower end to its upper one. */
function scaleBar(ramp: readonly string[]): HTMLElement {
  const stops = ramp.filter((_, i) => i % 4 === 0 || i === ramp.length - 1);
  const bar = el('div', 'jp-MaxLab-legendBar');
  bar.style.background = `linear-gradient(to right, ${stops.join(', ')})`;
  return bar;
}

/** How much changed since the last run, and whether that is marked; a button that switches the marks. */
export class ChangesNote {
  readonly element: HTMLButtonElement;

  constructor(toggle: () => void) {
    this.element = button('jp-MaxLab-changes', 'Show the marks (C)', toggle);
    this.element.hidden = true;
  }

  show(changes: Changes, isShown: boolean): void {
    const { element } = this;
    element.hidden = changes.isEmpty;
    const { title } = changes;
    const since = 'since the last run';
    const action = `${isShown ? 'Hide' : 'Show'} the marks (C)`;
    element.title = action;
    element.setAttribute('aria-label', `${title} ${since}, ${action}`);
    element.setAttribute('aria-pressed', String(isShown));
    element.replaceChildren(
      el('span', 'jp-MaxLab-changesSwatch'),
      el('span', '', title),
      el('span', 'jp-MaxLab-changesDetails', ` ${since}`)
    );
  }
}

export class Breadcrumb {
  readonly element = el('nav', 'jp-MaxLab-crumbs');

  constructor(private readonly _go: (box: IBox) => void) {
    this.element.setAttribute('aria-label', 'Scope');
  }

  show(box: IBox | null): void {
    const chain: IBox[] = [];
    for (let at = box; at !== null; at = at.parent) {
      chain.unshift(at);
    }
    this.element.hidden = chain.length < 2;
    this.element.replaceChildren();
    chain.forEach((at, i) => {
      if (i > 0) {
        this.element.append(el('span', 'jp-MaxLab-crumbSep', '›'));
      }
      const label = at.kind === 'run' ? `${at.label} ×${at.children.length}` : at.label;
      this.element.append(button('jp-MaxLab-crumb', `Show ${label}`, () => this._go(at), label));
    });
  }
}

export class Tooltip {
  readonly element = el('div', 'jp-MaxLab-tooltip');

  constructor() {
    this.element.setAttribute('role', 'tooltip');
    this.element.hidden = true;
  }

  show(lines: readonly string[], x: number, y: number, width: number, height: number): void {
    const [title, ...rest] = lines;
    this.element.replaceChildren(
      el('strong', '', title ?? ''),
      ...rest.filter(Boolean).map(line => el('span', '', line))
    );
    this.element.hidden = false;
    const { offsetWidth, offsetHeight } = this.element;
    const left = x + 14 + offsetWidth > width ? x - 14 - offsetWidth : x + 14;
    const top = y + 16 + offsetHeight > height ? y - 12 - offsetHeight : y + 16;
    this.element.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  }

  hide(): void {
    this.element.hidden = true;
  }
}

/** A line at the bottom that goes away by itself; also what screen readers hear. */
export class Announcer {
  readonly element = el('div', 'jp-MaxLab-hint');
  readonly live = el('div', 'jp-MaxLab-live');
  private _timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.live.setAttribute('role', 'status');
    this.live.setAttribute('aria-live', 'polite');
    this.element.hidden = true;
  }

  say(text: string): void {
    this.live.textContent = text;
  }

  hint(text: string): void {
    this.element.textContent = text;
    this.element.hidden = false;
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      this.element.hidden = true;
    }, 1600);
  }

  dispose(): void {
    clearTimeout(this._timer);
  }
}

/** The buttons over a corner of the drawing: of the camera, and `others`. */
export function zoomButtons(run: (command: string) => void, ...others: HTMLElement[]): HTMLElement {
  const make = (command: string, title: string, name: IconName | null, text = ''): HTMLElement => {
    const node = button('jp-MaxLab-iconButton', title, () => run(command), text);
    if (name !== null) {
      node.append(icon(name));
    }
    return node;
  };
  const group = el(
    'div',
    'jp-MaxLab-zoom',
    make('zoom-in', 'Zoom in (+)', 'plus'),
    make('zoom-out', 'Zoom out (−)', 'minus'),
    make('fit', 'Fit the graph (F)', 'fit'),
    make('actual-size', 'Actual size (1)', null, '1:1'),
    make('camera-back', 'Back to where the camera was (Alt+←)', 'back'),
    make('camera-forward', 'Forward again (Alt+→)', 'forward'),
    ...others
  );
  group.setAttribute('role', 'group');
  group.setAttribute('aria-label', 'Zoom and selection');
  return group;
}

/** A card with the keys of each command, as `keysOf` gives them. */
export function helpCard(keysOf: (command: string) => readonly string[], close: () => void): HTMLElement {
  const list = el('dl', 'jp-MaxLab-facts');
  for (const [commands, what] of KEY_WORDS) {
    const keys = commands.flatMap(keysOf);
    if (keys.length > 0) {
      const term = el('dt');
      keys.forEach(key => term.append(el('kbd', '', key), ' '));
      list.append(term, el('dd', '', what));
    }
  }
  const done = button('jp-MaxLab-iconButton', 'Close', close);
  done.append(icon('close'));
  const card = el('div', 'jp-MaxLab-help', el('h2', '', 'Keys'), done, list);
  card.setAttribute('role', 'dialog');
  card.setAttribute('aria-label', 'Keys');
  return card;
}
