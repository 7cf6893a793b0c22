"""The instruction sets for which the library of products has texts of its own.

Where this processor lacks an instruction, C that does the same takes its place: so each text runs
on any machine. A set without such C is left out where it cannot run.
"""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cffi
import pytest

from tests.kernels_c.conftest import FLAGS, SOURCES, cdef, compiler_command


@dataclass(frozen=True)
class InstructionSet:
    """A way to compile the library: ``flags`` of the compiler, and what ``/proc/cpuinfo`` has to
    have for it."""

    flags: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """What this processor lacks."""
        if not self.needs:
            return []
        if platform.machine() not in ("x86_64", "AMD64"):
            return list(self.needs)
        has = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
        return [name for name in self.needs if name not in has]


TILES = ("-mamx-tile", "-mamx-int8", "-mamx-bf16")
AVX512 = ("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd")
SETS = {
    "native": InstructionSet(("-march=native",)),
    "tiles asked for": InstructionSet(("-march=native", *TILES), ("sse2",)),
    "tiles": InstructionSet(("-march=native", "-DMX_EMULATED_TILES=1")),
    "tiles refused": InstructionSet(("-march=native", "-DMX_EMULATED_TILES=0")),
    "emulated": InstructionSet(("-DMX_EMULATED_VNNI", "-DMX_EMULATED_PAIRS")),
    "avx512": InstructionSet(("-march=skylake-avx512",), AVX512),
    "avx-vnni": InstructionSet(("-march=haswell", "-mavxvnni"), ("avx2", "avx_vnni")),
    "avx2": InstructionSet(("-march=haswell",), ("avx2", "fma")),
    "plain": InstructionSet(),
}


def open_products(name: str, folder: Path, files: list[str]) -> tuple[Any, Any]:
    """``files`` of the library, compiled for the instruction set ``name``, and their ffi."""
    chosen = SETS[name]
    if missing := chosen.missing():
        pytest.skip(f"this processor lacks {' '.join(missing)}")
    out = folder / "products.so"
    plain = [flag for flag in FLAGS if not flag.startswith("-m")]
    flags = ["-O2", "-std=gnu11", *plain, *chosen.flags, f"-I{SOURCES}"]
    sources = [str(SOURCES / file) for file in files]
    subprocess.run([*compiler_command(), *flags, *sources, "-o", str(out), "-lm"], check=True)
    ffi = cffi.FFI()
    ffi.cdef(cdef())
    return ffi.dlopen(str(out)), ffi
