"""Planted mistakes: each is reported, with its kind, its lines and its place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.driver.sim import Report, SimModule

Modules = Callable[[str, bool], SimModule]
SOURCE = (Path(__file__).parent / "bugs.cu").read_text("utf-8").splitlines()


def line(kernel: str, mark: str) -> int | None:
    """The line of ``kernel`` that carries ``mark``."""
    start = next(i for i, text in enumerate(SOURCE) if f"void {kernel}(" in text)
    for i in range(start, len(SOURCE)):
        if mark in SOURCE[i].partition("//")[2]:
            return i + 1
        if SOURCE[i] == "}":
            break
    return None


def f32(n: int = 64) -> np.ndarray[Any, Any]:
    return np.ones(n, np.float32)


def u32(n: int = 1) -> np.ndarray[Any, Any]:
    return np.zeros(n, np.uint32)


def i32(n: int = 64) -> np.ndarray[Any, Any]:
    return np.zeros(n, np.int32)


@pytest.fixture
def run(module: Modules) -> Callable[..., list[Report]]:
    return functools.partial(module("bugs.cu", True).launch)


# kernel: kind, buffer, grid, block, arguments, dynamic shared memory
CASES: dict[str, tuple[str, str, int, int, Callable[[], list[object]], int]] = {
    "missing_barrier": ("shared-race", "s", 1, 64, lambda: [f32(), f32()], 0),
    "missing_second_barrier": ("shared-race", "s", 1, 64, lambda: [f32(), f32(192), 3], 0),
    "missing_syncwarp": ("shared-race", "s", 1, 32, lambda: [i32()], 128),
    "divergent_deadlock": ("divergent-barrier", "", 1, 32, lambda: [i32()], 0),
    "divergent_places": ("divergent-barrier", "", 1, 64, lambda: [i32()], 0),
    "global_beyond": ("out-of-bounds", "y", 2, 64, lambda: [f32(100), f32(100), 100], 0),
    "global_before": ("out-of-bounds", "x", 1, 64, lambda: [f32(), f32(), 64], 0),
    "null_pointer": ("out-of-bounds", "", 1, 1, lambda: [f32(), None], 0),
    "shared_beyond": ("out-of-bounds", "first", 1, 64, lambda: [f32(), 1], 0),
    "dynamic_beyond": ("out-of-bounds", "tile", 1, 64, lambda: [f32()], 64 * 4),
    "uninitialised": ("uninitialised-read", "s", 1, 64, lambda: [f32(), f32(), 60], 0),
    "same_element": ("global-race", "out", 1, 64, lambda: [i32()], 0),
    "across_blocks": ("global-race", "out", 2, 32, lambda: [f32(), f32(), f32()], 0),
    "no_fence": ("global-race", "partial", 4, 1, lambda: [f32(4), u32(), f32(1)], 0),
    "half_atomic": ("global-race", "count", 1, 64, lambda: [i32(1)], 0),
    "byte_race": ("shared-race", "s", 1, 64, lambda: [np.ones(64, np.uint8)] * 2, 0),
    "forgotten_wait": ("shared-race", "s", 1, 32, lambda: [f32(), f32(128)], 0),
    "unaligned_vector": ("misaligned", "", 1, 1, lambda: [f32(), f32()], 0),
    "shuffle_from_nobody": ("inactive-lane", "", 1, 32, lambda: [i32(), 20], 0),
    "wrong_mask": ("warp-mask", "", 1, 32, lambda: [i32()], 0),
    "different_masks": ("warp-mask", "", 1, 32, lambda: [i32()], 0),
    "asserts": ("trap", "", 1, 32, lambda: [np.full(32, -1, np.int32)], 0),
}  # fmt: skip


@pytest.mark.parametrize("kernel", CASES)
def test_is_found(run: Callable[..., list[Report]], kernel: str) -> None:
    kind, buffer, grid, block, arguments, shared = CASES[kernel]
    reports = run(kernel, grid, block, arguments(), shared)
    assert [r.kind for r in reports if r.kind == kind], reports
    lines = [(r.line, r.other_line) for r in reports if r.kind == kind and r.buffer == buffer]
    assert (line(kernel, "@1"), line(kernel, "@2")) in lines or (
        kind.endswith("race") and (line(kernel, "@2"), line(kernel, "@1")) in lines
    ), reports
    # Nothing is said of lines that are right.
    marked = {line(kernel, "@1"), line(kernel, "@2"), None}
    assert {n for r in reports for n in (r.line, r.other_line)} <= marked


def test_every_kernel_is_tried(module: Modules) -> None:
    assert set(module("bugs.cu", True).kernels) == set(CASES)


def test_what_a_race_says(run: Callable[..., list[Report]]) -> None:
    (report,) = run("same_element", 1, 2, [i32()])
    assert (report.block, report.thread) == ((0, 0, 0), (1, 0, 0))
    assert (report.other_block, report.other_thread) == ((0, 0, 0), (0, 0, 0))
    assert (report.access, report.other_access, report.index) == ("write", "write", 0)
    assert str(report) == (
        "global-race in same_element: thread (1, 0, 0) of block (0, 0, 0) writes out[0], which "
        "thread (0, 0, 0) wrote with nothing to order the two\n"
        f"{line('same_element', '@1'):5} |   out[0] = threadIdx.x; // @1 @2"
    )
    assert "atomic" in report.fix


def test_what_an_index_out_of_bounds_says(run: Callable[..., list[Report]]) -> None:
    x = f32(100)
    (report,) = run("global_beyond", 2, 64, [x, x, 100])
    assert (report.block, report.thread, report.index) == ((1, 0, 0), (36, 0, 0), 100)
    assert "writes y[100], which has 100 elements" in report.message
    (report,) = run("shared_beyond", 1, 64, [f32(), 1])
    assert (report.thread, report.index) == ((63, 0, 0), 64)
    assert "index 64 of first, a 'float [64]'" in report.message


def test_which_threads_wait(run: Callable[..., list[Report]]) -> None:
    (report,) = run("divergent_deadlock", 3, 32, [i32()])
    assert "16 threads, the first (0, 0, 0), at line" in report.message
    assert "in __syncthreads(); 16 threads, the first (16, 0, 0)" in report.message


def test_a_stray_write_changes_nothing(run: Callable[..., list[Report]]) -> None:
    whole = f32(200)
    run("global_beyond", 2, 64, [whole[:100], f32(100), 100])
    assert (whole[100:] == 1).all()


def test_reports_do_not_depend_on_luck(run: Callable[..., list[Report]]) -> None:
    def found() -> list[str]:
        return [str(r) for r in run("missing_barrier", 4, 64, [f32(), f32()])]

    assert found() == found()
