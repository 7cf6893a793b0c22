/** How people want views to look and to move, whatever graph they show. */

/** What the wheel does: zooms, scrolls (and zooms with Ctrl), or is the page's without Ctrl. */
export type Wheel = 'zoom' | 'scroll' | 'ctrl';

/** Names alone, or with the scope that they are in. */
export type Names = 'short' | 'full';

/** When edges say what they carry. */
export type EdgeTypes = 'always' | 'zoomed' | 'never';

export interface IPreferences {
  wheel: Wheel;
  names: Names;
  types: EdgeTypes;
  /** Whether large graphs have a map in the corner. */
  minimap: boolean;
}

export const PREFERENCES: IPreferences = { wheel: 'zoom', names: 'short', types: 'zoomed', minimap: true };
