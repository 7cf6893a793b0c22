/** Which charts a recording makes, in which order, and what each shows. */

import type { DashboardData } from './data';
import type { IColumn } from './wire';

export interface ISeries {
  /** Number of the column. */
  column: number;
  /** What the legend says. */
  label: string;
  /** Which colour of the palette, and which dash. */
  color: number;
  dash: number;
  /** Filled down to the axis. */
  isFilled: boolean;
}

export interface IGroup {
  quantity: string;
  title: string;
  unit: string;
  kind: 'lines' | 'heat';
  series: ISeries[];
  /** Top of the axis when it is known; null leaves it to the data. */
  top: number | null;
  /** Words on where the numbers come from. */
  note: string;
}

export const QUANTITIES: readonly [quantity: string, title: string][] = [
  ['utilization', 'GPU utilisation'],
  ['memory', 'GPU memory'],
  ['memory_activity', 'GPU memory activity'],
  ['power', 'Power'],
  ['temperature', 'Temperature'],
  ['clock', 'Clocks'],
  ['pcie', 'PCIe'],
  ['nvlink', 'NVLink'],
  ['cpu', 'CPU'],
  ['host_memory', 'Host memory'],
  ['core', 'CPU cores'],
  ['disk', 'Disk'],
  ['network', 'Network']
];

const HOST = new Set(['cpu', 'host_memory', 'core', 'disk', 'network', 'activity', 'processes']);

/** Whether the chart of a quantity is one of GPUs. */
export function isGpuChart(quantity: string): boolean {
  return !HOST.has(quantity);
}

/** Every chart that can stand alone: its quantity, and its title. */
export const CHARTS: readonly [quantity: string, title: string][] = [
  ['activity', 'Activity'],
  ['processes', 'Processes'],
  ...QUANTITIES
];

const OF_SESSION = 'this session';

const WHOLE_SCALE = new Set(['%', 'B']);

function noteOf(columns: readonly IColumn[]): string {
  const means = columns.filter(column => column.average);
  if (means.length === 0) {
    return 'each value is that of its moment';
  }
  const windows = new Set(means.map(column => column.window));
  const [window] = windows;
  if (windows.size > 1 || window === undefined || window === null) {
    return 'each value is the mean since the sample before';
  }
  const length = window >= 1 ? `${window} s` : `${Math.round(window * 1000)} ms`;
  return `each value is the mean of the ${length} before its sample`;
}

/** The charts of what `data` has. Counters that nothing reports have none. */
export function groupsOf(data: DashboardData, hidden: ReadonlySet<string>): IGroup[] {
  const groups: IGroup[] = [];
  for (const [quantity, title] of QUANTITIES) {
    const all = data.columns
      .map((column, number) => ({ column, number }))
      .filter(({ column, number }) => column.quantity === quantity && data.hasValues(number))
      // Most sessions hold no memory of most GPUs.
      .filter(({ column, number }) => column.label !== OF_SESSION || !isGpu(column.device) || data.hasSome(number));
    const members = all.filter(({ column }) => !hidden.has(column.device));
    const first = members[0]?.column;
    if (first === undefined) {
      continue;
    }
    const kind = quantity === 'core' ? 'heat' : 'lines';
    // Colours stay with their devices while some of them are hidden.
    const devices = [...new Set(all.map(({ column }) => column.device))];
    const labels = [...new Set(all.map(({ column }) => column.label))];
    const gpus = devices.filter(device => isGpu(device));
    const isMany = gpus.length > 1;
    const series = members.map(({ column, number }): ISeries => {
      const label = labels.indexOf(column.label);
      const named = isMany && isGpu(column.device);
      return {
        column: number,
        label: named
          ? labels.length > 1
            ? `${column.device} ${column.label}`
            : column.device
          : gpus.length === 1 && labels.length === 1
            ? column.device
            : column.label,
        // A tensor's device is not one of the driver's: it has a colour beside theirs.
        color: named ? gpus.indexOf(column.device) : isMany ? gpus.length + label : label,
        dash: named ? label : 0,
        // Fills of several devices over each other would make colours that no legend has.
        isFilled: label === 0 && (!named || gpus.length === 1)
      };
    });
    const tops = members.map(({ column }) => column.top).filter(top => top !== null);
    groups.push({
      quantity,
      title,
      unit: first.unit,
      kind,
      series,
      top: WHOLE_SCALE.has(first.unit) && tops.length > 0 ? Math.max(...tops) : null,
      note: noteOf(members.map(({ column }) => column))
    });
  }
  return groups;
}

export function isGpu(device: string): boolean {
  return /^(nv|amd)\d+$/.test(device);
}

/** The GPUs of a recording, in its order. */
export function gpusOf(columns: readonly IColumn[]): string[] {
  return [...new Set(columns.map(column => column.device).filter(isGpu))];
}
