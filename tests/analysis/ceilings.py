"""A machine whose ceilings are round numbers, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from maxlab.analysis import machine as machines
from maxlab.analysis.machine import Ceilings, Level, Machine, Rate


def ceilings(threads: int = 1) -> Ceilings:
    """Ceilings of ``threads`` threads: caches and arithmetic grow with them, memory does not."""
    levels = (
        Level("L1", (32 << 10) * threads, 200.0 * threads, 200.0 * threads, 200.0 * threads),
        Level("L2", (1 << 20) * threads, 100.0 * threads, 100.0 * threads, 100.0 * threads),
        Level("L3", 32 << 20, 50.0 * threads, 40.0 * threads, 40.0 * threads),
        Level("DRAM", 0, 20.0, 16.0, 15.0),
    )
    rates = (
        Rate("f32 FMA", 100.0 * threads, "peak", "float32"),
        Rate("f64 FMA", 50.0 * threads, "peak", "float64"),
        Rate("bf16 dot", 200.0 * threads, "peak", "bfloat16"),
        Rate("f32 product", 90.0 * threads, "product", "float32"),
        Rate("f64 product", 20.0 * threads, "product", "float64"),
        Rate("bf16 product", 30.0 * threads, "product", "bfloat16"),
        Rate("f32 exp", 25.0 * threads, "math", "float32"),
        Rate("f64 exp", 2.0 * threads, "math", "float64"),
    )
    fast = {"exp": 0.9, "tanh": 0.8, "max": 1.0, "sum": 1.0, "div": 0.95}
    return Ceilings("cpu", threads, levels, rates, 30.0, 30.0 if threads == 1 else 130.0, fast)


def machine(threads: int = 2) -> Machine:
    """A machine of one and of ``threads`` threads."""
    at = {n: ceilings(n) for n in sorted({1, threads})}
    return Machine("a made-up processor", 1.7e9, 1.0, at)


@contextmanager
def known(found: Machine | None) -> Iterator[None]:
    """While it lasts, the ceilings of this machine are ``found``, or not known."""

    def answer(threads: int, device: object = None) -> Machine | None:
        return found if found is not None and threads in found.at else None

    with mock.patch.object(machines, "known", answer):
        yield
