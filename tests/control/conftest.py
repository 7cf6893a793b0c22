"""The simulated device of the tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from maxlab import driver


@pytest.fixture(scope="module")
def gpu() -> Iterator[driver.Accelerator]:
    """A simulated accelerator."""
    with driver.simulated(1):
        yield driver.Accelerator(0)
