/** Options and events of a graph view. */

import type { ThemeName } from '../render/theme';
import type { IAsked } from './ask';

export interface IGraphViewOptions {
  theme?: ThemeName;
  /** Height in CSS pixels; `fill` takes the height of the host. */
  height?: number | 'fill';
  /** Why Profile is not possible; null when it is. */
  noProfile?: string | null;
  /** The view is the whole page: the wheel always zooms. */
  isPage?: boolean;
  /** Source lines can be opened by the host. */
  canReveal?: boolean;
  /** The host runs the commands by keys of its own; these are they, as people read them. */
  keysOf?: ((command: string) => readonly string[]) | null;
  /** Somebody listens to `asked` and hands answers to `setAnswer` while `noProfile` is null. */
  canAsk?: boolean;
  /** Somebody listens to `moveOutRequested` and has room for panels outside of the view. */
  canMoveOut?: boolean;
  /** Somebody listens for programs that are to become cells, see `inserting.ts`. */
  canInsert?: boolean;
}

export interface IGraphViewEvents {
  /** Ids of the selected nodes, also those of a selected box. */
  selectionChanged: string[];
  profileRequested: undefined;
  /** An end is wanted of what this question asked for; 0 is the profile. */
  cancelRequested: number;
  /** The user wants the map of the graph, or no longer. */
  minimapChosen: boolean;
  /** A file with an overlay was chosen. */
  overlayGiven: { name: string; text: string };
  /** Generated text is wanted that the document leaves out. */
  sourceRequested: string;
  /** A panel wants to know something of the kernel. */
  asked: IAsked;
  revealRequested: { file: string; line: number; col: number; node: string; cell?: string };
  /** Keys of the unfolded boxes. */
  foldChanged: string[];
  /** Something else is shown now, or the camera, the folds or the panels are others. */
  lookChanged: undefined;
  /** Id of the panel that is wanted outside of the view, or is there and is looked for. */
  moveOutRequested: string;
  /** Id of the panel that is wanted below the graph again. */
  putBackRequested: string;
  layoutDone: { ms: number; items: number; where: string };
  disposed: undefined;
}
