"""Tensors that several threads compute at once, while code is replaced and programs forgotten."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.compiler import compiled
from maxlab.config import config, set_config
from maxlab.experimental import functional as F  # noqa: N812 - as everybody calls it
from maxlab.experimental import programs
from maxlab.experimental.tensor import Tensor
from maxlab.toolchain import improving

SIZES = (1, 8, 1000, 40_000)


@pytest.fixture
def improved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels that begin as quick code, each compiled anew."""
    monkeypatch.setattr(compiled, "MANY_KERNELS", 1)
    old = set_config(replace(config(), cache_dir=tmp_path, plan_cache=False))
    programs.forget()
    yield
    improving.wait()
    programs.forget()
    set_config(old)


def step(seed: int, turn: int) -> None:
    """A chain of some operations, one that other threads compute too, beside NumPy."""
    rng = np.random.default_rng((seed, turn))
    kind, size = int(rng.integers(6)), SIZES[int(rng.integers(len(SIZES)))]
    given, factor = rng.random(size, np.float32), float(rng.integers(1, 9))
    x = Tensor.from_dlpack(given) * factor
    want = given * np.float32(factor)
    for n in range(kind):
        x, want = ((F.exp(-x), np.exp(-want)), (F.relu(x - 0.5), np.maximum(want - 0.5, 0)))[n % 2]
    made: Any = x.to_numpy()
    np.testing.assert_allclose(made, want, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("improved")
def test_threads_compute_while_code_is_replaced() -> None:
    threads = 2
    ended = threading.Event()

    def disturb() -> None:
        turn, took = 0, 0.0
        while not ended.wait(max(0.02, 4 * took)):  # other tests may have left much to collect
            turn += 1
            before = time.monotonic()
            gc.collect()
            took = time.monotonic() - before
            if turn % 5 == 0:
                programs.forget()  # models end, of which some are running

    def work(seed: int) -> None:
        for turn in range(60):
            step(seed, turn)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(work, seed) for seed in range(threads)]:
                done.result()
    finally:
        ended.set()
        disturber.join()
