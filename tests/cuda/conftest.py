"""The device that CUDA tests run on: the simulator, or a GPU with ``MAXLAB_TEST_DEVICE=cuda``."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

import pytest

from maxlab import driver
from maxlab.driver.gpu_memory import DevicePool
from maxlab.driver.lanes import Lane

ON_A_GPU = os.environ.get("MAXLAB_TEST_DEVICE") == "cuda"


@pytest.fixture(scope="module", autouse=True)
def _device() -> Iterator[None]:
    if ON_A_GPU:
        yield
    else:
        with driver.simulated(2):
            yield


@pytest.fixture(scope="module", autouse=True)
def _full_of_nan(_device: None) -> Iterator[None]:
    """New memory of a simulated device is NaN, whatever was in it: what no kernel writes shows."""
    if ON_A_GPU:
        yield
        return

    def take(pool: DevicePool, nbytes: int, stream: Lane) -> int:
        address = kept(pool, nbytes, stream)
        ctypes.memset(address, 0xFF, nbytes)
        return address

    kept = DevicePool.take
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DevicePool, "take", take)
        yield


@pytest.fixture(scope="module")
def gpu(_device: None) -> driver.Accelerator:
    """The first accelerator."""
    return driver.Accelerator(0)
