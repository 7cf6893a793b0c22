"""C source text in, callable addresses out: compiler discovery, cache, loader, runtime library.

Stands above the ground floor and knows nothing of graphs. `compile_units` turns generated
kernels into addresses, `runtime` opens the hand-written library they are run by, and
`doctor_rows` says what this machine lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxlab.toolchain.artefacts import cache
from maxlab.toolchain.compiler import Compiler, find_compiler
from maxlab.toolchain.flags import Flags
from maxlab.toolchain.library import Runtime, ended_with_its_caller, runtime, runtime_ahead
from maxlab.toolchain.prelude import kernels_dir, prelude_for
from maxlab.toolchain.units import KernelSource, LoadedKernel, compile_units, forget

if TYPE_CHECKING:
    from maxlab.toolchain.doctor import DoctorRow, doctor_rows

__all__ = [
    "Compiler",
    "DoctorRow",
    "Flags",
    "KernelSource",
    "LoadedKernel",
    "Runtime",
    "cache",
    "compile_units",
    "doctor_rows",
    "ended_with_its_caller",
    "find_compiler",
    "forget",
    "kernels_dir",
    "prelude_for",
    "runtime",
    "runtime_ahead",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """What only a doctor asks, imported then: it looks for CUDA too."""
        if name not in ("DoctorRow", "doctor_rows"):
            raise AttributeError(f"module 'maxlab.toolchain' has no attribute {name!r}")
        from maxlab.toolchain import doctor

        return getattr(doctor, name)
