/**
 * A view without a kernel in which the graph can be laid out all the same: somebody on the page answers
 * what is laid beside the graph. What changes the graph is refused, with a button that chooses a kernel.
 */

import type { IChangeAnswer, IChangeArgs } from '../../proto/changes';
import { button } from './dom';
import type { Ask } from './editing';

/** Who answers where there is no kernel. */
export interface IAlone {
  /** The answer to a step, done; null where only a kernel can do it. */
  change(args: IChangeArgs): IChangeAnswer | null;
  /** Lets the user choose a kernel. */
  choose(): void;
}

export class NeedsKernelError extends Error {
  constructor() {
    super('This needs a kernel: without one, a graph can be looked at and laid out');
  }
}

const LABEL = 'Select a kernel';

export class Alone {
  /** Who answers; null where a kernel does. */
  given: IAlone | null = null;
  /** Shown after something was refused. */
  readonly element = button('jp-MaxLab-plainButton', LABEL, () => this.given?.choose(), LABEL);

  constructor() {
    this.element.hidden = true;
  }

  /** `ask`, as long as a kernel answers. */
  guarded(ask: Ask): Ask {
    return (what, args) => (this.given === null ? ask(what, args) : Promise.reject(new NeedsKernelError()));
  }

  /** What a step has done without a kernel; throws where it needs one. Null where there is one. */
  change(args: IChangeArgs): IChangeAnswer | null {
    if (this.given === null) {
      return null;
    }
    const answer = this.given.change(args);
    if (answer === null) {
      throw new NeedsKernelError();
    }
    this.offer(null);
    return answer;
  }

  /** Offers to choose a kernel where `error` says that one is needed. */
  offer(error: unknown): void {
    this.element.hidden = !(error instanceof NeedsKernelError);
  }
}
