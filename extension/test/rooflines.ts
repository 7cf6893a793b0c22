/** Answers to the question "roofline" for tests and for looking at. */

import type { IGraphDocument } from '../src/proto/document';

export interface IRooflineAnswer {
  version: number;
  device: string;
  simulated: boolean;
  ceilings: {
    bandwidth: { name: string; gbs: number }[];
    compute: { name: string; gflops: number }[];
  };
  points: Record<string, unknown>[];
}

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
  const points = kernels.map((kernel, i) => {
    const bytes = kernel.bytes ?? kernel.ns * 4;
    const isMove = i % 17 === 3;
    const flops = isMove ? 0 : Math.min(kernel.flops ?? bytes / 3, kernel.ns * 120);
    const bound = isMove ? 'bandwidth' : ['compute', 'bandwidth', 'launch', 'imbalance'][i % 4];
    return {
      kernel: kernel.id,
      flops,
      bytes,
      ns: kernel.ns,
      gflops: flops / kernel.ns,
      gbs: bytes / kernel.ns,
      intensity: flops / bytes,
      bound,
      fraction: 0.1 + (i % 9) / 10,
      level: 'L2',
      why: 'Its bytes take most of the time.'
    };
  });
  return { version: 1, device: 'a test machine', simulated: false, ceilings: { bandwidth, compute }, points };
}
