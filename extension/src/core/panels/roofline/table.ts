/** The roofline in words: every kernel against the ceilings, as a table that needs no canvas. */

import { csvOf } from '../../csv';
import { formatShare, formatTime } from '../../model/format';
import { button, el } from '../../view/dom';
import { nodesOf, type IKernels } from '../kernels';
import type { IFramedTable } from '../parts/frame';
import type { IRoofline } from './data';
import { boundText, digits, fractionText, nameOf } from './words';

const MAX_ROWS = 500;

/** The columns of `maxlab.roofline(…).to_csv()`. */
const CSV_HEADS = [
  'kernel',
  'name',
  'ops',
  'time [ns]',
  'work [flop]',
  'moved [B]',
  'intensity [flop/B]',
  'GFLOP/s',
  'GB/s',
  'bound by',
  'level',
  'of roof'
];

function pointsCsv(kernels: IKernels, { points }: IRoofline): string {
  return csvOf(
    CSV_HEADS,
    points.map(point => [
      point.kernel,
      nameOf(kernels, point),
      nodesOf(kernels, point.kernel).join(' '),
      point.ns,
      point.flops,
      point.bytes,
      point.intensity,
      point.gflops,
      point.gbs,
      point.bound,
      point.level,
      point.fraction
    ])
  );
}

/** A table of the kernels, slowest first; choosing a row calls `choose` with its kernel. */
export function pointsTable(
  kernels: IKernels,
  roofline: IRoofline,
  choose: (kernel: string) => void
): IFramedTable {
  const head = el('tr');
  for (const [title, isNumber] of [
    ['Kernel', false],
    ['Time', true],
    ['Share', true],
    ['GFLOP/s', true],
    ['GB/s', true],
    ['Operations per byte', true],
    ['Held back by', false],
    ['Of its ceiling', true]
  ] as const) {
    const cell = el('th', isNumber ? 'jp-mod-number' : '', title);
    cell.scope = 'col';
    head.append(cell);
  }
  const whole = roofline.points.reduce((sum, point) => sum + point.ns, 0);
  const body = el('tbody');
  for (const point of roofline.points.slice(0, MAX_ROWS)) {
    const name = nameOf(kernels, point);
    const link = button(
      'jp-MaxLab-link',
      `Select ${name} ${point.kernel}`,
      () => choose(point.kernel),
      `${name} ${point.kernel}`
    );
    const first = el('th', '', link);
    first.scope = 'row';
    const number = (text: string): HTMLElement => el('td', 'jp-mod-number', text);
    const row = el(
      'tr',
      '',
      first,
      number(formatTime(point.ns)),
      number(whole > 0 ? formatShare(point.ns / whole) : '–'),
      number(digits(point.gflops)),
      number(digits(point.gbs)),
      number(point.flops === 0 ? '0' : digits(point.intensity)),
      el('td', '', boundText(point)),
      number(fractionText(point))
    );
    row.dataset.kernel = point.kernel;
    row.title = point.why;
    body.append(row);
  }
  const roofs = [
    ...roofline.bandwidth.map(roof => `${roof.name} ${digits(roof.rate)} GB/s`),
    ...roofline.compute.map(roof => `${roof.name} ${digits(roof.rate)} GFLOP/s`)
  ];
  const more = roofline.points.length - MAX_ROWS;
  const caption =
    (roofs.length > 0 ? `Measured ceilings: ${roofs.join(', ')}` : 'No ceilings') +
    (more > 0 ? `; ${more} faster kernels are left out` : '');
  const element = el(
    'table',
    'jp-MaxLab-dataTable',
    el('caption', '', caption),
    el('thead', '', head),
    body
  );
  return { element, csv: () => pointsCsv(kernels, roofline) };
}
