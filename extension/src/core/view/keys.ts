/**
 * The keys of a graph view: one table for the view's own listener, for its list of keys, and for the
 * shortcuts that JupyterLab is given (`schema/keys.json`), where people can change them.
 */

export interface IKey {
  /** Id of a command of the view. */
  command: string;
  /**
   * Names of keys as the browser gives them, with `Alt+` or `Shift+` in front; `Accel+` is Ctrl, or Command
   * on a Mac.
   */
  keys: readonly string[];
  /** Only while the keyboard is in the graph: elsewhere buttons and lists have these keys. */
  isPlace: boolean;
}

const place = (command: string, ...keys: string[]): IKey => ({ command, keys, isPlace: true });
const view = (command: string, ...keys: string[]): IKey => ({ command, keys, isPlace: false });

export const KEYS: readonly IKey[] = [
  place('go-down', 'ArrowDown'),
  place('go-up', 'ArrowUp'),
  place('go-left', 'ArrowLeft'),
  place('go-right', 'ArrowRight'),
  place('go-parent', 'Alt+ArrowUp'),
  place('go-child', 'Alt+ArrowDown'),
  place('go-first', 'Home'),
  place('go-last', 'End'),
  place('extend-down', 'Accel+ArrowDown'),
  place('extend-up', 'Accel+ArrowUp'),
  place('extend-left', 'Accel+ArrowLeft'),
  place('extend-right', 'Accel+ArrowRight'),
  place('select-also', 's'),
  place('toggle-fold', 'Enter', ' '),
  view('reveal', 'Shift+Enter'),
  view('clear', 'Escape'),
  view('select-area', 'b'),
  view('search', '/'),
  view('next-match', 'n'),
  view('previous-match', 'Shift+N'),
  view('fold-level', '['),
  view('unfold-level', ']'),
  view('fit', 'f'),
  view('actual-size', '1'),
  view('zoom-in', '+', '='),
  view('zoom-out', '-'),
  view('camera-back', 'Alt+ArrowLeft'),
  view('camera-forward', 'Alt+ArrowRight'),
  view('toggle-direction', 'r'),
  view('toggle-heat', 'h'),
  view('hottest', 't'),
  view('toggle-chips', 'w'),
  view('toggle-changes', 'c'),
  view('profile', 'p'),
  view('toggle-edit', 'e'),
  view('edit-add', 'a'),
  view('edit-replace', 'Shift+R'),
  view('edit-connect', 'Shift+C'),
  view('edit-change', 'F2'),
  view('edit-duplicate', 'Shift+D'),
  view('edit-remove', 'Delete', 'Backspace'),
  view('edit-output', 'o'),
  view('edit-group', 'g'),
  view('edit-dissolve', 'Shift+G'),
  view('edit-undo', 'u', 'Accel+z'),
  view('edit-redo', 'Shift+U', 'Accel+Shift+Z', 'Accel+y'),
  view('edit-write', 'Shift+W'),
  view('edit-unwrite', 'Shift+V'),
  view('edit-save', 'Shift+S'),
  place('move-left', 'Shift+ArrowLeft'),
  place('move-right', 'Shift+ArrowRight'),
  place('move-up', 'Shift+ArrowUp'),
  place('move-down', 'Shift+ArrowDown'),
  view('toggle-pin', 'Shift+P'),
  view('lay-out', 'Shift+L'),
  view('comment', 'm'),
  view('run', 'x'),
  view('toggle-panel', 'i'),
  view('toggle-dock', 'd'),
  view('help', '?')
];

