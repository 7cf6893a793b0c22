"""What every test shares: an own cache of compiled kernels, samples of big families, and words for
what is not installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests import kernel_sockets, sampling

if TYPE_CHECKING:
    from maxlab.ir import DeviceRef

_made_cache: str | None = None
_made_data: str | None = None
_sample: sampling.Sample | None = None
_told: dict[str, None] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose between samples and whole families."""
    group = parser.getgroup("maxlab")
    group.addoption("--all", action="store_true", help="run every family whole, not a sample of it")
    group.addoption("--sample-seed", help="what decides the samples; by default, the commit")


def pytest_configure(config: pytest.Config) -> None:
    """Give the run an own kernel cache, and an own folder of what Jupyter remembers, such as which
    graphs are trusted, so that it neither reads nor fills the user's.

    Set before any test module is imported, because maxlab reads its settings once. Processes of one
    run share the cache and the seed of its samples.
    """
    global _made_cache, _made_data
    if "MAXLAB_CACHE_DIR" not in os.environ:
        _made_cache = tempfile.mkdtemp(prefix="maxlab-tests-")
        os.environ["MAXLAB_CACHE_DIR"] = _made_cache
    if "JUPYTER_DATA_DIR" not in os.environ:
        _made_data = tempfile.mkdtemp(prefix="maxlab-jupyter-")
        os.environ["JUPYTER_DATA_DIR"] = _made_data
    # Nothing is timed beside tests; those of variants say when.
    os.environ.setdefault("MAXLAB_VARIANTS", "off")
    if seed := config.getoption("--sample-seed"):
        os.environ["MAXLAB_SAMPLE_SEED"] = seed
    os.environ.setdefault("MAXLAB_SAMPLE_SEED", sampling.seed_of())
    kernel_sockets.use_files()
    _use_examples(random=config.getoption("--all"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    """Let no test decide how NumPy prints the numbers of those after it."""
    with np.printoptions():
        return (yield)


def _use_examples(*, random: bool) -> None:
    """Let hypothesis choose the same examples in each run, unless families run whole, and let no
    test fail because the machine is busy."""
    settings.register_profile(
        "maxlab",
        derandomize=not random,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("maxlab")


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
    """Remove the folders that ``pytest_configure`` made."""
    for made in (_made_cache, _made_data):
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a sample of each big family, and skip what needs packages that are missing."""
    _require_stable_ids(items)
    _choose(config, items)
    _skip_missing(items)


def _require_stable_ids(items: list[pytest.Item]) -> None:
    """Raises for ids with an address in them: the processes of a run would not know each other's
    tests."""
    bad = sorted({item.nodeid.partition("[")[0] for item in items if " at 0x" in item.nodeid})
    if bad:
        raise pytest.UsageError(f"ids with addresses; use tests.ids.stable: {', '.join(bad)}")


def _choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    global _sample
    if config.getoption("--all"):
        return
    kept, _sample = sampling.sample(
        [item.nodeid for item in items], os.environ["MAXLAB_SAMPLE_SEED"]
    )
    left = [
        item
        for item in items
        if item.nodeid not in kept and not sampling.named_on(config, item.nodeid)
    ]
    if left:
        gone = set(left)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=left)


def _skip_missing(items: list[pytest.Item]) -> None:
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if not missing:
        return
    reason = f"{' and '.join(missing)} not installed; scripts/test --oracle installs them"
    for item in items:
        if item.get_closest_marker("oracle"):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a worker of xdist tell the process that reports what it chose; all choose the same."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None and _sample is not None:
        output["sample"] = _sample.lines()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker of xdist told at its end."""
    _told.update(dict.fromkeys(getattr(node, "workeroutput", {}).get("sample", ())))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many cases of each family ran."""
    lines = list(_told) if _sample is None or not _sample.counts else _sample.lines()
    if lines:
        seed = os.environ["MAXLAB_SAMPLE_SEED"]
        terminalreporter.section(f"samples of seed {seed}; --all runs everything", "-")
        for line in lines:
            terminalreporter.write_line(line)
