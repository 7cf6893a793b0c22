/** Answers to the question "roofline" for tests and for looking at. */

import type { Bound, IRooflineAnswer, IRooflinePoint } from '../src/proto/costs';
import type { IGraphDocument } from '../src/proto/document';

/** Points of the kernels of a profiled document, with every kind of bound and some without work. */
export function rooflineOf(document: IGraphDocument): IRooflineAnswer {
  const bandwidth = [
    { name: 'L1', gbs: 410 },
    { name: 'L2', gbs: 190 },
    { name: 'L3', gbs: 72 },
    { name: 'DRAM', gbs: 21.5 }
  ];
  const compute = [
    { name: 'GEMM f32', gflops: 128 },
    { name: 'multiply-add f32', gflops: 141 },
    { name: 'generated loops', gflops: 38 }
  ];
  const kernels = document.profile?.kernels ?? [];
  const bounds: Bound[] = ['compute', 'bandwidth', 'launch', 'imbalance'];
  const points = kernels.map((kernel, i): IRooflinePoint => {
    const bytes = Math.round(kernel.bytes ?? kernel.ns * 4);
    const isMove = i % 17 === 3;
    const flops = isMove ? 0 : Math.round(Math.min(kernel.flops ?? bytes / 3, kernel.ns * 120));
    const bound = isMove ? 'bandwidth' : (bounds[i % 4] ?? null);
    return {
      kernel: kernel.id,
      flops,
      bytes,
      ns: Math.round(kernel.ns),
      gflops: flops / kernel.ns,
      gbs: bytes / kernel.ns,
      intensity: flops / bytes,
      bound,
      fraction: 0.1 + (i % 9) / 10,
      level: 'L2',
      why: 'Its bytes take most of the time.'
    };
  });
  return {
    version: 2,
    device: 'a test machine',
    simulated: false,
    threads: 2,
    note: '',
    measured_at: 1.7e9,
    ceilings: { bandwidth, compute },
    points
  };
}
