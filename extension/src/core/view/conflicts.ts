/** The conflicts of a merged document: a list below the graph, where each is decided by a step of editing. */

import type { IChangeAnswer, IChangeArgs } from '../../proto/changes';
import type { IConflict, IGraphDocument } from '../../proto/document';
import { plural } from '../model/format';
import { button, el } from './dom';
import type { Stage } from './stage';

export interface IConflictsHost {
  readonly stage: Stage;
  readonly editing: {
    readonly isOn: boolean;
    change(args: Partial<IChangeArgs> & { do: IChangeArgs['do'] }): Promise<IChangeAnswer | null>;
  };
  select(ids: readonly string[]): void;
  show(key: string): Promise<void>;
}

export class ConflictList {
  readonly element = el('section', 'jp-MaxLab-conflicts');
  private readonly _head = el('div', 'jp-MaxLab-conflictsHead');
  private readonly _rows = el('ul', 'jp-MaxLab-conflictRows');
  private _shown: readonly IConflict[] = [];
  private _isEditing = false;

  constructor(private readonly _host: IConflictsHost) {
    this.element.setAttribute('aria-label', 'Conflicts of a merge');
    this.element.hidden = true;
    this.element.append(this._head, this._rows);
  }

  /** The operations that conflicts are about. */
  get keys(): readonly string[] {
    return this._shown.flatMap(({ on }) => on);
  }

  /** Shows the conflicts of a document; nothing where it has none. */
  follow({ conflicts = [] }: IGraphDocument): void {
    const { isOn } = this._host.editing;
    if (conflicts === this._shown && isOn === this._isEditing) {
      return;
    }
    const hadKeyboard = this.element.contains(this.element.ownerDocument.activeElement);
    this._shown = conflicts;
    this._isEditing = isOn;
    this.element.hidden = conflicts.length === 0;
    if (!this.element.isConnected) {
      this._host.stage.element.closest('.jp-MaxLab-body')?.after(this.element);
    }
    const how = isOn ? 'take a side of each' : 'turn on editing to take sides';
    this._head.textContent = `${plural(conflicts.length, 'conflict')} of a merge to decide: ${how}. The graph is as “ours” has it.`;
    this._rows.replaceChildren(...conflicts.map(one => this._row(one)));
    if (hadKeyboard) {
      // What had it is gone: the next conflict gets it, or the graph.
      const next = this._rows.querySelector('button') ?? this._host.stage.element.querySelector<HTMLElement>('[tabindex="0"]');
      next?.focus();
    }
  }

  private _row(conflict: IConflict): HTMLElement {
    const { says, parts, on } = conflict;
    const name = button('jp-MaxLab-conflictName', `Show ${says} in the graph`, () => this._go(on));
    name.append(badge(), says);
    const sides = parts.map(({ what, base, ours, theirs }) =>
      el(
        'div',
        'jp-MaxLab-conflictPart',
        el('span', 'jp-MaxLab-conflictWhat', what),
        ...side('before', base),
        ...side('ours', ours),
        ...side('theirs', theirs)
      )
    );
    const row = el('li', 'jp-MaxLab-conflict', el('div', 'jp-MaxLab-conflictSays', name, ...sides));
    if (this._isEditing) {
      row.append(this._take(conflict, 'ours'), this._take(conflict, 'theirs'));
    }
    return row;
  }

  private _take({ id, says }: IConflict, take: 'ours' | 'theirs'): HTMLElement {
    const taken = button('jp-MaxLab-plainButton', `Take ${take}: ${says}`, () => {
      void this._host.editing.change({ do: 'resolve', on: [id], fields: { take } });
    });
    taken.textContent = `Take ${take}`;
    return taken;
  }

  private _go(on: readonly string[]): void {
    const [first] = on;
    this._host.select(on);
    if (first !== undefined) {
      void this._host.show(first);
    }
  }
}

function side(name: string, text: string): HTMLElement[] {
  return [el('span', 'jp-MaxLab-conflictSide', name), el('code', 'jp-MaxLab-conflictText', text === '' ? 'nothing' : text)];
}

function badge(): HTMLElement {
  const found = el('span', 'jp-MaxLab-conflictSign', '!');
  found.setAttribute('aria-hidden', 'true');
  return found;
}
