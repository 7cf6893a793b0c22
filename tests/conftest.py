"""What every test shares: an own cache of compiled kernels, and words for what is not installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from maxlab.ir import DeviceRef

_made_cache: str | None = None


def pytest_configure() -> None:
    """Give the run an own kernel cache, so that it neither reads nor fills the user's.

    Set before any test module is imported, because maxlab reads its settings once.
    """
    global _made_cache
    if "MAXLAB_CACHE_DIR" not in os.environ:
        _made_cache = tempfile.mkdtemp(prefix="maxlab-tests-")
        os.environ["MAXLAB_CACHE_DIR"] = _made_cache


@pytest.fixture(params=["cpu", "gpu"])
def place(request: pytest.FixtureRequest) -> Iterator[DeviceRef]:
    """The CPU, then a simulated GPU; `tests.cpu_and_gpu` has what runs there."""
    from maxlab import driver
    from maxlab.ir import DeviceRef

    if request.param == "cpu":
        yield DeviceRef.CPU()
    else:
        with driver.simulated():
            yield DeviceRef.GPU()


def pytest_unconfigure() -> None:
    """Remove the cache that ``pytest_configure`` made."""
    if _made_cache is not None:
        shutil.rmtree(_made_cache, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs torch or transformers where they are missing, and say how to get them."""
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if not missing:
        return
    reason = f"{' and '.join(missing)} not installed; scripts/test --oracle installs them"
    for item in items:
        if item.get_closest_marker("oracle"):
            item.add_marker(pytest.mark.skip(reason=reason))
