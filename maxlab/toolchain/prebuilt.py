"""The runtime and the products as machine code that an installation brings, for common CPUs.

Compiling them takes seconds, which everybody's first graph would wait for. ``python -m
scripts.prebuild`` compiles them once for each of `LEVELS` into ``kernels/prebuilt``, which wheels
contain; the first use on a machine puts one into the cache.

A file has the code of one library for all levels of an architecture, compressed together: most of
it is the same for several levels. Its first line names each code by a digest of its sources and of
the options that it was compiled with, so one of other sources is never taken; it ends in a seal
(`seals`). Where no code fits, and in a Python without ``lzma``, the libraries are compiled as
before.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from maxlab.config import config
from maxlab.digests import blake2b
from maxlab.toolchain.artefacts import Key
from maxlab.toolchain.compiler import cpu_features
from maxlab.toolchain.prelude import kernels_dir
from maxlab.toolchain.seals import open_own, read_own, unsealed

FOLDER = "prebuilt"


class Level(NamedTuple):
    """A kind of CPU.

    Attributes:
        name: What it is called.
        machine: Its architecture, as ``platform.machine`` says it.
        arguments: What gcc is told to compile for it.
        features: What the system lists for a CPU that can run the code.
        libraries: What there is code of.
    """

    name: str
    machine: str
    arguments: tuple[str, ...]
    features: frozenset[str]
    libraries: tuple[str, ...] = ("products",)


# x86-64 psABI, section 3.1.1: the micro-architecture levels, in the names of /proc/cpuinfo.
_V3 = frozenset((
    "cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3",
    "abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave",
))  # fmt: skip
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_WIDE = "-mprefer-vector-width=512"  # as code that is compiled for this machine alone


def _x86(name: str, march: str, features: frozenset[str], *extra: str) -> Level:
    return Level(name, "x86_64", (f"-march={march}", *extra, _WIDE), features)


_BASE = _x86("x86-64-v3", "x86-64-v3", _V3)


LEVELS = (
    _x86(
        "x86-64-v4-bf16", "x86-64-v4", _V4 | {"avx512_vnni", "avx512_bf16"},
        "-mavx512vnni", "-mavx512bf16",
    ),
    _x86("x86-64-v4-vnni", "x86-64-v4", _V4 | {"avx512_vnni"}, "-mavx512vnni"),
    _x86("x86-64-v4", "x86-64-v4", _V4),
    _BASE._replace(libraries=("runtime", "products")),
)  # fmt: skip
"""The kinds of CPU that there is code for, the most able first. The products have other code for
each: dot products of bytes (VNNI) and of bfloat16 are instructions of their own. The runtime only
walks through steps, which wide vectors make no faster."""


def level_of(library: str, features: frozenset[str], machine: str) -> Level | None:
    """The most able level that ``library`` has for a CPU with these features; None without one."""
    for level in LEVELS:
        if level.machine == machine and level.features <= features and library in level.libraries:
            return level
    return None


def code_name(library: str, level: Level, key: Key, arguments: Sequence[str]) -> str:
    """The name of the code of ``library`` for ``level``.

    Args:
        library: ``"runtime"`` or ``"products"``.
        level: The CPU.
        key: Has the digests of its sources.
        arguments: What compilers of the family of gcc are told beside the level's own arguments.
    """
    parts = "\0".join((key.text, key.prelude, *arguments, *level.arguments))
    return f"{blake2b(parts.encode(), digest_size=8).hexdigest()}.{level.name}.{library}"


def folder() -> Path:
    """Where the files are, if there are any."""
    return kernels_dir() / FOLDER


def file_of(library: str, machine: str) -> Path:
    """The file with the codes of ``library`` for the levels of the architecture ``machine``."""
    return folder() / f"{machine}.{library}.xz"


def packed(codes: Mapping[str, bytes]) -> bytes:
    """The content of a file with ``codes``, by their names, without a seal.

    Raises:
        ImportError: This Python has no ``lzma``.
    """
    import lzma

    head = json.dumps([[name, len(code)] for name, code in codes.items()])
    together = lzma.compress(b"".join(codes.values()), check=lzma.CHECK_NONE, preset=9)
    return head.encode() + b"\n" + together


class Codes:
    """The codes of a library, as a file has them.

    Args:
        content: The content of the file without its seal, as `packed` gives it.
    """

    def __init__(self, content: bytes) -> None:
        head, _, self._together = content.partition(b"\n")
        self._sizes: dict[str, int] = dict(json.loads(head))

    @property
    def names(self) -> list[str]:
        """The names of the codes."""
        return list(self._sizes)

    def code(self, name: str) -> bytes | None:
        """The code of this name; None where there is none, or this Python has no ``lzma``."""
        try:
            import lzma
        except ImportError:
            return None
        start = 0
        for one, size in self._sizes.items():
            if one == name:
                # what comes behind it is left as it is
                return lzma.LZMADecompressor().decompress(self._together, start + size)[start:]
            start += size
        return None


def codes_in(path: Path) -> Codes | None:
    """The codes in the file at ``path``; None where there is none, or it is not as it was sealed.

    The content is what somebody sealed, so it is of the form that `packed` gives it.
    """
    try:
        handle = open_own(path)
    except OSError:  # none was made
        return None
    try:
        content = unsealed(read_own(handle, os.fstat(handle).st_size))
    except OSError:
        return None
    finally:
        os.close(handle)
    return Codes(content.data) if content is not None and path.name in content.names else None


def has_code(library: str, key: Key, arguments: Sequence[str]) -> bool:
    """Whether there is machine code of ``library`` for this machine, as `code_of` gives it."""
    codes, name = _brought(library, key, arguments)
    return codes is not None and name in codes.names


def code_of(library: str, key: Key, arguments: Sequence[str]) -> bytes | None:
    """The machine code of ``library`` for this machine; None where it has to be compiled.

    It has to where somebody chose a compiler (``MAXLAB_CC``) or wants sources and symbols for a
    debugger (``MAXLAB_KEEP_SOURCE``), too.

    Args:
        library: ``"runtime"`` or ``"products"``.
        key: Has the digests of its sources.
        arguments: As `code_name`.
    """
    codes, name = _brought(library, key, arguments)
    return codes.code(name) if codes is not None else None


def _brought(library: str, key: Key, arguments: Sequence[str]) -> tuple[Codes | None, str]:
    """The codes of ``library`` that may be taken, and the name of the one for this machine."""
    settings, machine = config(), platform.machine()
    level = level_of(library, cpu_features(), machine)
    if level is None or settings.cc is not None or settings.keep_source:
        return None, ""
    return codes_in(file_of(library, machine)), code_name(library, level, key, arguments)
