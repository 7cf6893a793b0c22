/** What became of an edited kernel, as the kernel answers it. */

import { formatTime } from '../../model/format';
import { answer, number, object, objects, text, texts } from '../parts/read';

export type TrialState = 'compile_error' | 'crashed' | 'wrong' | 'measured';

export interface IDiagnostic {
  /** Line of the edited text, from 1; null when the compiler names none. */
  line: number | null;
  column: number | null;
  text: string;
}

export interface ICheck {
  isOk: boolean;
  maxUlp: number | null;
  maxAbs: number | null;
  tolerance: string;
  message: string;
}

export interface ITrial {
  kernel: string;
  /** All kernels that have its text, which are edited with it. */
  kernels: string[];
  state: TrialState;
  errors: IDiagnostic[];
  log: string;
  check: ICheck | null;
  beforeNs: number | null;
  afterNs: number | null;
  beforeIqr: number | null;
  afterIqr: number | null;
  runs: number | null;
  device: string;
  canKeep: boolean;
}

const STATES: readonly TrialState[] = ['compile_error', 'crashed', 'wrong', 'measured'];

/** The trial in an answer to “edit”; throws a sentence when it is none. */
export function readTrial(value: unknown): ITrial {
  const data = answer(value, 'edit');
  const errors = objects(data.errors).map(error => ({
    line: number(error.line),
    column: number(error.column),
    text: text(error.text) ?? ''
  }));
  const raw = data.check;
  const check = object(raw);
  const fallback: TrialState = errors.length > 0 ? 'compile_error' : 'crashed';
  return {
    kernel: text(data.kernel) ?? '',
    kernels: texts(data.kernels),
    state: STATES.find(state => state === data.state) ?? (data.ok === true ? 'measured' : fallback),
    errors,
    log: text(data.log) ?? '',
    check:
      raw === null || raw === undefined
        ? null
        : {
            isOk: check.ok === true,
            maxUlp: number(check.max_ulp),
            maxAbs: number(check.max_abs),
            tolerance: text(check.tolerance) ?? '',
            message: text(check.message) ?? ''
          },
    beforeNs: number(data.before_ns),
    afterNs: number(data.after_ns),
    beforeIqr: number(data.before_iqr),
    afterIqr: number(data.after_iqr),
    runs: number(data.runs),
    device: text(data.device) ?? '',
    canKeep: data.canKeep === true
  };
}

/** The headline of a trial. */
export function headline(trial: ITrial): string {
  switch (trial.state) {
    case 'compile_error': {
      const count = trial.errors.length;
      return count === 0 ? 'It does not compile.' : `It does not compile: ${count} ${count === 1 ? 'error' : 'errors'}.`;
    }
    case 'crashed':
      return 'It crashed in its first run, in a process of its own. The model is unharmed.';
    case 'wrong':
      return 'It computes something else than the reference.';
    default:
      return speed(trial);
  }
}

/** Faster, slower, or no difference that the spread of the runs allows to claim. */
export function speed(trial: ITrial): string {
  const { beforeNs, afterNs, beforeIqr, afterIqr } = trial;
  if (beforeNs === null || afterNs === null || beforeNs <= 0) {
    return 'It is right. It was not measured.';
  }
  const times = `${formatTime(beforeNs)} → ${formatTime(afterNs)}`;
  const spread = Math.max(beforeIqr ?? 0, afterIqr ?? 0);
  const gain = beforeNs - afterNs;
  if (Math.abs(gain) <= spread) {
    return `It is right. No difference can be shown: ${times}, spread ${formatTime(spread)}.`;
  }
  const percent = Math.abs((gain / beforeNs) * 100);
  const digits = percent < 10 ? 1 : 0;
  return `It is right and ${percent.toFixed(digits)}% ${gain > 0 ? 'faster' : 'slower'}: ${times}.`;
}
