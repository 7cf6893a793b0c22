"""Hand-written kernels under test: modules of the simulator, and what nvcc says of the same text.

Kernels of ``kernels/cuda`` are templates that generated kernels call. The tests print small kernels
around them and run these on the simulator, or hand them to nvcc for each architecture.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from maxlab.driver.sim import SimModule
from maxlab.toolchain import kernels_dir
from maxlab.toolchain.nvlib import find_program
from maxlab.toolchain.nvrtc import find_nvrtc

Array = np.ndarray[Any, Any]

ARCHITECTURES = ("80", "90a", "100")
DTYPES: dict[str, Any] = {
    "f32": np.float32,
    "mx_bf16": ml_dtypes.bfloat16,
    "mx_f16": np.float16,
}
"""Element types of the templates and the NumPy types of what they hold."""


def stored(name: str) -> str:
    """What elements of type ``name`` are called behind a kernel's pointer."""
    return "f32" if name == "f32" else "u16"


def module(text: str, headers: Sequence[str], *, check: bool = False) -> SimModule:
    """The kernels of ``text`` on the simulator, with ``headers`` of ``kernels/cuda`` before it."""
    folder = kernels_dir() / "cuda"
    return SimModule(text, check=check, headers=[folder / name for name in headers])


@dataclass(frozen=True)
class Resources:
    """What ptxas made of a kernel; all but ``registers`` in bytes."""

    registers: int
    stack: int
    spilled: int
    shared: int


def compile_for_devices(
    text: str, headers: Sequence[str], folder: Path, architecture: str
) -> dict[str, Resources]:
    """What nvcc makes of each kernel of ``text``; skips without nvcc, fails on a warning."""
    nvcc = find_program("nvcc")
    if nvcc is None:
        pytest.skip("nvcc was not found")
    lines = [f'#include "{name}"' for name in ("mx_device.cuh", *headers)]
    file = folder / "kernels.cu"
    file.write_text("\n".join([*lines, text]))
    target = f"-gencode=arch=compute_{architecture},code=sm_{architecture}"
    command: list[str] = [str(nvcc), "-std=c++17", "-cubin", target, "-Xptxas", "-v"]
    command += [f"-I{kernels_dir() / 'cuda'}", "-o", str(folder / "kernels.cubin"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr[:2000]
    found: dict[str, Resources] = {}
    for part in done.stderr.split("Compiling entry function")[1:]:
        name = re.search(r"'(\w+)'", part)
        frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", part)
        registers = re.search(r"Used (\d+) registers", part)
        shared = re.search(r"(\d+) bytes smem", part)
        assert name is not None, part
        assert frame is not None, part
        assert registers is not None, part
        found[name[1]] = Resources(
            int(registers[1]), int(frame[1]), int(frame[2]), int(shared[1]) if shared else 0
        )
    return found


def compile_by_nvrtc(text: str, headers: Sequence[str]) -> None:
    """Fails on what NVRTC, which has no C++ library, refuses or warns of; skips without it."""
    nvrtc = find_nvrtc()
    if nvrtc is None:
        pytest.skip("libnvrtc was not found; pip install nvidia-cuda-nvrtc")
    folder = kernels_dir() / "cuda"
    options = ["--gpu-architecture=sm_90", "--std=c++17"]
    options += [f"--pre-include={folder / name}" for name in ("mx_device.cuh", *headers)]
    result = nvrtc.compile(text, "kernels.cu", options)
    assert result.code is not None, result.log
    assert not result.log.strip("\0\n"), result.log


@dataclass(frozen=True)
class Matrices:
    """``items`` matrices somewhere in an array: where they begin, and their strides in elements."""

    array: Array
    offset: int
    item: int
    row: int
    column: int
    values: Array

    @property
    def strides(self) -> list[int]:
        """The offset, and the strides of items, rows and columns, as the kernels take them."""
        return [self.offset, self.item, self.row, self.column]


def matrices(
    rng: np.random.Generator, items: int, rows: int, columns: int, layout: str, dtype: str
) -> Matrices:
    """Random matrices of shape ``[items, rows, columns]`` that lie in memory as ``layout`` says.

    ``rows`` and ``columns`` are contiguous along that axis, each vector next to the other; with
    ``-padded`` vectors begin a multiple of 16 bytes apart and with ``-shifted`` they do too, but
    the first one does not lie at such an address. ``strided`` has gaps along both axes, and
    ``shared`` is one matrix for all items.
    """
    kind, _, extra = layout.partition("-")
    inner, outer = (rows, columns) if kind == "columns" else (columns, rows)
    pitch = -(-max(inner, 1) // 8) * 8 if extra else max(inner, 1)
    offset = 1 if extra == "shifted" else 0
    strides = (1, pitch) if kind == "columns" else (pitch, 1)
    item = pitch * max(outer, 1)
    if kind == "strided":
        strides, item, offset = (3 * max(columns, 1) + 5, 3), 3 * (columns + 4) * (rows + 1), 2
    if kind == "shared":
        item = 0
    size = offset + item * max(items, 1) + strides[0] * rows + strides[1] * columns + 1
    array = rng.standard_normal(size).astype(np.float32).astype(DTYPES[dtype])
    place = offset + (
        np.arange(items)[:, None, None] * item
        + np.arange(rows)[None, :, None] * strides[0]
        + np.arange(columns)[None, None, :] * strides[1]
    )
    values = array[place].astype(np.float64)
    raw = array if dtype == "f32" else array.view(np.uint16)
    return Matrices(raw, offset, item, *strides, values)
