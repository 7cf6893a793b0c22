/** A menu of commands that opens below or beside a place of a view, and takes the keyboard meanwhile. */

import { el } from './dom';

export interface IMenuItem {
  label: string;
  /** What screen readers hear; the label where it is left out. */
  name?: string;
  isEnabled: boolean;
  /** Whether it is switched on; null for what is no switch. */
  isOn: boolean | null;
  run(): void;
}

/** A menu is no lower than this, however low the view is. */
const LEAST_PX = 90;

/** Opens a menu in `room`, below `anchor`; returns how to close it. */
export function openMenu(
  room: HTMLElement,
  anchor: HTMLElement,
  items: readonly IMenuItem[],
  closed: () => void
): () => void {
  const element = el('div', 'jp-MaxLab-menu');
  element.setAttribute('role', 'menu');
  element.setAttribute('aria-label', anchor.getAttribute('aria-label') ?? 'Menu');
  let isOpen = true;
  const close = (): void => {
    if (isOpen) {
      isOpen = false;
      document.removeEventListener('pointerdown', outside, true);
      element.remove();
      closed();
    }
  };
  const outside = (event: Event): void => {
    const { target } = event;
    if (target instanceof Node && !element.contains(target) && !anchor.contains(target)) {
      close();
    }
  };
  const rows = items.map(item => {
    const row = el('button', 'jp-MaxLab-menuItem', item.label);
    row.type = 'button';
    row.tabIndex = -1;
    row.setAttribute('role', 'menuitem');
    row.setAttribute('aria-label', item.name ?? item.label);
    row.setAttribute('aria-disabled', String(!item.isEnabled));
    row.classList.toggle('jp-mod-on', item.isOn === true);
    row.addEventListener('click', () => {
      if (item.isEnabled) {
        close();
        anchor.focus();
        item.run();
      }
    });
    return row;
  });
  element.append(...rows);
  element.addEventListener('keydown', event => {
    const at = rows.findIndex(row => row === document.activeElement);
    const to: Record<string, number> = {
      ArrowDown: (at + 1) % rows.length,
      ArrowUp: (at + rows.length - 1) % rows.length,
      Home: 0,
      End: rows.length - 1
    };
    const next = to[event.key];
    if (next !== undefined) {
      rows[next]?.focus();
    } else if (event.key === 'Escape' || event.key === 'Tab') {
      close();
      anchor.focus();
    } else if (event.key !== 'Enter' && event.key !== ' ') {
      return;
    }
    event.stopPropagation();
    if (event.key !== 'Enter' && event.key !== ' ') {
      event.preventDefault();
    }
  });
  room.append(element);
  place(room, anchor, element);
  document.addEventListener('pointerdown', outside, true);
  rows[0]?.focus();
  return close;
}

/** Below the anchor, or above it where there is no room, and within the sides of the view. */
function place(room: HTMLElement, anchor: HTMLElement, element: HTMLElement): void {
  const outer = room.getBoundingClientRect();
  const box = anchor.getBoundingClientRect();
  // A page that is zoomed by CSS measures in other pixels than it is laid out in.
  const scale = room.offsetWidth > 0 ? outer.width / room.offsetWidth : 1;
  const right = (box.right - outer.left) / scale;
  const below = (box.bottom - outer.top) / scale + 4;
  const top = (box.top - outer.top) / scale - 4;
  // In a low view it is no higher than the room on the side that has more of it, and scrolls.
  const most = Math.max(room.clientHeight - below, top) - 4;
  if (room.clientHeight > 0 && element.offsetHeight > most) {
    element.style.maxHeight = `${Math.max(LEAST_PX, most)}px`;
  }
  const above = top - element.offsetHeight;
  const left = Math.max(4, Math.min(right - element.offsetWidth, room.clientWidth - element.offsetWidth - 4));
  const isAbove = below + element.offsetHeight > room.clientHeight && above >= 0;
  element.style.left = `${left}px`;
  element.style.top = `${isAbove ? above : below}px`;
}
