"""The cache of compiled kernels: files damaged, exchanged, replaced by what is no file."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

from maxlab import engine
from maxlab.config import config, set_config
from maxlab.toolchain import forget
from tests.hostile.families.paths import KINDS
from tests.hostile.harness import Case, Family, WrongResultError, mutated
from tests.lab.graphs import small

_whole: list[Path] = []
X = np.linspace(-3, 3, 16, dtype=np.float32).reshape(2, 8)
_wanted: list[object] = []


def _ready() -> None:
    """A cache with the kernels of one model, to be copied by each case, and what they compute."""
    root = Path(tempfile.mkdtemp(prefix="hostile-cache-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    old = set_config(replace(config(), cache_dir=root))
    model = engine.InferenceSession(num_threads=1).load(small())
    _wanted[:] = [model(X)[0].to_numpy()]
    set_config(old)
    _whole[:] = [root]


def _compute() -> None:
    forget()
    model = engine.InferenceSession(num_threads=1).load(small())
    (made,) = model(X)
    if not np.array_equal(made.to_numpy(), _wanted[0]):  # type: ignore[arg-type]
        raise WrongResultError(f"{made.to_numpy()} instead of {_wanted[0]}")


def _case(words: str, change: Callable[[Path, list[Path]], object]) -> Case:
    def run(folder: Path) -> None:
        root = folder / "cache"
        shutil.copytree(_whole[0], root, symlinks=True)
        root.chmod(0o700)
        set_config(replace(config(), cache_dir=root))
        change(root, sorted((root / "kernels").glob("*/*.so")))
        _compute()

    return Case(f"the cache with {words}", run)


def _kind(kind: str, which: int) -> Case:
    def change(root: Path, files: list[Path]) -> None:
        file = files[which % len(files)]
        file.unlink()
        KINDS[kind](file)

    return _case(f"{kind} in the place of file {which}", change)


def _damaged(random: Random) -> Case:
    seed = random.random()

    def change(root: Path, files: list[Path]) -> None:
        inner = Random(seed)
        file = inner.choice(files)
        content = mutated(file.read_bytes(), inner)
        file.unlink()
        file.write_bytes(content)

    return _case(f"bytes changed by {seed}", change)


def _exchanged(random: Random) -> Case:
    seed = random.random()

    def change(root: Path, files: list[Path]) -> None:
        one, other = Random(seed).sample(files, 2)
        content = one.read_bytes()
        other.unlink()
        other.write_bytes(content)

    return _case(f"one kernel under the name of another, {seed}", change)


def _open_to_others(random: Random) -> Case:
    mode = random.choice((0o777, 0o770, 0o757, 0o666, 0o000, 0o500))
    seed = random.random()

    def change(root: Path, files: list[Path]) -> None:
        inner = Random(seed)
        file = inner.choice(files)
        inner.choice((root, root / "kernels", file.parent, file)).chmod(mode)

    return _case(f"the mode {mode:o} somewhere", change)


def _draw(random: Random) -> Case:
    turn = random.randrange(4)
    if turn == 0:
        return _kind(random.choice(sorted(KINDS)), random.randrange(20))
    return (_damaged, _exchanged, _open_to_others)[turn - 1](random)


def _rootless(words: str, make: Callable[[Path], object]) -> Case:
    def change(root: Path, files: list[Path]) -> None:
        shutil.rmtree(root)
        make(root)

    return _case(f"{words} as its root", change)


SEEDS = [
    *(_kind(kind, 0) for kind in KINDS if kind != "nothing"),
    _case("no folder of kernels", lambda root, files: shutil.rmtree(root / "kernels")),
    _rootless("a file", Path.touch),
    _rootless("a pipe", os.mkfifo),
]

FAMILIES = (Family("cache_files", SEEDS, _draw, 1000, _ready, block=10),)
