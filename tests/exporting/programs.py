"""Exported programs: built once for all graphs, but for what differs, and run on files."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxlab.engine import Model
from maxlab.engine.exporting import Exported

Array = np.ndarray[Any, Any]
BUILD_S, RUN_S = 300, 60


def make(folder: Path, *arguments: str) -> None:
    """Run ``make`` in ``folder``."""
    command = ["make", "-s", *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True)
class Builder:
    """Builds programs.

    Attributes:
        objects: A folder with the compiled files that all programs share.
    """

    objects: Path

    def build(self, model: Model, folder: Path) -> Program:
        """The program of ``model``, in ``folder``."""
        made = model.export_c(folder)
        for name in made.files:
            known = self.objects / f"{Path(name).stem}.o"
            if name.endswith(".c") and not name.startswith(("plan", "kernels")) and known.exists():
                shutil.copyfile(known, folder / known.name)  # newer than the sources
        make(folder)
        return Program(folder, made)


@dataclass(frozen=True)
class Done:
    """How a run ended: its status, what it said, and its outputs when all was well."""

    code: int
    said: str
    outputs: list[Array]


@dataclass(frozen=True)
class Program:
    """A program in its folder."""

    folder: Path
    made: Exported

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The finished process; it must not have been ended by a signal."""
        env = {"PATH": os.environ["PATH"], "ASAN_OPTIONS": "exitcode=99:detect_leaks=1"}
        done = subprocess.run(
            ["./model", *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=RUN_S,
            check=False,
            env=env,
        )
        assert 0 <= done.returncode < 5, (done.returncode, done.stderr[-3000:])
        assert "runtime error" not in done.stderr, done.stderr[-3000:]
        return done

    def run(self, inputs: Sequence[Array], count: int, threads: int = 2) -> Done:
        """The outputs for ``inputs``, through .npy files."""
        names = []
        for number, array in enumerate(inputs):
            np.save(self.folder / f"in{number}.npy", array)
            names.append(f"in{number}.npy")
        outputs = [f"out{number}.npy" for number in range(count)]
        done = self.call("--threads", str(threads), *names, *outputs)
        found = [] if done.returncode else [np.load(self.folder / name) for name in outputs]
        return Done(done.returncode, done.stderr, found)
