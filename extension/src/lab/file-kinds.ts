/** The kinds of files that open in a tab of their own, each with what makes the tab's content. */

import { type ISignal, Signal } from '@lumino/signaling';
import type { LabIcon } from '@jupyterlab/ui-components';
import type { Widget } from '@lumino/widgets';

import type { FileServer } from './file-server';

/** One kind of file. */
export interface IFileKind {
  /** Unique, such as `maxlab-gguf`. */
  name: string;
  /** What people call it. */
  label: string;
  /** With their dots, in lower case. */
  extensions: readonly string[];
  icon: LabIcon;
  /** The content of the tab of a file; `name` is the file's. Nothing in the file may be executed. */
  open(server: FileServer, name: string): Widget;
}

export interface IFileKinds {
  /** The kinds so far. */
  readonly all: readonly IFileKind[];
  /** A kind was added. */
  readonly added: ISignal<IFileKinds, IFileKind>;
  /** Opens files of this kind from now on. */
  add(kind: IFileKind): void;
}

export class FileKinds implements IFileKinds {
  get all(): readonly IFileKind[] {
    return this._all;
  }

  readonly added: Signal<IFileKinds, IFileKind> = new Signal<IFileKinds, IFileKind>(this);

  add(kind: IFileKind): void {
    if (this._all.some(({ name }) => name === kind.name)) {
      throw new Error(`There is a kind of files called ${kind.name} already.`);
    }
    this._all.push(kind);
    this.added.emit(kind);
  }

  private readonly _all: IFileKind[] = [];
}
