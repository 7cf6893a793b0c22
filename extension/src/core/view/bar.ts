/** The toolbar: name of the graph, search, folding, heat, profile, side panel. */

import { button, el, icon, type IconName } from './dom';
import { Overflow } from './overflow';
import { Roving } from './roving';

export interface IBarState {
  title: string;
  subtitle: string;
  isHeat: boolean;
  hasProfile: boolean;
  isEditing: boolean;
  hasChips: boolean;
  isPanelOpen: boolean;
  isDockOpen: boolean;
  /** Why Profile is not possible; null when it is. */
  noProfile: string | null;
  isProfiling: boolean;
  hasBoxes: boolean;
}

export class Bar {
  readonly element = el('div', 'jp-MaxLab-bar');
  readonly search = el('input', 'jp-MaxLab-searchInput');
  private readonly _title = el('span', 'jp-MaxLab-title');
  private readonly _subtitle = el('span', 'jp-MaxLab-subtitle');
  private readonly _count = el('span', 'jp-MaxLab-searchCount');
  private readonly _buttons = new Map<string, HTMLButtonElement>();
  private readonly _profileText = el('span', '', 'Profile');
  private readonly _overflow: Overflow;
  private readonly _roving: Roving;

  constructor(
    private readonly _run: (command: string) => void,
    onSearch: (query: string) => void
  ) {
    this.element.setAttribute('role', 'toolbar');
    this.element.setAttribute('aria-label', 'Graph tools');
    this.search.type = 'search';
    this.search.placeholder = 'Search  ( / )';
    this.search.setAttribute('aria-label', 'Search the graph');
    this.search.spellcheck = false;
    this.search.addEventListener('input', () => onSearch(this.search.value));
    this.search.addEventListener('keydown', event => this._searchKey(event));
    const box = el('div', 'jp-MaxLab-search', icon('search'), this.search, this._count);
    const profile = this._button('profile', 'Profile (P)', 'play', 'jp-MaxLab-button');
    profile.append(this._profileText);
    const folds = [
      this._button('fold-level', 'Fold one level ([)', 'fold'),
      this._button('unfold-level', 'Unfold one level (])', 'unfold')
    ];
    const looks = [
      this._button('toggle-chips', 'Weights on nodes (W)', 'chip'),
      this._button('toggle-heat', 'Heat by time (H)', 'flame')
    ];
    const panels = [
      this._button('toggle-edit', 'Edit (E)', 'edit'),
      this._button('toggle-dock', 'Panels below (D)', 'dock'),
      this._button('toggle-panel', 'Side panel (I)', 'panel')
    ];
    const groups = [folds, looks].map(one => el('div', 'jp-MaxLab-group', ...one));
    this._roving = new Roving(this.element);
    this._overflow = new Overflow({
      row: this.element,
      room: () => this.element.parentElement ?? this.element,
      buttons: () => [profile, ...panels, ...[...folds, ...looks].reverse()],
      groups,
      name: 'More tools',
      fitted: () => this._roving.update()
    });
    this.element.append(
      el('div', 'jp-MaxLab-titles', this._title, this._subtitle),
      box,
      ...groups,
      profile,
      ...panels,
      this._overflow.more
    );
    this._roving.update();
  }

  update(state: IBarState): void {
    this._title.textContent = state.title;
    this._subtitle.textContent = state.subtitle;
    const press = (name: string, isOn: boolean): void => {
      this._buttons.get(name)?.setAttribute('aria-pressed', String(isOn));
    };
    press('toggle-heat', state.isHeat);
    press('toggle-chips', state.hasChips);
    press('toggle-panel', state.isPanelOpen);
    press('toggle-edit', state.isEditing);
    press('toggle-dock', state.isDockOpen);
    this._enable('toggle-heat', state.hasProfile, 'Heat by time (H)', 'no times yet: profile first');
    this._enable('fold-level', state.hasBoxes, 'Fold one level ([)', 'this graph has no scopes');
    this._enable('unfold-level', state.hasBoxes, 'Unfold one level (])', 'this graph has no scopes');
    this._enable('toggle-edit', state.noProfile === null, 'Edit (E)', state.noProfile ?? '');
    const profile = this._buttons.get('profile');
    if (profile !== undefined) {
      const reason = state.isProfiling ? 'profiling…' : state.noProfile;
      this._enable('profile', reason === null, 'Profile (P)', reason ?? '');
      profile.classList.toggle('jp-mod-busy', state.isProfiling);
      this._profileText.textContent = state.isProfiling ? 'Profiling…' : 'Profile';
    }
    this._overflow.fit();
  }

  dispose(): void {
    this._overflow.dispose();
  }

  showCount(text: string): void {
    this._count.textContent = text;
  }

  private _enable(name: string, isEnabled: boolean, title: string, reason: string): void {
    const node = this._buttons.get(name);
    if (node === undefined) {
      return;
    }
    // Not `disabled`: the reason has to be reachable by keyboard and pointer.
    node.setAttribute('aria-disabled', String(!isEnabled));
    const text = isEnabled ? title : `${title}: ${reason}`;
    node.title = text;
    node.setAttribute('aria-label', text);
  }

  private _button(
    command: string,
    title: string,
    name: IconName,
    className = 'jp-MaxLab-iconButton'
  ): HTMLButtonElement {
    const node = button(className, title, () => {
      if (node.getAttribute('aria-disabled') !== 'true') {
        this._run(command);
      }
    });
    node.append(icon(name));
    node.dataset.command = command;
    this._buttons.set(command, node);
    return node;
  }

  private _searchKey(event: KeyboardEvent): void {
    if (event.key === 'Enter' || event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const isBack = event.key === 'ArrowUp' || event.shiftKey;
      this._run(isBack ? 'previous-match' : 'next-match');
    } else if (event.key === 'Escape') {
      this._run('leave-search');
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
