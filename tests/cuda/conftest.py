"""The device that CUDA tests run on: the simulator, or a GPU with ``MAXLAB_TEST_DEVICE=cuda``."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from maxlab import driver

ON_A_GPU = os.environ.get("MAXLAB_TEST_DEVICE") == "cuda"


@pytest.fixture(scope="module", autouse=True)
def _device() -> Iterator[None]:
    if ON_A_GPU:
        yield
    else:
        with driver.simulated(2):
            yield


@pytest.fixture(scope="module")
def gpu(_device: None) -> driver.Accelerator:
    """The first accelerator."""
    return driver.Accelerator(0)