/** What the list of keys says, and the commands whose keys stand before it. */
export const KEY_WORDS: readonly (readonly [readonly string[], string])[] = [
  [['go-down', 'go-up', 'go-left', 'go-right'], 'follow an edge, or to the neighbour beside it'],
  [['extend-down', 'extend-up', 'extend-left', 'extend-right'], 'the same, and select it as well'],
  [['select-also'], 'select what has the keyboard as well, or no longer'],
  [['select-area'], 'select with a box that is dragged; Shift and a drag on an empty place do the same'],
  [['toggle-fold'], 'fold or unfold'],
  [['go-parent', 'go-child'], 'out of the box, into it'],
  [['go-first', 'go-last'], 'first, last'],
  [['reveal'], 'the line of code that wrote it'],
  [['search'], 'search; Enter and Shift+Enter go through the matches'],
  [['fold-level', 'unfold-level'], 'fold, unfold one level'],
  [['fit', 'actual-size', 'zoom-in', 'zoom-out'], 'fit, actual size, zoom'],
  [['camera-back', 'camera-forward'], 'back to where the camera was, forward again'],
  [['toggle-direction'], 'left to right, or top to bottom'],
  [['toggle-heat'], 'heat on or off'],
  [['hottest'], 'hottest kernel'],
  [['toggle-chips'], 'weights on or off'],
  [['toggle-changes'], 'changes since the last run on or off'],
  [['profile'], 'profile'],
  [['toggle-edit'], 'edit the graph, or stop'],
  [['edit-add', 'edit-replace'], 'add an operation, put another in its place'],
  [['edit-connect'], 'connect a port of what is selected'],
  [['edit-change', 'edit-duplicate', 'edit-remove'], 'change, duplicate, remove what is selected'],
  [['edit-group', 'edit-dissolve'], 'make a group of what is selected, put a group back'],
  [['edit-output'], 'let the graph give what is selected'],
  [['edit-undo', 'edit-redo'], 'undo, redo'],
  [['move-left', 'move-right', 'move-up', 'move-down'], 'move what is selected'],
  [['toggle-pin', 'lay-out'], 'pin it there, lay out what is not pinned'],
  [['comment'], 'write a comment'],
  [['edit-write', 'edit-unwrite'], 'write the edits to the cell, take that back'],
  [['edit-save', 'run'], 'save the graph, run it'],
  [['toggle-panel'], 'side panel'],
  [['toggle-dock'], 'panels below: timeline, roofline and more'],
  [['clear'], 'clear the selection, leave search']
];

function isMac(): boolean {
  return typeof navigator !== 'undefined' && /Mac|iP(hone|[ao]d)/.test(navigator.userAgent);
}

/** Keys by what is written on them, where their names are longer. */
const CAPS: Readonly<Record<string, string>> = {
  Accel: isMac() ? '⌘' : 'Ctrl',
  ArrowDown: '↓',
  ArrowUp: '↑',
  ArrowLeft: '←',
  ArrowRight: '→',
  Escape: 'Esc',
  ContextMenu: 'Menu',
  ' ': 'Space',
  '-': '−'
};

/** The name of a key as people read it: `Alt+↑`, `H`. */
export function capOf(key: string): string {
  const parts = key === '+' ? [key] : key.split('+');
  return parts.map(part => CAPS[part] ?? (part.length === 1 ? part.toUpperCase() : part)).join('+');
}

/** The keys of a command by this table, as people read them. */
export function ownCaps(command: string): readonly string[] {
  return KEYS.find(key => key.command === command)?.keys.map(capOf) ?? [];
}

/** The name by which a pressed key is looked up in the table. */
export function nameOf(event: KeyboardEvent): string {
  const { key, shiftKey } = event;
  const isLetter = /^\p{L}$/u.test(key);
  // What a sign needs Shift for depends on the keyboard: a sign is what was typed.
  const shift = shiftKey && (key.length > 1 || isLetter) ? 'Shift+' : '';
  const typed = isLetter ? (shiftKey ? key.toUpperCase() : key.toLowerCase()) : key;
  const accel = (isMac() ? event.metaKey : event.ctrlKey) ? 'Accel+' : '';
  return `${accel}${event.altKey ? 'Alt+' : ''}${shift}${typed}`;
}

/** The entry of a table for a pressed key; other keys with Ctrl or Meta are those of the page. */
export function keyOf(event: KeyboardEvent, table: readonly IKey[] = KEYS): IKey | undefined {
  if (isMac() ? event.ctrlKey : event.metaKey) {
    return undefined;
  }
  const name = nameOf(event);
  return table.find(({ keys }) => keys.includes(name));
}

const EDITING = /^([acvxyz]|Z|Backspace|Delete|Enter|Home|End|Arrow.*)$/;

/** Whether a key belongs to the field of text in which it was pressed. */
export function isTyping(event: KeyboardEvent): boolean {
  const { target, key } = event;
  const isField =
    target instanceof HTMLInputElement
      ? !/^(button|checkbox|radio|range|submit|reset|image|file|color)$/.test(target.type)
      : target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
  if (!isField) {
    return false;
  }
  return event.ctrlKey || event.metaKey ? EDITING.test(key) : !/^F\d+$/.test(key);
}
