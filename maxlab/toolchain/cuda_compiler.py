"""The CUDA compiler of this machine, NVRTC or nvcc behind one interface, and its options.

NVRTC is preferred: it compiles a small kernel in 30 ms, where starting nvcc takes 280 ms. No GPU
and no driver is needed for either.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from maxlab.digests import blake2b
from maxlab.errors import ToolchainError
from maxlab.toolchain.compiler import run
from maxlab.toolchain.flags import Accuracy
from maxlab.toolchain.nvlib import find_program, include_dirs, toolkit_roots, wheel_roots
from maxlab.toolchain.nvrtc import Nvrtc, find_nvrtc

INSTALL = (
    "pip install nvidia-cuda-nvrtc (in the version of your driver: 13.0 for a driver of the 580 "
    "series), or install the CUDA toolkit and set CUDA_HOME"
)
_ARCHITECTURE = re.compile(r"sm_(?P<number>\d{2,3})(?P<feature>[af]?)")
_OLDEST = 80  # mma.m16n8k16 for bfloat16, cp.async


@dataclass(frozen=True, slots=True)
class CudaFlags:
    """The options of one compilation; equal flags share artefacts.

    Products and sums are fused (``-fmad=true``, the compiler's default), as gcc does for the C
    kernels on a CPU with FMA: both round a fused pair once, and a result is within the tolerances
    of the op table on either. Division, square root and subnormals are IEEE's on both, unless
    ``accuracy`` is ``"fast"``.

    Attributes:
        accuracy: ``"default"``: functions of float32 are CUDA's own. ``"exact"``: they are computed
            in float64 and rounded once, and products and sums are not fused. ``"fast"``:
            division, square root and functions are approximate, and subnormals are zero.
        fmad: let the compiler fuse products and sums.
        line_info: line tables, by which profilers and `sass` map instructions to the text.
        max_registers: the most registers of a thread, or None for the compiler's own choice.
        defines: macros, as ``(name, value)`` pairs.
        extra: further compiler arguments that nvcc and NVRTC both know, in order.
    """

    accuracy: Accuracy = "default"
    fmad: bool = True
    line_info: bool = True
    max_registers: int | None = None
    defines: tuple[tuple[str, str], ...] = ()
    extra: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """The compiler arguments, without files and without an architecture."""
        fused = self.fmad and self.accuracy != "exact"
        args = ["--std=c++17", f"--fmad={'true' if fused else 'false'}"]
        if self.accuracy == "fast":
            args.append("--use_fast_math")
        elif self.accuracy == "exact":
            args.append("-DMX_EXACT=1")
        if self.line_info:
            args.append("-lineinfo")
        if self.max_registers is not None:
            args.append(f"--maxrregcount={self.max_registers}")
        args += [f"-D{name}={value}" for name, value in self.defines]
        return [*args, *self.extra]

    def digest(self) -> str:
        """8 hex digits that differ when the arguments do."""
        text = "\0".join(self.arguments())
        return blake2b(text.encode(), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class Compiled:
    """How a compiler run ended: its status (0 is good), the code and all it printed."""

    status: int
    code: bytes
    log: str


class CudaCompiler(Protocol):
    """A program or library that turns CUDA text into code."""

    @property
    def description(self) -> str:
        """Its name and version; part of the name of every artefact."""

    def compile(
        self,
        text: str,
        arch: str,
        arguments: Sequence[str],
        headers: Sequence[Path],
        folder: Path,
        *,
        ptx: bool = False,
    ) -> Compiled:
        """The cubin (or PTX) of ``text`` for ``arch``, with ``headers`` read before it.

        Args:
            text: CUDA C++.
            arch: such as ``"sm_90a"``.
            arguments: see `CudaFlags`.
            headers: files, in their order.
            folder: a private directory for temporary files.
            ptx: make PTX instead of machine code.
        """


class NvccCompiler:
    """nvcc, run as a program.

    Attributes:
        path: the program.
        version: such as ``"13.0, V13.0.88"``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        done = run([str(path), "--version"], timeout_s=60.0)
        found = re.search(r"release (.+)$", done.output, re.MULTILINE)
        if done.code != 0 or found is None:
            raise ToolchainError(
                "ML501",
                f"{path} --version failed with status {done.code}",
                why=done.output.splitlines()[:3],
                fix=INSTALL,
            )
        self.version = found[1].strip()

    @property
    def description(self) -> str:
        """``nvcc`` and its version."""
        return f"nvcc {self.version}"

    def compile(
        self,
        text: str,
        arch: str,
        arguments: Sequence[str],
        headers: Sequence[Path],
        folder: Path,
        *,
        ptx: bool = False,
    ) -> Compiled:
        """See `CudaCompiler`."""
        (folder / "unit.cu").write_text(text, encoding="utf-8")
        virtual = arch.replace("sm_", "compute_")
        # The shorthand -arch=sm_90a would compile for sm_90 as well.
        target = f"-gencode=arch={virtual},code={virtual if ptx else arch}"
        made = "unit.ptx" if ptx else "unit.cubin"
        command = [str(self.path), "-ptx" if ptx else "-cubin", target, *arguments]
        command += ["-Xptxas", "-v"] if not ptx else []
        for header in headers:
            command += ["-include", str(header)]
        done = run([*command, "unit.cu", "-o", made], cwd=folder)
        code = (folder / made).read_bytes() if done.code == 0 else b""
        return Compiled(done.code, code, done.output)

    def __repr__(self) -> str:
        return f"NvccCompiler({self.version}, {self.path})"


class NvrtcCompiler:
    """NVRTC, called in this process.

    Attributes:
        nvrtc: the opened library.
    """

    def __init__(self, nvrtc: Nvrtc) -> None:
        self.nvrtc = nvrtc

    @property
    def description(self) -> str:
        """``nvrtc``, its version and its size, for the version has no patch level."""
        return f"nvrtc {self.nvrtc.version} {_file_mark(self.nvrtc.path)}"

    def compile(
        self,
        text: str,
        arch: str,
        arguments: Sequence[str],
        headers: Sequence[Path],
        folder: Path,
        *,
        ptx: bool = False,
    ) -> Compiled:
        """See `CudaCompiler`."""
        target = arch.replace("sm_", "compute_") if ptx else arch
        options = [f"--gpu-architecture={target}", *arguments]
        options += [f"--pre-include={header}" for header in headers]
        options += [f"--include-path={place}" for place in include_dirs()]
        if not ptx:
            options.append("--ptxas-options=-v")
        try:
            done = self.nvrtc.compile(text, "unit.cu", options, ptx=ptx)
        except RuntimeError as error:
            return Compiled(1, b"", str(error))
        if done.code is None:
            return Compiled(1, b"", done.log)
        return Compiled(0, done.code, done.log)

    def __repr__(self) -> str:
        return f"NvrtcCompiler({self.nvrtc.version}, {self.nvrtc.path})"


def find_cuda_compiler() -> CudaCompiler:
    """The compiler of this machine: NVRTC where its library is found, else nvcc.

    Raises:
        ToolchainError: ML501, there is neither.
    """
    nvrtc = find_nvrtc()
    if nvrtc is not None:
        return NvrtcCompiler(nvrtc)
    nvcc = find_program("nvcc")
    if nvcc is not None:
        return _nvcc(nvcc)
    looked = [str(root) for root in (*toolkit_roots(), *wheel_roots())]
    raise ToolchainError(
        "ML501",
        "no CUDA compiler was found: neither libnvrtc nor nvcc",
        why=[
            f"the PATH is {os.environ.get('PATH', '')!r}",
            f"looked in {', '.join(looked) or 'no toolkit and no wheel, for there is none'}",
        ],
        fix=INSTALL,
    )


def check_architecture(arch: str) -> str:
    """``arch`` itself, if it names an architecture that kernels can be compiled for.

    Raises:
        ToolchainError: ML502, another name, or a GPU before sm_80.
    """
    match = _ARCHITECTURE.fullmatch(arch)
    if match is None or int(match["number"]) < _OLDEST:
        raise ToolchainError(
            "ML502",
            f"kernels cannot be compiled for {arch!r}: sm_{_OLDEST} or newer is needed",
            fix="name an architecture as nvcc does: sm_80, sm_90, sm_90a, sm_100",
        )
    return arch


@functools.lru_cache(maxsize=8)
def _nvcc(path: Path) -> NvccCompiler:
    return NvccCompiler(path)


@functools.lru_cache(maxsize=8)
def _file_mark(path: str) -> str:
    """The size of a library, which tells builds of one version apart; "" where only the loader
    knows the file.
    """
    try:
        return str(os.stat(path).st_size)
    except OSError:
        return ""
