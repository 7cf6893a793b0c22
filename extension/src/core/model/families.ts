/** Families of operations; each has one calm colour in every theme. A document says of which family
 * an operation is: the table of operations is in Python. */

export type Family =
  | 'contract'
  | 'elementwise'
  | 'activation'
  | 'reduce'
  | 'norm'
  | 'view'
  | 'index'
  | 'source'
  | 'spectral'
  | 'control'
  | 'effect'
  | 'device'
  | 'custom'
  | 'other';

export const FAMILY_NAMES: Record<Family, string> = {
  contract: 'matrix product',
  elementwise: 'elementwise',
  activation: 'activation',
  reduce: 'reduction',
  norm: 'normalisation',
  view: 'view and shape',
  index: 'indexing',
  source: 'constant and range',
  spectral: 'spectral transform',
  control: 'branch, loop and call',
  effect: 'buffer and effect',
  device: 'transfer between devices',
  custom: 'code of the user',
  other: 'other'
};

const KNOWN: ReadonlySet<string> = new Set(Object.keys(FAMILY_NAMES));

function isFamily(name: string): name is Family {
  return KNOWN.has(name);
}

/** The family of a node whose document calls it `name`; documents of older versions do not. */
export function familyOf(name: string | undefined): Family {
  return name !== undefined && isFamily(name) ? name : 'other';
}
