/** How busy the machine is, in the few words that a status bar has room for. */

import { formatValue } from '../core/dashboard/format';
import type { IMachineNow } from '../proto/dashboard';

/** `CPU 12 % · memory 3.1 GiB of 15.6 GiB · GPU 40 %`; of several GPUs, the mean. */
export function wordsOf({ cpu, memory, memory_total: total, gpus }: IMachineNow): string {
  const parts = [
    `CPU ${cpu === null ? '–' : `${Math.round(cpu)} %`}`,
    `memory ${formatValue(memory, 'B')} of ${formatValue(total, 'B')}`
  ];
  if (gpus.length > 0) {
    const mean = gpus.reduce((sum, gpu) => sum + gpu.percent, 0) / gpus.length;
    parts.push(`GPU${gpus.length > 1 ? 's' : ''} ${Math.round(mean)} %`);
  }
  return parts.join(' · ');
}

/** What stands behind the short words: each GPU, and what a click does. */
export function hintOf(now: IMachineNow, click: string): string {
  const gpus = now.gpus.map(
    ({ id, percent, used, total }) =>
      `${id}: ${Math.round(percent)} %, ${formatValue(used, 'B')} of ${formatValue(total, 'B')}`
  );
  return [...gpus, now.recording ? 'A monitor records.' : 'Nothing is recorded.', click].join('\n');
}
