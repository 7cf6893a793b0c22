"""``MAXLAB_*`` variables and arguments of a session, with values that are no setting."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.config import read_config, set_config
from maxlab.toolchain import forget
from tests.hostile.harness import WEIRD, Case, Family
from tests.lab.graphs import small

VARIABLES = (
    "MAXLAB_CACHE_DIR", "MAXLAB_CC", "MAXLAB_NUM_THREADS", "MAXLAB_TRACE_EVENTS",
    "MAXLAB_SIMULATOR", "MAXLAB_KEEP_SOURCE", "MAXLAB_ENABLE_PROFILING",
    "MAXLAB_SIMULATOR_CHECK", "XDG_CACHE_HOME",
)  # fmt: skip
TEXTS = (
    "", "0", "1", "-1", "2", "1.5", "1e3", "nan", "x", " ", "yes", "~nosuch/x", "~", "/",
    "/dev/null", "/dev/zero", "/proc/1/x", "..", "gcc '", "gcc -O9 -Wnope", "false", "true",
    "/nonexistent/cc", "9" * 30, "9" * 5000, "\u00bd", "0x10", "\udcff", "cat", "sleep 0", "echo",
)  # fmt: skip


_warm: list[str] = []


def _ready() -> None:
    """A cache with the kernels that a case needs, unless its settings make other ones."""
    _warm[:] = [tempfile.mkdtemp(prefix="hostile-settings-")]
    atexit.register(shutil.rmtree, _warm[0], ignore_errors=True)
    old = set_config(read_config({"XDG_CACHE_HOME": _warm[0]}))
    _session({}).run(Path("/"))
    set_config(old)
    forget()


def _environment(env: dict[str, str]) -> Case:
    def run(folder: Path) -> None:
        set_config(read_config({"XDG_CACHE_HOME": _warm[0], **env}))
        model = engine.InferenceSession().load(small())
        model(np.ones((2, 8), np.float32))

    return Case(f"with {env!r:.200}", run)


def _session(arguments: dict[str, Any]) -> Case:
    def run(folder: Path) -> None:
        model = engine.InferenceSession(**arguments).load(small())
        model(np.ones((2, 8), np.float32))

    return Case(f"a session of {arguments!r:.200}", run)


def _draw(random: Random) -> Case:
    if random.random() < 0.3:
        name = random.choice(("num_threads", "devices", "custom_extensions"))
        return _session({name: random.choice(WEIRD)})
    names = random.sample(VARIABLES, random.randrange(1, 3))
    return _environment({name: random.choice(TEXTS) for name in names})


SEEDS = [
    _session({"num_threads": 10**30}),
    *(_environment({name: text}) for name in ("MAXLAB_CACHE_DIR", "MAXLAB_CC") for text in TEXTS),
]

FAMILIES = (Family("settings", SEEDS, _draw, 1000, _ready, block=20),)
