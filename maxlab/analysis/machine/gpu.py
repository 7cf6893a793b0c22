"""The ceilings of a GPU, by maxlab's own kernels, timed by events as those of any model are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from maxlab.analysis.machine.ceilings import Ceilings, Level, Machine, Rate
from maxlab.driver import Accelerator, Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.engine.times import KernelTime
from maxlab.errors import DeviceError
from maxlab.graph import Graph, TensorType, TensorValue, ops
from maxlab.ir import DeviceRef

BYTES = 256 << 20
"""Bytes of an array that has to come from memory: several times the second cache of any GPU."""
SIDE = 4096
"""The side of the matrices whose product is timed."""
SMALL = 1 << 20
RUNS = 10


def measure_gpu(device: Accelerator) -> Machine:
    """The ceilings of ``device``.

    Raises:
        DeviceError: ML670, it is simulated.
    """
    properties = device.context.properties
    if properties.simulated:
        raise DeviceError(
            "ML670",
            "a simulated GPU has no ceilings: its times are those of the CPU that plays it",
            fix="measure the CPU, maxlab.machine(), or a real GPU",
        )
    start = time.perf_counter()
    count = BYTES // 4
    read = _timed(device, lambda x, y: ops.sum(x, axis=-1), [count])
    copy = _timed(device, lambda x, y: x + 1.0, [count])
    triad = _timed(device, lambda x, y: x + y * 3.0, [count])
    level = Level("DRAM", 0, *(kernel.nbytes / kernel.ns_min for kernel in (read, copy, triad)))
    rates = []
    for dtype, short in (
        (DType.float32, "f32"),
        (DType.bfloat16, "bf16"),
        (DType.float16, "f16"),
    ):
        kernel = _timed(device, ops.matmul, [SIDE, SIDE], dtype)
        rates.append(Rate(f"{short} product", kernel.flops / kernel.ns_min, "product", dtype.name))
    kernel = _timed(device, lambda x, y: ops.exp(ops.tanh(ops.exp(x))), [SMALL])
    rates.append(Rate("f32 exp", kernel.flops / kernel.ns_min, "math", "float32"))
    launch = _timed(device, lambda x, y: x + 1.0, [1])
    found = Ceilings(
        properties.name,
        1,
        (level,),
        tuple(rates),
        float(launch.ns_min),
        float(launch.ns_min),
    )
    return Machine(properties.name, time.time(), time.perf_counter() - start, {1: found})


def _timed(
    device: Accelerator,
    call: Callable[[TensorValue, TensorValue], Any],
    shape: list[int],
    dtype: DType = DType.float32,
) -> KernelTime:
    """The times of the only kernel of ``call``."""
    place = TensorType(dtype, shape, DeviceRef.GPU(device.id))
    with Graph("ceiling", input_types=[place, place]) as graph:
        x, y = (value.tensor for value in graph.inputs)
        graph.output(call(x, y))
    model = InferenceSession(devices=[device]).load(graph)
    data = Tensor.from_numpy(np.ones(shape, dtype.ml_numpy)).to(device)
    kernels = model.profile(data, data, runs=RUNS, warmup=3).kernels
    found: KernelTime = max(kernels, key=lambda kernel: kernel.ns)
    return found
