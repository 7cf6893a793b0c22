"""C source text in, callable addresses out: compiler discovery, cache, loader, runtime library.

Stands above the ground floor and knows nothing of graphs. `compile_units` turns generated
kernels into addresses, `runtime` opens the hand-written library they are run by, and
`doctor_rows` says what this machine lacks.
"""

from __future__ import annotations

from maxlab.toolchain.artefacts import cache
from maxlab.toolchain.compiler import Compiler, find_compiler
from maxlab.toolchain.doctor import DoctorRow, doctor_rows
from maxlab.toolchain.flags import Flags
from maxlab.toolchain.library import Runtime, ended_with_its_caller, runtime, runtime_ahead
from maxlab.toolchain.prelude import kernels_dir, prelude_for
from maxlab.toolchain.units import KernelSource, LoadedKernel, compile_units, forget

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
