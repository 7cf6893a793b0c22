/** What became of an edited kernel, in words. */

import type { IEditAnswer } from '../../../proto/checks';
import { formatTime } from '../../model/format';

/** The headline of a trial. */
export function headline(trial: IEditAnswer): string {
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
export function speed(trial: IEditAnswer): string {
  const { before_ns: beforeNs, after_ns: afterNs } = trial;
  if (beforeNs === null || afterNs === null || beforeNs <= 0) {
    return 'It is right. It was not measured.';
  }
  const times = `${formatTime(beforeNs)} → ${formatTime(afterNs)}`;
  const spread = Math.max(trial.before_iqr ?? 0, trial.after_iqr ?? 0);
  const gain = beforeNs - afterNs;
  if (Math.abs(gain) <= spread) {
    return `It is right. No difference can be shown: ${times}, spread ${formatTime(spread)}.`;
  }
  const percent = Math.abs((gain / beforeNs) * 100);
  const digits = percent < 10 ? 1 : 0;
  return `It is right and ${percent.toFixed(digits)}% ${gain > 0 ? 'faster' : 'slower'}: ${times}.`;
}
