/** Numbers as people read them, with units. */

function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 100) {
    return value.toFixed(0);
  }
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function scaled(value: number, step: number, units: readonly string[]): string {
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= step && unit < units.length - 1) {
    size /= step;
    unit += 1;
  }
  return unit === 0 ? `${Math.round(size)} ${units[0]}` : `${digits(size)} ${units[unit]}`;
}

/** `1.23 ms` for a time in nanoseconds. */
export function formatTime(ns: number): string {
  if (ns >= 1e9) {
    return `${digits(ns / 1e9)} s`;
  }
  if (ns >= 1e6) {
    return `${digits(ns / 1e6)} ms`;
  }
  return ns >= 1e3 ? `${digits(ns / 1e3)} µs` : `${Math.round(ns)} ns`;
}

/** Milliseconds with a number of decimals that keeps columns comparable: `12.3`, `0.041`. */
export function formatMs(ns: number): string {
  const ms = ns / 1e6;
  if (ms >= 100) {
    return ms.toFixed(0);
  }
  if (ms >= 10) {
    return ms.toFixed(1);
  }
  return ms >= 1 ? ms.toFixed(2) : ms.toFixed(3);
}

/** `14%`, `1.4%`, `<0.1%` for a fraction of one. */
export function formatShare(fraction: number): string {
  const percent = fraction * 100;
  if (percent === 0) {
    return '0%';
  }
  if (percent < 0.1) {
    return '<0.1%';
  }
  return percent < 9.95 ? `${percent.toFixed(1)}%` : `${percent.toFixed(0)}%`;
}

/** `1.5 MB` (powers of 1000) for a number of bytes. */
export function formatBytes(nbytes: number): string {
  return scaled(nbytes, 1000, ['B', 'kB', 'MB', 'GB', 'TB']);
}

/** `1.50 GFLOP` for a number of floating-point operations. */
export function formatFlops(flops: number): string {
  return scaled(flops, 1000, ['FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP']);
}

/** `48.2 GFLOP/s`; flops per nanosecond are 1e9 flops per second. */
export function formatFlopRate(flops: number, ns: number): string {
  return ns > 0 ? `${digits(flops / ns)} GFLOP/s` : '–';
}

/** `12.1 GB/s`; bytes per nanosecond are 1e9 bytes per second. */
export function formatByteRate(nbytes: number, ns: number): string {
  return ns > 0 ? `${digits(nbytes / ns)} GB/s` : '–';
}

/** `1 node`, `12 nodes`. */
export function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;
}

/** The path of a scope in words: `encoder.while n38.body` for `encoder.n38:while.body`. */
export function scopeText(path: string): string {
  return path.replace(/(^|\.)(n\w+):(\w+)/g, '$1$3 $2');
}
