/** The operation at which a run failed: marked on the drawing and told of until it is mended. */

import type { IGraphDocument } from '../../proto/document';
import type { GraphModel } from '../model/graph';
import type { IItem, IScene } from '../model/scene';
import { edgesOf, neighbours } from '../model/trace';
import type { Stage } from './stage';

export interface IFailingHost {
  readonly model: GraphModel;
  readonly scene: IScene | null;
  readonly stage: Stage;
  /** What is said at operations. */
  readonly wiring: { readonly connecting: { tell(op: string, text: string): void; untell(): void } };
  readonly tree: { readonly active: IItem | null; setScene(scene: IScene, activeKey: string | null): void };
}

export class Failing {
  private _failed: { op: string; says: string } | null = null;

  constructor(private readonly _host: IFailingHost) {}

  /** A run failed at the operation `op`. */
  set(op: string, says: string): void {
    this._failed = { op, says };
    this._tell();
    this._host.wiring.connecting.tell(op, says);
  }

  /** A run went well, or what failed is another operation now. */
  clear(): void {
    if (this._failed !== null) {
      this._forget();
      this._tell();
    }
  }

  /** The document `before` has become the one that is shown: another computation has not failed yet. */
  follow(before: IGraphDocument): void {
    if (this._failed !== null && computed(before) !== computed(this._host.model.document)) {
      this._forget();
    }
  }

  private _forget(): void {
    this._failed = null;
    this._host.wiring.connecting.untell();
  }

  /** Finds in the scene what is to be marked. */
  mark(scene: IScene): void {
    const { model, stage } = this._host;
    const failed = this._failed;
    const node = failed === null ? undefined : model.node(failed.op);
    const item = node === undefined ? null : (scene.ofNode[node.index] ?? null);
    stage.marks.failed =
      failed === null || item === null
        ? null
        : {
            item,
            says: failed.says.split('\n')[0] ?? failed.says,
            // Of a folded box nobody knows which of its edges leads to the operation.
            operands: item.node === null ? [] : neighbours(model, scene, item, 'up'),
            edges: item.node === null ? [] : edgesOf(item, 'up')
          };
  }

  private _tell(): void {
    const { scene, stage, tree } = this._host;
    if (scene !== null) {
      this.mark(scene);
      stage.redrawMarks();
      tree.setScene(scene, tree.active?.key ?? null);
    }
  }
}

/** What a document computes, to compare: places, comments and the like are not of it. */
function computed({ nodes, values, inputs, outputs }: IGraphDocument): string {
  return JSON.stringify([nodes, values, inputs, outputs]);
}
