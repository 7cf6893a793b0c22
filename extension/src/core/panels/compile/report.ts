/** What compiling a model took, as the kernel answers it: phases, and what became of each unit. */

import { answer, number, objects, size, text, texts } from '../parts/read';

export interface IPhase {
  name: string;
  ns: number;
  /** What is done in it; may be empty. */
  text: string;
}

/** What was handed to the C or CUDA compiler at once, or found compiled already. */
export interface IUnit {
  /** Kernels in it; their ids in the document. */
  kernels: string[];
  name: string;
  isHit: boolean;
  /** Where it came from, or why it was compiled. */
  why: string;
  ms: number | null;
  lines: number | null;
}

export interface ICompileReport {
  /** What it was compiled with, in words. */
  options: string;
  phases: IPhase[];
  units: IUnit[];
}

/** The report in an answer to “compile”; throws a sentence when it is none. */
export function readReport(value: unknown): ICompileReport {
  const data = answer(value, 'compile');
  const phases = objects(data.phases).map(phase => ({
    name: text(phase.name) ?? 'unnamed',
    ns: size(phase.ns),
    text: text(phase.text) ?? ''
  }));
  const units = objects(data.units).map((unit, i): IUnit => {
    const kernel = text(unit.kernel);
    const kernels = texts(unit.kernels);
    return {
      kernels: kernels.length > 0 ? kernels : kernel === null ? [] : [kernel],
      name: text(unit.name) ?? kernel ?? `unit ${i}`,
      isHit: unit.hit === true,
      why: text(unit.why) ?? '',
      ms: number(unit.ms),
      lines: number(unit.lines)
    };
  });
  return { options: text(data.options) ?? '', phases, units };
}

/** One sentence: how many units, how many of them were compiled, and how long that took. */
export function summary(report: ICompileReport): string {
  const { units } = report;
  const missed = units.filter(unit => !unit.isHit);
  const ms = missed.reduce((sum, unit) => sum + (unit.ms ?? 0), 0);
  const count = `${units.length.toLocaleString('en-US')} ${units.length === 1 ? 'unit' : 'units'}`;
  if (units.length === 0) {
    return 'Nothing had to be compiled.';
  }
  if (missed.length === 0) {
    return `${count}, all found compiled.`;
  }
  const found = units.length - missed.length;
  return `${count}: ${found} found compiled, ${missed.length} compiled, ${formatMillis(ms)} of the compiler.`;
}

/** The kernels of a unit, shortened: `k0 +5`. */
export function kernelNames(unit: IUnit): string {
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
export function shares(phases: readonly IPhase[], least = 0.01): (IPhase & { share: number })[] {
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
