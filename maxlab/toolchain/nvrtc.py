"""NVRTC: CUDA text to machine code in this process, ten times faster than starting nvcc.

The library is found like any other of NVIDIA's (`nvlib`) and called through its C interface
("NVRTC", CUDA Toolkit documentation); no Python package of NVIDIA's is needed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.nvlib import NvLibrary, library_paths, open_beside, open_library

MAJORS = (13, 12)
_SUCCESS = 0
_COMPILATION = 6
_FUNCTIONS = {
    "nvrtcVersion": "int (*)(int *, int *)",
    "nvrtcGetErrorString": "const char *(*)(int)",
    "nvrtcCreateProgram": "int (*)(void **, const char *, const char *, int, const char **, "
    "const char **)",
    "nvrtcDestroyProgram": "int (*)(void **)",
    "nvrtcCompileProgram": "int (*)(void *, int, const char **)",
    "nvrtcGetCUBINSize": "int (*)(void *, size_t *)",
    "nvrtcGetCUBIN": "int (*)(void *, char *)",
    "nvrtcGetPTXSize": "int (*)(void *, size_t *)",
    "nvrtcGetPTX": "int (*)(void *, char *)",
    "nvrtcGetProgramLogSize": "int (*)(void *, size_t *)",
    "nvrtcGetProgramLog": "int (*)(void *, char *)",
}


@dataclass(frozen=True, slots=True)
class NvrtcResult:
    """How a compilation ended: the code (None if the text was refused) and all that was said."""

    code: bytes | None
    log: str


class Nvrtc:
    """An opened NVRTC library.

    Attributes:
        path: where it was found.
        version: such as ``"13.0"``.
    """

    def __init__(self, library: NvLibrary) -> None:
        self._lib = library
        self.path = library.path
        major, minor = ffi.new("int *"), ffi.new("int *")
        self._check(library.nvrtcVersion(major, minor), "nvrtcVersion")
        self.version = f"{major[0]}.{minor[0]}"

    def compile(
        self, text: str, name: str, options: Sequence[str], *, ptx: bool = False
    ) -> NvrtcResult:
        """The cubin (or the PTX) of ``text``; other threads run meanwhile.

        Args:
            text: CUDA C++.
            name: what the text is called in messages.
            options: as for nvcc's front end; the architecture decides what code there is:
                ``--gpu-architecture=sm_90`` for a cubin, ``compute_90`` for PTX alone.
            ptx: return PTX.

        Raises:
            RuntimeError: the library failed for another reason than the text.
        """
        lib = self._lib
        program = ffi.new("void **")
        source, label = ffi.new("char[]", text.encode()), ffi.new("char[]", name.encode())
        created = lib.nvrtcCreateProgram(program, source, label, 0, ffi.NULL, ffi.NULL)
        self._check(created, "nvrtcCreateProgram")
        try:
            kept = [ffi.new("char[]", os.fsencode(option)) for option in options]
            array = ffi.new("const char *[]", kept)
            status = lib.nvrtcCompileProgram(program[0], len(kept), array)
            log = self._read(program[0], "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
            if status == _COMPILATION:
                return NvrtcResult(None, log)
            if status != _SUCCESS:
                raise RuntimeError(f"nvrtcCompileProgram: {self._reason(status)}\n{log}".strip())
            code = self._read(program[0], "PTX" if ptx else "CUBIN")
            return NvrtcResult(code.rstrip(b"\0") if ptx else code, log)
        finally:
            lib.nvrtcDestroyProgram(program)

    def _read(self, program: Any, what: str) -> bytes:
        size = ffi.new("size_t *")
        self._check(getattr(self._lib, f"nvrtcGet{what}Size")(program, size), f"{what}Size")
        if not size[0]:
            return b""
        memory = ffi.new("char[]", size[0])
        self._check(getattr(self._lib, f"nvrtcGet{what}")(program, memory), what)
        return bytes(ffi.buffer(memory))

    def _check(self, status: int, what: str) -> None:
        if status != _SUCCESS:
            raise RuntimeError(f"{what}: {self._reason(status)}")

    def _reason(self, status: int) -> str:
        text: bytes = ffi.string(self._lib.nvrtcGetErrorString(status))
        return text.decode()

    def __repr__(self) -> str:
        return f"Nvrtc({self.version}, {self.path})"


def find_nvrtc() -> Nvrtc | None:
    """The NVRTC of this machine, opened; None if there is none."""
    return _find(tuple(library_paths("nvrtc", MAJORS)))


@functools.lru_cache(maxsize=8)
def _find(candidates: tuple[str, ...]) -> Nvrtc | None:
    library = open_library(candidates, _FUNCTIONS)
    if library is None:
        return None
    open_beside(library.path, "libnvrtc-builtins.so.*")
    return Nvrtc(library)
