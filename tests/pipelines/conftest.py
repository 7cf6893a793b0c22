"""What the tests of pipelines share: a CPU that has little memory free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from maxlab.driver import Device
from maxlab.pipelines.lib import config_resolving, memory_estimation

MOST_FREE = 1 << 30
"""Bytes that a CPU has free at most. A cache that finds prefixes takes most of what is free; where
memory is filled as it is allocated, two in two processes would take more than there is."""


@pytest.fixture(scope="session", autouse=True)
def little_memory() -> Iterator[None]:
    """Let no cache on a CPU take more than a part of ``MOST_FREE``."""

    def free_memory(devices: Iterable[Device]) -> int:
        found = list(devices)
        free = memory_estimation.free_memory(found)
        return min(free, MOST_FREE) if all(one.is_host for one in found) else free

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config_resolving, "free_memory", free_memory)
        yield
