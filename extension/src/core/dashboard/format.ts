/** Numbers and times of a dashboard as people read them. */

const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
const DECIMAL = ['', 'k', 'M', 'G', 'T'];

function places(value: number): number {
  const size = Math.abs(value);
  return size >= 100 ? 0 : size >= 10 ? 1 : 2;
}

function scale(value: number, step: number, most: number): [number, number] {
  let size = value;
  let power = 0;
  // What rounds to the next unit is written in it.
  while (Math.abs(size) >= step * 0.9995 && power < most) {
    size /= step;
    power += 1;
  }
  return [size, power];
}

/** `87 %`, `12.3 GiB`, `1.98 GHz`: a value with its unit. `–` for none. */
export function formatValue(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined) {
    return '–';
  }
  switch (unit) {
    case 'B': {
      const [size, power] = scale(value, 1024, BINARY.length - 1);
      return `${size.toFixed(power === 0 ? 0 : places(size))} ${BINARY[power]}`;
    }
    case 'B/s':
    case 'Hz': {
      const [size, power] = scale(value, 1000, DECIMAL.length - 1);
      return `${size.toFixed(power === 0 ? 0 : places(size))} ${DECIMAL[power]}${unit}`;
    }
    case '%':
      return `${value.toFixed(value > 0 && value < 9.95 && value % 1 !== 0 ? 1 : 0)} %`;
    default:
      return `${value.toFixed(Math.abs(value) >= 100 || value % 1 === 0 ? 0 : 1)} ${unit}`;
  }
}

/** The value of a tick, without digits that all ticks of the axis lack. */
export function formatTick(value: number, unit: string): string {
  return formatValue(value, unit).replace(/(\.\d*?)0+(?= )/, '$1').replace(/\.(?= )/, '');
}

const two = (value: number): string => String(Math.floor(value)).padStart(2, '0');

/** `1:05`, `1:00:05`, `0:05.25`: time since the start. `step` is that from one tick to the next. */
export function formatElapsed(seconds: number, step = 1): string {
  const sign = seconds < 0 ? '−' : '';
  const size = Math.abs(seconds);
  const fraction = step < 1 ? (size % 1).toFixed(step < 0.1 ? 2 : 1).slice(1) : '';
  const hours = Math.floor(size / 3600);
  const minutes = Math.floor(size / 60) % 60;
  const rest = `${two(size % 60)}${fraction}`;
  return hours > 0 ? `${sign}${hours}:${two(minutes)}:${rest}` : `${sign}${minutes}:${rest}`;
}

/** `14:05:09`: time of the day, when second 0 of the recording was at `epoch`. */
export function formatClock(seconds: number, epoch: number, step = 1): string {
  const date = new Date(epoch + seconds * 1000);
  const fraction = step < 1 ? `.${String(Math.floor(date.getMilliseconds() / 10)).padStart(2, '0')}` : '';
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}${fraction}`;
}

/** `1.2 s`, `45 ms`, `3 min 5 s`: a length of time. */
export function formatSpan(seconds: number): string {
  if (seconds >= 60) {
    const rest = Math.round(seconds % 60);
    return `${Math.floor(seconds / 60)} min${rest > 0 ? ` ${rest} s` : ''}`;
  }
  if (seconds >= 1) {
    return `${seconds.toFixed(seconds >= 10 ? 0 : 1)} s`;
  }
  return seconds >= 1e-3 ? `${(seconds * 1e3).toFixed(0)} ms` : `${(seconds * 1e6).toFixed(0)} µs`;
}

/** Distances of ticks on a time axis: those that clocks have. */
export const TIME_STEPS = [
  0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
  14400, 28800, 43200, 86400
];

const NICE = [1, 2, 2.5, 5];

/** Distances of ticks of a value with this unit: powers of two for bytes. */
export function valueSteps(unit: string): number[] {
  const steps: number[] = [];
  if (unit === 'B') {
    for (let power = 0; power < 50; power += 1) {
      steps.push(2 ** power);
    }
    return steps;
  }
  for (let power = unit === '%' ? 0 : -2; power < 15; power += 1) {
    steps.push(...NICE.map(nice => nice * 10 ** power));
  }
  return steps;
}

/** The least round number that `value` does not pass: the top of an axis. */
export function niceTop(value: number, unit: string): number {
  if (value <= 0) {
    return 1;
  }
  const step = unit === 'B' ? 2 ** Math.floor(Math.log2(value)) / 4 : 10 ** Math.floor(Math.log10(value)) / 4;
  return Math.ceil((value * 1.02) / step) * step;
}
