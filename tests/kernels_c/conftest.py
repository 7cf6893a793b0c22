"""Builds kernels/c once per test session with the system's C compiler and opens it with cffi."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cffi
import pytest

from maxlab.toolchain import find_compiler
from maxlab.toolchain.prelude import FILES

SOURCES = Path(__file__).resolve().parents[2] / "kernels" / "c"
FLAGS = [
    *("-march=native", "-mprefer-vector-width=512", "-fno-math-errno", "-fno-trapping-math"),
    *("-fopenmp-simd", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror"),
]


def sections() -> dict[str, tuple[list[str], str]]:
    """The prelude's sections in file order: name -> (names it needs, text)."""
    found: dict[str, tuple[list[str], str]] = {}
    text = "\n".join((SOURCES / name).read_text() for name in FILES)
    pattern = r"^// @section (\w+)(?: needs ([\w ]+))?\n(.*?)^// @end$"
    for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
        found[match[1]] = ((match[2] or "").split(), match[3])
    return found


def prelude(*names: str) -> str:
    """The text of the named sections and all they need, in file order."""
    known = sections()
    wanted: set[str] = set()
    todo = list(names) or list(known)
    while todo:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo += known[name][0]
    return "".join(text for name, (_, text) in known.items() if name in wanted)


def cdef() -> str:
    """The declarations of the ABI as cffi reads them: no preprocessor lines, no attributes."""
    text = sections()["abi"][1] + (SOURCES / "mx_abi.h").read_text()
    text = re.sub(r"__attribute__\(\(visibility\(\"hidden\"\)\)\)[^;]*;", "", text)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    return text.replace("MX_API ", "")


def compiler_command() -> list[str]:
    """The C compiler that maxlab is told to use, with its arguments, else gcc."""
    if "MAXLAB_CC" not in os.environ and shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    compiler = find_compiler()
    quiet = [] if compiler.family == "gcc" else ["-Wno-psabi", "-Wno-unused-command-line-argument"]
    return [*compiler.command, *compiler.family_arguments, *quiet]


def _for_zig(found: re.Match[str]) -> str:
    return "-march=x86_64" + (f"_{found[1]}" if found[1] else "")


class Lab:
    """Compiles C text and opens it; the runtime library is built on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ffi = cffi.FFI()
        self.ffi.cdef(cdef())
        self._count = 0

    def compile(self, files: list[Path], name: str, *flags: str) -> Path:
        compiler = compiler_command()
        if find_compiler().family == "zig":  # which calls processors otherwise
            flags = tuple(re.sub(r"^-march=x86-64(?:-(v\d))?$", _for_zig, one) for one in flags)
        objects: list[str] = []
        for file in files:
            level = re.match(r"// maxlab-flags: (.*)", file.read_text())
            out = self.folder / f"{name}-{file.stem}.o"
            command = [*compiler, "-O1", *FLAGS, *(level[1].split() if level else []), *flags]
            subprocess.run([*command, f"-I{SOURCES}", "-c", str(file), "-o", str(out)], check=True)
            objects.append(str(out))
        library = self.folder / f"{name}.so"
        link = [*compiler, "-shared", "-pthread", *flags, *objects, "-o", str(library), "-lm"]
        subprocess.run(link, check=True)
        return library

    def open_text(self, text: str, declarations: str, *flags: str) -> Any:
        self._count += 1
        name = f"text{self._count}"
        file = self.folder / f"{name}.c"
        file.write_text(text)
        self.ffi.cdef(declarations, override=True)
        return self.ffi.dlopen(str(self.compile([file], name, *flags)))

    def open_runtime(self, name: str = "runtime", *flags: str) -> Any:
        files = sorted(SOURCES.glob("*.c"))
        opened = self.ffi.dlopen(str(self.compile(files, name, *flags)))
        opened.mx_use_lib(opened.mx_get_lib())
        return opened


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("kernels_c"))


@pytest.fixture(scope="session")
def runtime(lab: Lab) -> Any:
    return lab.open_runtime()


@pytest.fixture(scope="session")
def pointer(lab: Lab) -> Callable[[Any], Any]:
    """float32 array -> `float *` (the array must stay alive)."""
    return lambda array: lab.ffi.cast("f32 *", array.ctypes.data)
