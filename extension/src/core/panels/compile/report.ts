/** What compiling a model took: phases, and what became of each unit, in words and shares. */

import type { ICompileAnswer, ICompilePhase, ICompileUnit } from '../../../proto/checks';

/** One sentence: how many units, how many of them were compiled, and how long that took. */
export function summary(report: ICompileAnswer): string {
  const { units } = report;
  const missed = units.filter(unit => !unit.hit);
  const ms = missed.reduce((sum, unit) => sum + unit.ms, 0);
  const count = `${units.length.toLocaleString('en-US')} ${units.length === 1 ? 'unit' : 'units'}`;
  if (units.length === 0) {
    return 'Nothing had to be compiled.';
  }
  if (missed.length === 0) {
    return `${count}, all found compiled.`;
  }
  const found = units.length - missed.length;
  return `${count}: ${found} found compiled, ${missed.length} compiled. ` +
    `Their times add up to ${formatMillis(ms)}; compilers work side by side.`;
}

/** The kernels of a unit, shortened: `k0 +5`. */
export function kernelNames(unit: ICompileUnit): string {
  const [first, ...rest] = unit.kernels;
  return first === undefined ? '' : rest.length === 0 ? first : `${first} +${rest.length}`;
}

export function formatMillis(ms: number): string {
  if (ms >= 1000) {
    return `${(ms / 1000).toFixed(2)} s`;
  }
  return ms >= 10 ? `${ms.toFixed(0)} ms` : `${ms.toFixed(2)} ms`;
}

/** Part of the whole that each phase takes, with those too small to see joined as “other”. */
export function shares(phases: readonly ICompilePhase[], least = 0.01): (ICompilePhase & { share: number })[] {
  const total = phases.reduce((sum, phase) => sum + phase.ns, 0);
  if (total === 0) {
    return [];
  }
  const large = phases.filter(phase => phase.ns / total >= least);
  const small = phases.filter(phase => phase.ns > 0 && phase.ns / total < least);
  const joined =
    small.length < 2
      ? small
      : [
          {
            name: `${small.length} others`,
            ns: small.reduce((sum, phase) => sum + phase.ns, 0),
            text: small.map(phase => phase.name).join(', ')
          }
        ];
  return [...large, ...joined].map(phase => ({ ...phase, share: phase.ns / total }));
}
