"""Signals at any moment of building, compiling, loading, running and profiling. Their handlers
raise or do not. What a handler raises comes out as it is, and then everything works as before.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.config import config, set_config
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.toolchain import forget
from maxlab.toolchain.library import runtime
from tests.engine.interrupted import FAMILIES as LONG
from tests.engine.interrupted import build
from tests.hostile.harness import Case, Family, WrongResultError
from tests.lab.graphs import layered, small

X = np.linspace(-3, 3, 16, dtype=np.float32).reshape(2, 8)
ENDLESS = 2**40
THREADS = (1, 2)

_made: dict[Any, Any] = {}


class StopError(Exception):
    """What some handlers raise."""


class Stop(BaseException):
    """What others raise."""


def _turns(size: TensorValue, n: Any) -> TensorValue:
    """n turns of a loop with little to do."""
    cpu = DeviceRef.CPU()
    begin = ops.constant(0, DType.int64, cpu)
    x = ops.constant(np.ones(64, np.float32))
    return ops.while_loop([begin, x], lambda i, x: i < n, lambda i, x: [i + 1, x * 0.5 + 1])[1]


def _ready() -> None:
    root = Path(tempfile.mkdtemp(prefix="hostile-signals-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    old = set_config(replace(config(), cache_dir=root))
    runtime()
    _made["cache"] = root  # with the runtime, and without kernels
    set_config(old)
    forget()
    graphs = {
        "sum": build(LONG["sum"]),
        "rows": build(LONG["rows"]),
        "loop": Graph("loop", _long(_turns), [TensorType(DType.uint8, ["n", 0], DeviceRef.CPU())]),
    }
    for threads in THREADS:
        session = engine.InferenceSession(num_threads=threads)
        for name, graph in graphs.items():
            model = _made[name, threads] = session.load(graph)
            _made["answer", name] = _run(model, 50)
        _made["small", threads] = session.load(small())
        _made["answer", "small"] = _made["small", threads](X)[0].to_numpy()


def _long(make: Callable[[TensorValue, Any], TensorValue]) -> Callable[[Any], Any]:
    return lambda size: make(size, size.shape[0])


def _run(model: Any, n: int) -> Any:
    return model(np.zeros((n, 0), np.uint8))[0].to_numpy()


# ---------------------------------------------------------------- what is interrupted
def _small(threads: int) -> Any:
    return engine.InferenceSession(num_threads=threads).load(small())


def _built(threads: int) -> Any:
    return str(layered(2))


def _loaded(threads: int) -> Any:
    return _small(threads)(X)[0].to_numpy()


def _loaded_anew(threads: int) -> Any:
    forget()
    return _small(threads)(X)[0].to_numpy()


def _ran(name: str, size: int, threads: int) -> Any:
    return _run(_made[name, threads], size)


def _called(threads: int) -> Any:
    return _made["small", threads](X)[0].to_numpy()


def _profiled(threads: int) -> Any:
    _made["small", threads].profile(X, runs=3, warmup=1)
    return _called(threads)


SIZES = {"sum": 2**26, "rows": 4000, "loop": 20_000}
"""Sizes that take some 10 ms."""
ACTIONS: dict[str, Callable[[int], Any]] = {
    "a build": _built,
    "a load": _loaded,
    "a load of what is on the disk": _loaded_anew,
    "a compilation": _loaded_anew,
    "a run": _called,
    "a profile": _profiled,
    **{f"a long run of {name}": partial(_ran, name, size) for name, size in SIZES.items()},
    **{f"an endless run of {name}": partial(_ran, name, ENDLESS) for name in ("sum", "loop")},
}
AFTER: dict[str, tuple[Callable[[int], Any], str]] = {
    **{f"a long run of {name}": (partial(_ran, name, 50), name) for name in SIZES},
    **{f"an endless run of {name}": (partial(_ran, name, 50), name) for name in SIZES},
    "a run": (_called, "small"),
    "a profile": (_profiled, "small"),
}
"""What has to work behind an action, and the answer; a load of the same when left out."""

SIGNALS = ("SIGINT", "SIGTERM", "SIGALRM", "SIGUSR1")
RAISED: dict[str, type[BaseException] | None] = {
    "nothing": None,
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": SystemExit,
    "an Exception": StopError,
    "a BaseException": Stop,
}


def _send(number: int, seconds: float) -> None:
    """Sends this process a signal in ``seconds``, whatever it does then."""
    if number == signal.SIGALRM:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        return
    here = os.getpid()
    if os.fork() == 0:
        try:
            time.sleep(seconds)
            os.kill(here, number)
        finally:
            os._exit(0)


def _case(name: str, threads: int, number: str, raised: str, ms: float) -> Case:
    if name.startswith("an endless run") and raised == "nothing":
        name = name.replace("an endless run", "a long run")

    def run(folder: Path) -> None:
        if name == "a compilation":
            root = folder / "cache"
            shutil.copytree(_made["cache"], root)
            set_config(replace(config(), cache_dir=root))
        kind = RAISED[raised]
        arrived: list[int] = []
        lost: list[Any] = []
        sys.unraisablehook = lost.append

        def handle(signal_number: int, frame: Any) -> None:
            arrived.append(signal_number)
            if kind is not None:
                raise kind("from the handler")

        signal.signal(signal.Signals[number], handle)
        begun = time.monotonic()
        try:
            _send(signal.Signals[number], ms / 1000)
            while not arrived:
                ACTIONS[name](threads)
                if time.monotonic() - begun > 20:
                    raise WrongResultError("the handler was not called")
        except MaxlabError as error:
            raise WrongResultError(f"{type(error).__name__} instead of what was raised: {error}"
                                   ) from error  # fmt: skip
        except (KeyboardInterrupt, SystemExit, StopError, Stop) as error:
            if type(error) is not kind:
                raise
        else:
            if kind is not None and not lost:  # Python has no way out of a finaliser for it
                raise WrongResultError("what the handler raised did not come out")
        _check(name, threads)

    return Case(f"{number} at {ms} ms of {name}, {threads} threads, raises {raised}", run)


def _check(name: str, threads: int) -> None:
    """The same works now."""
    for _ in range(2):
        act, answer = AFTER.get(name, (_loaded, "small"))
        made = act(threads)
        if not np.array_equal(made, _made["answer", answer]):
            raise WrongResultError(f"{made} instead of {_made['answer', answer]}")


def _draw(random: Random) -> Case:
    name = random.choice(sorted(ACTIONS))
    if name == "a compilation" and random.random() < 0.5:  # they take long
        name = "a load of what is on the disk"
    ms = random.random() * (300 if name == "a compilation" and random.random() < 0.5 else 30)
    return _case(
        name, random.choice(THREADS), random.choice(SIGNALS), random.choice(sorted(RAISED)), ms
    )


SEEDS = [
    *(_case(name, 2, "SIGINT", "KeyboardInterrupt", 5) for name in ACTIONS),
    *(_case(name, 1, "SIGALRM", "an Exception", 5) for name in ACTIONS),
    *(_case("a compilation", 2, "SIGTERM", "SystemExit", ms) for ms in (20, 50, 100, 200)),
    _case("a compilation", 1, "SIGUSR1", "nothing", 50),
    *(_case("a build", 1, "SIGALRM", "an Exception", ms) for ms in range(10)),
]

FAMILIES = (Family("signals", SEEDS, _draw, 1000, _ready, block=40),)
