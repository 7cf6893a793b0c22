/** Panels of what the compiler made, which have nothing to show before it has run. */

import type { IPanelType } from '../../view/panel';

export interface ICompiledPanel extends Omit<IPanelType, 'isAvailable'> {
  /** Why there is nothing to show of a graph that is not compiled. */
  uncompiled: string;
}

/** The type of a panel that is available as soon as the graph has kernels. */
export function compiledPanel({ uncompiled, ...type }: ICompiledPanel): IPanelType {
  return {
    ...type,
    isAvailable: view => (view.model.document.kernels.length > 0 ? null : uncompiled)
  };
}
