"""Generated kernels as nvcc compiles them for a device."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from maxlab.toolchain import kernels_dir
from maxlab.toolchain.cuda_usage import parse_usage
from maxlab.toolchain.nvlib import find_program

ARCHITECTURES = ("sm_90a", "sm_80", "sm_100")
"""A push compiles for the first one, ``--all`` for the others too; see ``tests/sampling.py``."""


def require_compiled(
    texts: Iterable[str], headers: Sequence[str], architecture: str, folder: Path
) -> None:
    """Raises unless nvcc compiles ``texts`` without a warning, and for the first of
    ``ARCHITECTURES``, which kernels are written for, without spilling a register.

    Args:
        texts: The kernels.
        headers: The files of ``kernels/cuda`` that they include.
        architecture: Such as ``"sm_90a"``.
        folder: Where files are written.
    """
    file, kernels = folder / "kernels.cu", list(texts)
    file.write_text("\n".join([*(f'#include "{name}"' for name in headers), *kernels]))
    command = [
        str(find_program("nvcc")), "-std=c++17", "-cubin", f"-arch={architecture}", "-Xptxas", "-v",
        f"-I{kernels_dir() / 'cuda'}", "-o", str(folder / "kernels.cubin"), str(file),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr[:2000]
    usage = parse_usage(done.stderr)
    assert len(usage) == len(kernels)
    spilled = {name: str(each) for name, each in usage.items() if each.spill_store_bytes}
    assert not spilled or architecture != ARCHITECTURES[0]
