"""Ctrl-C in the middle of a kernel: it is prompt, and the model is as good as before."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.toolchain import library
from tests.engine.interrupted import FAMILIES, interrupted, ones, run
from tests.processes import unfilled

CPU = DeviceRef.CPU()
HANG = 60
"""Seconds after which a child is taken to hang; an interrupt takes a tenth of a second."""


def child(*arguments: str, text: str = "") -> str:
    """What a program prints that ends by itself."""
    command = ["-c", text] if text else ["-m", "tests.engine.interrupted", *arguments]
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True, text=True, timeout=HANG, check=False, env=unfilled(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("kind", ["rows", "product", "window", "loop"])
def test_every_kind_of_kernel_ends(kind: str) -> None:
    """One process for the families of a kind: to start it takes longer than to interrupt them."""
    names = [name for name, family in FAMILIES.items() if family.kind == kind]
    lines = [json.loads(line) for line in child(*names).splitlines()]
    assert [(name, threads) for name, threads, _, _ in lines] == [
        (name, threads) for name in names for threads in (1, 2)
    ]
    for name, _, seconds, grown in lines:
        assert seconds < 10, name
        assert grown < 128, name  # MiB: outputs and arenas are given back


# ---------------------------------------------------------------- whose signal it is
def endless(threads: int = 1, dim: str = "n") -> Any:
    """A model whose only step takes days for large sizes."""
    with Graph("sum", input_types=[TensorType(DType.uint8, [dim, 0], CPU)]) as graph:
        graph.output(ops.sum(ones([graph.inputs[0].tensor.shape[0]], 1, DType.int64)))
    return engine.InferenceSession(num_threads=threads).load(graph)


@contextmanager
def handled(handler: Any) -> Iterator[None]:
    """SIGINT is handled by ``handler``."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def later(seconds: float) -> threading.Timer:
    """Sends a SIGINT to this process after some time."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@functools.cache
def speed() -> float:
    """How many elements `endless` sums up in a second, at the best of three."""
    model, n = endless(), 1 << 27
    took = []
    for _ in range(3):
        begin = time.monotonic()
        run(model, n)
        took.append(time.monotonic() - begin)
    return n / min(took)


def elements(seconds: float) -> int:
    """How many elements are summed up in about so many seconds, or more on a busy machine."""
    return int(speed() * seconds)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_handler_that_returns_lets_the_run_go_on(threads: int) -> None:
    seen: list[float] = []
    model, n = endless(threads), elements(1)
    with handled(lambda *_: seen.append(time.monotonic())):
        timer = later(0.2)
        found = run(model, n)
        ended = time.monotonic()
        timer.join()
    assert seen, "the handler ran"
    assert seen[0] < ended, "the handler ran while the kernel did"
    assert found == n


def test_a_handler_may_run_the_same_model() -> None:
    model, n = endless(2), elements(1)
    found: list[float] = []
    with handled(lambda *_: found.append(run(model, 10).item())):
        timer = later(0.2)
        run(model, n)
        timer.join()
    assert found == [10]


def test_a_signal_that_is_ignored_ends_nothing() -> None:
    model, n = endless(), elements(1)
    with handled(signal.SIG_IGN):
        timer = later(0.2)
        found = run(model, n)
        timer.join()
    assert found == n


def test_a_handler_may_raise_what_it_likes() -> None:
    class EnoughError(Exception):
        pass

    def handler(*_: Any) -> None:
        raise EnoughError

    model = endless()
    with handled(handler):
        timer = later(0.2)
        with pytest.raises(EnoughError):
            run(model, elements(10))
        timer.join()
    assert run(model, 5) == 5


def test_other_signals_are_handled_too() -> None:
    model = endless()

    def handler(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(TimeoutError):
            run(model, elements(10))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert run(model, 5) == 5


def test_a_run_on_another_thread_is_not_ended() -> None:
    """Python gives Ctrl-C to the main thread, and so do we."""
    model, n, found = endless(), elements(1), []
    worker = threading.Thread(target=lambda: found.append(run(model, n)))
    with handled(signal.default_int_handler):
        worker.start()
        timer = later(0.2)
        with pytest.raises(KeyboardInterrupt):
            time.sleep(HANG)
        timer.join()
    assert not found
    worker.join()
    assert found == [n]


def test_who_waits_for_the_run_of_another_thread_can_be_interrupted() -> None:
    model, n, found = endless(), elements(1), []
    worker = threading.Thread(target=lambda: found.append(run(model, n)))
    with handled(signal.default_int_handler):
        worker.start()
        time.sleep(0.1)
        interrupted(model, n, after=0.1)
        assert not found
    worker.join()
    assert found == [n]


# ---------------------------------------------------------------- what else runs models
def test_a_stage_whose_sizes_are_computed() -> None:
    with Graph("staged", input_types=[TensorType(DType.int64, ["k"], CPU)]) as graph:
        count = ops.cast(ops.sum(graph.inputs[0].tensor), DType.int64)
        big = ops.range(
            ops.constant(0, DType.int64, CPU), ops.reshape(count, []),
            ops.constant(1, DType.int64, CPU), out_dim="m", dtype=DType.int64, device=CPU,
        )  # fmt: skip
        rows = ops.broadcast_to(ops.reshape(big, [1, "m"]), [2**35, "m"])
        graph.output(ops.sum(rows, axis=0))
    model = engine.InferenceSession().load(graph)
    with handled(signal.default_int_handler):
        timer = later(0.3)
        with pytest.raises(KeyboardInterrupt):
            model(np.array([3]))
        timer.join()


def test_a_profile_and_a_walk_end() -> None:
    from maxlab.engine.stepping import Walk

    model = endless()
    given = np.zeros((elements(10), 0), np.uint8)
    with handled(signal.default_int_handler):
        for long in (lambda: model.profile(given), lambda: list(Walk(model, [given]))):
            timer = later(0.2)
            with pytest.raises(KeyboardInterrupt):
                long()
            timer.join()
    assert run(model, 5) == 5


def test_the_process_ends_while_a_thread_runs() -> None:
    """A thread of the background does not keep the process from ending."""
    text = textwrap.dedent("""
        import threading, time
        from tests.engine.test_interrupt import endless, run
        model = endless()
        run(model, 3)
        threading.Thread(target=run, args=(model, 2**40), daemon=True).start()
        time.sleep(0.3)
        print("end")
    """)
    assert child(text=text) == "end\n"


def test_a_simulated_gpu_ends() -> None:
    text = textwrap.dedent("""
        import os, signal, threading
        import numpy as np
        from maxlab import driver, engine
        from maxlab.dtype import DType
        from maxlab.graph import DeviceRef, Graph, TensorType, ops
        cpu, gpu = DeviceRef.CPU(), DeviceRef.GPU()
        with driver.simulated(1):
            with Graph("sum", input_types=[TensorType(DType.uint8, ["n", 0], cpu)]) as graph:
                one = ops.constant(1, DType.int64, gpu)
                n = graph.inputs[0].tensor.shape[0]
                graph.output(ops.sum(ops.broadcast_to(one, [n])))
            devices = [driver.Accelerator(), driver.CPU()]
            model = engine.InferenceSession(devices=devices).load(graph)

            def result(n):
                return model(np.zeros((n, 0), np.uint8))[0].to(driver.CPU()).to_numpy().item()

            print(result(100))
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                result(2**44)  # takes hours
            except KeyboardInterrupt:
                print("interrupted")
            print(result(101))
    """)
    assert child(text=text).split() == ["100", "interrupted", "101"]


# ---------------------------------------------------------------- every kernel looks
CASES: dict[str, tuple[list[int], Callable[[Any], Any]]] = {
    "argsort": ([1 << 22], ops.argsort),
    "top_few": ([1, 1 << 23], lambda x: ops.top_k(x, 3, axis=-1)[0]),
    "top_many": ([1, 1 << 22], lambda x: ops.top_k(x, 300, axis=-1)[0]),
    "cumsum_row": ([1 << 24], lambda x: ops.cumsum(x, axis=0)),
    "cumsum_columns": ([1 << 20, 16], lambda x: ops.cumsum(x, axis=0)),
    "random": ([1], lambda x: ops.random.normal(TensorType(DType.float32, [1 << 24], CPU))),
    "nonzero": ([1 << 24], lambda x: ops.nonzero(x, out_dim="found")),
    "copy": ([1 << 24], lambda x: ops.concat([x, x])),
    "transpose": ([1 << 12, 1 << 12], lambda x: ops.transpose(x, 0, 1) + 0),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_kernels_whose_operands_are_in_memory_look_now_and_then(case: str, threads: int) -> None:
    """They end by themselves soon in a test, so it counts how often they ask whether to go on."""
    shape, build = CASES[case]
    with Graph("g", input_types=[TensorType(DType.float32, shape, CPU)]) as graph:
        ops.random.set_seed(3)
        graph.output(build(graph.inputs[0].tensor))
    model = engine.InferenceSession(num_threads=threads).load(graph)
    x = np.random.default_rng(3).standard_normal(shape, np.float32)
    looks = 0

    def count() -> None:
        nonlocal looks
        looks += 1

    with library.runtime().interrupts.heard_by(count, period_ns=0):
        first = model(x)[0].to_numpy()
    assert looks >= 2
    np.testing.assert_array_equal(model(x)[0].to_numpy(), first)
