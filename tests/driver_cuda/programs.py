"""What the programs of these tests share: texts of kernels, and a device with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab.driver.backend import DeviceSource
from maxlab.driver.cuda import backend
from maxlab.driver.cuda.context import CudaContext
from maxlab.driver.cuda.modules import CudaFunction

SCALE = DeviceSource(
    "k_scale",
    """extern "C" __global__ void k_scale(const float *x, float *y, i64 n, i64 by) {
  const i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * (float)by;
}
""",
)
# Reverses each block's part through dynamic shared memory.
REVERSE = DeviceSource(
    "k_reverse",
    """extern "C" __global__ void k_reverse(float *x) {
  MX_DYN_SHARED(float, tile);
  float *part = x + blockIdx.x * (i64)blockDim.x;
  tile[threadIdx.x] = part[threadIdx.x];
  __syncthreads();
  part[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
""",
)
STRAY = DeviceSource(
    "k_stray",
    """extern "C" __global__ void k_stray(float *x) {
  x[threadIdx.x] = 1;
}
""",
)


def opened(id: int = 0) -> CudaContext:
    """The device."""
    return backend.open(id)


def kernels(context: CudaContext, *sources: DeviceSource) -> list[Any]:
    """The loaded functions of ``sources``."""
    found = [loaded.function for loaded in context.load(sources)]
    assert all(isinstance(function, CudaFunction) for function in found)
    return found


def put(context: CudaContext, array: np.ndarray[Any, Any], queue: Any = None) -> int:
    """The address of a copy of ``array`` on the device."""

    def copy() -> int:
        address = context.allocate(array.nbytes)
        target = queue or context.default_queue
        context.upload(target, address, array.ctypes.data, array.nbytes)
        return address

    return context.call(copy)


def get(context: CudaContext, address: int, count: int, queue: Any = None) -> np.ndarray[Any, Any]:
    """``count`` floats from the device."""
    out = np.empty(count, np.float32)
    target = queue or context.default_queue
    context.call(lambda: context.download(target, out.ctypes.data, address, out.nbytes))
    return out
