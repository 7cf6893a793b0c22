"""What tests do on the CPU and on a simulated GPU alike; the fixture ``place`` names the two."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab import driver, engine
from maxlab.dtype import DType
from maxlab.graph import BufferType, DeviceRef

Array = np.ndarray[Any, Any]


def session(place: DeviceRef, threads: int = 2) -> engine.InferenceSession:
    """A session on the device that ``place`` names."""
    devices: list[Any] = [driver.CPU()] if place.is_cpu() else [driver.Accelerator()]
    return engine.InferenceSession(devices, num_threads=threads)


def at(array: Array, place: DeviceRef) -> driver.Tensor:
    """A tensor there with a copy of ``array``."""
    made = driver.Tensor.from_numpy(array.copy())
    return made if place.is_cpu() else made.to(driver.Accelerator())


def numpy(x: driver.Tensor) -> Array:
    """A copy of the elements of ``x``."""
    return np.array(x.to(driver.CPU()).to_ml_numpy())


def buffer(place: DeviceRef, *dims: Any, dtype: DType = DType.float32) -> BufferType:
    """The type of a buffer there."""
    return BufferType(dtype, dims, place)
