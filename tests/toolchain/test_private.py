"""Folders of one process: they go with it, also when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from maxlab.toolchain import private
from tests.toolchain.small import ROOT

MAKE = (
    "import sys, time\n"
    "from maxlab.toolchain.private import private_folder\n"
    "folder = private_folder('maxlab-code-')\n"
    "(folder / 'code.so').write_text('x')\n"
    "print(folder, flush=True)\n"
)


def started(place: Path, then: str) -> tuple[subprocess.Popen[str], Path]:
    """A process that made a folder in ``place``, and the folder."""
    env = {**os.environ, "TMPDIR": str(place)}
    process = subprocess.Popen(
        [sys.executable, "-c", MAKE + then], cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_process_left_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, left = started(tmp_path, "time.sleep(600)\n")
    living, kept = started(tmp_path, "time.sleep(600)\n")
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    (tmp_path / "maxlab-of-others").mkdir()  # has no lock: nobody knows whose it is
    (tmp_path / "maxlab-link").symlink_to(kept)
    assert left.exists()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = private.private_folder("maxlab-")
    assert not left.exists()
    assert (kept / "code.so").exists()
    assert (tmp_path / "maxlab-of-others").exists()
    again = private.private_folder("maxlab-")
    assert mine.exists()
    assert again.exists()
    living.kill()
    living.communicate()
    private.private_folder("maxlab-")
    assert not kept.exists()


def test_it_goes_when_its_process_ends(tmp_path: Path) -> None:
    process, folder = started(tmp_path, "")
    process.communicate()
    assert process.returncode == 0
    assert not folder.exists()


def test_a_child_that_lives_on_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os.close(1)\n"
        "    time.sleep(600)\n"
        "print(child, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    process, folder = started(tmp_path, script)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.communicate()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    private.private_folder("maxlab-")
    assert folder.exists()
    os.kill(child, signal.SIGKILL)
    for _ in range(1000):
        private.private_folder("maxlab-")
        if not folder.exists():
            break
    assert not folder.exists()
