"""A pytest plugin: keeps the tests that use the device, and writes down each result at once.

A test that hangs takes its process with it; what is in the file by then stays.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from scripts.gpu_checks.watch_file import FILE, SHARE


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop tests that run on the simulator or the fake driver alone, and other processes'."""
    number, of = (int(part) for part in os.environ.get(SHARE, "0/1").split("/"))
    fitting = [item for item in items if uses_the_device(item)]
    kept = fitting[number::of]
    others = len(items) - len(fitting)
    left = set(map(id, kept))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in left])
    items[:] = kept
    # Every share sees all tests; those for no device are counted once.
    _write({"collected": len(kept), "deselected": 0 if number else others})


def uses_the_device(item: Any) -> bool:
    """Whether a test takes the accelerator, or is the ``gpu`` half of one that runs on two."""
    if "gpu" in item.fixturenames:
        return True
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return bool(parameters.get("on_device") == "gpu")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """One line when a test has ended, or has failed before or after."""
    if report.when == "call" or report.outcome != "passed":
        found: dict[str, Any] = {"test": report.nodeid, "outcome": report.outcome}
        if report.failed:
            found["why"] = str(report.longrepr)[-2000:]
        elif report.skipped:
            found["why"] = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _write(found)


def _write(found: dict[str, Any]) -> None:
    with Path(os.environ[FILE]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(found) + "\n")
