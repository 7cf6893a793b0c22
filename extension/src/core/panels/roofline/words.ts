/** Points and rooflines in words: for tooltips, screen readers and the table. */

import { FAMILY_NAMES } from '../../model/families';
import { formatBytes, formatFlops, formatShare, formatTime, plural } from '../../model/format';
import { familyOfKernel, lineOf, opsOf, type IKernels } from '../kernels';
import type { Bound, IPoint, IRoofline } from './data';

export const BOUND_NAMES: Record<Bound, string> = {
  bandwidth: 'memory bandwidth',
  compute: 'arithmetic',
  launch: 'being started',
  imbalance: 'threads that wait'
};

/** Three digits of a rate or a ratio. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) {
    return '∞';
  }
  if (value === 0) {
    return '0';
  }
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3).replace(/\.?0+$/, '');
}

export function nameOf(from: IKernels, point: IPoint): string {
  return from.model.kernels.get(point.kernel)?.name ?? point.kernel;
}

export function boundText(point: IPoint): string {
  return point.bound === null ? '–' : BOUND_NAMES[point.bound];
}

/** How near to its ceiling. */
export function fractionText(point: IPoint): string {
  return point.fraction === null ? '–' : formatShare(point.fraction);
}

/** What the tooltip of a point says; the first line is its title. */
export function pointLines(from: IKernels, point: IPoint): string[] {
  const { timing } = from;
  const level = point.level === '' ? '' : ` from ${point.level}`;
  return [
    `${nameOf(from, point)}  ${point.kernel}`,
    `${formatTime(point.ns)} · ${formatShare(timing.share(timing.kernel(point.kernel)?.ns ?? point.ns))} of all kernels`,
    `${formatFlops(point.flops)} at ${digits(point.gflops)} GFLOP/s`,
    `${formatBytes(point.bytes)}${level} at ${digits(point.gbs)} GB/s`,
    point.flops > 0 ? `${digits(point.intensity)} operations per byte` : 'moves data, computes nothing',
    point.bound === null
      ? ''
      : `held back by ${boundText(point)}` +
        (point.fraction === null ? '' : ` · ${fractionText(point)} of its ceiling`),
    point.why,
    `${FAMILY_NAMES[familyOfKernel(from, point.kernel)]}: ${opsOf(from, point.kernel)}`,
    lineOf(from, point.kernel)
  ].filter(Boolean);
}

/** One sentence about a point. */
export function describePoint(from: IKernels, point: IPoint): string {
  const bound = point.bound === null ? '' : `held back by ${boundText(point)}`;
  const near = point.fraction === null ? '' : `${fractionText(point)} of its ceiling`;
  return [
    nameOf(from, point),
    `kernel ${point.kernel}`,
    formatTime(point.ns),
    `${digits(point.gflops)} GFLOP/s`,
    `${digits(point.gbs)} GB/s`,
    bound,
    near
  ]
    .filter(Boolean)
    .join(', ');
}

/** What the whole chart is, for those who do not see it. */
export function describeRoofline(from: IKernels, roofline: IRoofline): string {
  const roofs = [
    ...roofline.bandwidth.map(roof => `${roof.name} ${digits(roof.rate)} GB/s`),
    ...roofline.compute.map(roof => `${roof.name} ${digits(roof.rate)} GFLOP/s`)
  ];
  const [slowest] = roofline.points;
  return (
    `Roofline of ${plural(roofline.points.length, 'kernel')}. ` +
    (roofs.length > 0 ? `Measured ceilings: ${roofs.join(', ')}. ` : 'No ceilings. ') +
    (slowest === undefined ? '' : `Slowest: ${describePoint(from, slowest)}. `) +
    'Arrow keys go from kernel to kernel by time, Enter selects, plus and minus zoom.'
  );
}

/** Facts for the bar above the chart. */
export function facts(roofline: IRoofline): string[] {
  const still = roofline.points.filter(point => point.flops === 0 && point.bytes === 0).length;
  const noRoofs = roofline.bandwidth.length + roofline.compute.length === 0;
  return [
    roofline.device,
    roofline.simulated
      ? 'simulated: a simulator has no ceilings'
      : noRoofs
        ? 'ceilings were not measured'
        : '',
    still > 0 ? `${plural(still, 'kernel')} without counted work` : '',
    roofline.dropped > 0 ? `${plural(roofline.dropped, 'bad point')} left out` : '',
    roofline.note
  ].filter(Boolean);
}
