/** What the plugins need of a graph view; the one file that knows how `core` mounts one. */

import type { ISignal } from '@lumino/signaling';

export interface IViewSettings {
  theme: 'auto' | 'light' | 'dark';
  heatPalette: string;
  foldBudget: number;
  openInspector: boolean;
}
export interface IMountOptions {
  /** The document, unchecked. */
  document: unknown;
  /** Why the view cannot profile: `saved` it was read from an output, `tab` it shows a graph of a kernel. */
  notLive: 'saved' | 'tab';
}
export interface IGraphView {
  readonly name: string;
  readonly heat: boolean;
  readonly hasProfile: boolean;
  readonly canProfile: boolean;
  readonly disposed: ISignal<IGraphView, void>;
  setDocument(document: unknown): void;
  foldAll(): void;
  unfoldAll(): void;
  toggleHeat(): void;
  profile(): void;
  openSearch(): void;
  toHtml(): Promise<string>;
  dispose(): void;
}
export type Mount = (element: HTMLElement, options: IMountOptions) => IGraphView;
