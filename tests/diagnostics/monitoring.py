"""What the tests of the monitor share: a place for its files, and waiting without a clock."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from maxlab.diagnostics import Monitor
from maxlab.diagnostics.monitor import marks
from tests.diagnostics.conftest import ROOT

GPU = "total=1000 free=600 used=300 reserved=100 util=40 memutil=7"
PATIENCE_S = 30.0


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Recordings of this test only; whatever it started ends with it."""
    folder = tmp_path / "monitor"
    monkeypatch.setenv("MAXLAB_MONITOR_DIR", str(folder))
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    yield folder
    marks.detach()
    Monitor().stop()
    assert monitors(folder) == []


def monitors(folder: Path) -> list[psutil.Process]:
    """The processes that record below ``folder``, zombies included."""
    found = []
    for process in psutil.process_iter():
        try:
            if "maxlab-monitor" in process.cmdline() and str(folder) in str(process.open_files()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """What ``condition`` returns as soon as that is true."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE_S:.0f} s for {what}")


def samples(monitor: Monitor) -> int:
    """How many samples there are by now."""
    return len(monitor.recording()) if monitor.has_recorded else 0


def kernel(program: str, **env: str) -> subprocess.Popen[str]:
    """A program that stands for a kernel; this process is its Jupyter server."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT), "JPY_PARENT_PID": str(os.getpid()), **env},
    )
