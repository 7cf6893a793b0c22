"""Programs of tests that may hang, crash or eat memory: each in a process of its own, limited."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping

from tests.diagnostics.conftest import ROOT

HANG_S = 60

# Each program runs in a fork of one process that has imported everything: a start costs a second.
_SERVER = """
import json, os, resource, signal, sys, traceback
import numpy, psutil
import maxlab
from maxlab.diagnostics import Monitor, Recording
from maxlab.lab.dashboard import picture, store, widget
from maxlab.diagnostics.monitor import marks
from maxlab.errors import FileError, MaxlabError

setup, programs, megabytes, hang_s = json.load(sys.stdin)
exec(setup)
said = {}
for name, program in programs.items():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1)
        os.dup2(write, 2)
        signal.alarm(hang_s)
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2)
        try:
            exec(program)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)
    os.close(write)
    with os.fdopen(read, errors="replace") as file:
        said[name] = file.read()
    _, status = os.waitpid(child, 0)
    if status:
        said[name] += f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
sys.stdout.write("\\nsaid:" + json.dumps(said))
"""


def each(
    programs: Mapping[str, str], setup: str = "", *, megabytes: int = 8192, hang_s: int = HANG_S
) -> dict[str, str]:
    """What each of ``programs`` printed, traceback and all.

    Args:
        programs: Python texts by name; indentation that all lines share is dropped.
        setup: runs before all of them, in the process that they are forks of.
        megabytes: of address space that each may use.
        hang_s: seconds after which one that has not ended is killed.
    """
    texts = {name: textwrap.dedent(program) for name, program in programs.items()}
    child = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )
    words = json.dumps([textwrap.dedent(setup), texts, megabytes, hang_s])
    try:
        said, _ = child.communicate(words, timeout=10 * HANG_S)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    before, _, after = said.rpartition("\nsaid:")
    assert after, before[-3000:]
    answers: dict[str, str] = json.loads(after)
    return answers


def limited(program: str, *, megabytes: int = 8192) -> str:
    """What ``program`` printed; see `each`."""
    return each({"it": program}, megabytes=megabytes)["it"]
