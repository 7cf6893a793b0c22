"""The judges of results: ``reference.c`` for functions, the table's references for the rest."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from maxlab.opset import Call
from scripts.exhaustive.cases import UnaryCase

Array = np.ndarray[Any, Any]
SOURCE = Path(__file__).with_name("reference.c")
_FLAGS = ["-O3", "-march=native", "-mprefer-vector-width=512", "-fno-math-errno"]
_FLAGS += ["-fno-trapping-math", "-fopenmp-simd", "-fPIC", "-shared", "-w"]
_EVERY_RECHECK = 256
"""Of the blocks of 1024 inputs, every so-many-th has its first input computed in long double."""
_STATS = """
typedef struct { double ulps; float ulps_at; long long steps; float steps_at; long long special;
                 float special_at; long long rechecked; double loose; } stats;
"""


@dataclass
class Finding:
    """What is known of the inputs that were run; inputs are given as bits.

    Attributes:
        inputs: how many.
        ulps: the largest error, in units of the spacing at the exact result.
        steps: the most numbers between a result and the correctly rounded one.
        special: results of another kind than the exact one: NaN, infinity, sign of zero. For exact
            ops every result that is not the reference's.
        rechecked: inputs that were also computed in long double.
        loose: the most that the double and the long double differ there, in ulps.
        seconds: of all threads together.
    """

    inputs: int = 0
    ulps: float = 0.0
    ulps_at: int = 0
    steps: int = 0
    steps_at: int = 0
    special: int = 0
    special_at: int = 0
    rechecked: int = 0
    loose: float = 0.0
    seconds: float = 0.0

    def add(self, other: Finding) -> None:
        """Count ``other``, of other inputs, too."""
        if other.ulps > self.ulps:
            self.ulps, self.ulps_at = other.ulps, other.ulps_at
        if other.steps > self.steps:
            self.steps, self.steps_at = other.steps, other.steps_at
        if other.special and not self.special:
            self.special_at = other.special_at
        self.loose = max(self.loose, other.loose)
        for name in ("inputs", "special", "rechecked", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def as_json(self) -> dict[str, Any]:
        """The fields, rounded to what they mean."""
        rounded = {"ulps": round(self.ulps, 6), "seconds": round(self.seconds, 1)}
        return asdict(self) | rounded | {"loose": float(f"{self.loose:.3g}")}


@cache
def _library(functions: tuple[str, ...]) -> tuple[Any, Any]:
    ffi = cffi.FFI()
    arguments = "const float *, const float *, long long, long long, stats *"
    ffi.cdef(_STATS + "".join(f"void compare_{name}({arguments});" for name in functions))
    folder = Path(tempfile.mkdtemp(prefix="exhaustive-"))
    out = folder / "reference.so"
    command = ["gcc", *_FLAGS, str(SOURCE), "-o", str(out)]
    done = subprocess.run(
        [*command, "-DWITH_LIBMVEC", "-lmvec", "-lm"], capture_output=True, check=False
    )
    if done.returncode:  # a C library without vector functions: slower, not less exact
        subprocess.run([*command, "-lm"], check=True)
    opened = ffi.dlopen(str(out))
    out.unlink()
    folder.rmdir()
    return ffi, opened


def referenced() -> tuple[str, ...]:
    """The scalar operators that ``reference.c`` has."""
    lines = SOURCE.read_text().splitlines()
    return tuple(
        line[len("COMPARE(") : -1]
        for line in lines
        if line.startswith("COMPARE(") and line.endswith(")")
    )


def judge(case: UnaryCase) -> Callable[[Array, Array], Finding]:
    """What compares the results of ``case`` with what they should be: inputs, results → finding."""
    return _judge_exact(case) if case.exact else _judge_function(case)


def _judge_function(case: UnaryCase) -> Callable[[Array, Array], Finding]:
    ffi, library = _library(referenced())
    compare = getattr(library, f"compare_{case.name}")

    def compared(x: Array, got: Array) -> Finding:
        s = ffi.new("stats *")
        s.ulps = s.steps = 0
        a, b = ffi.from_buffer("float[]", x), ffi.from_buffer("float[]", got)
        compare(a, b, x.size, _EVERY_RECHECK, s)
        places = np.array([s.ulps_at, s.steps_at, s.special_at], np.float32).view(np.uint32)
        bits = [int(p) for p in places]
        return Finding(
            x.size, s.ulps, bits[0], s.steps, bits[1], s.special, bits[2], s.rechecked, s.loose
        )

    return compared


def _judge_exact(case: UnaryCase) -> Callable[[Array, Array], Finding]:
    def compared(x: Array, got: Array) -> Finding:
        call = Call(case.attrs, ((x.size,),), (case.target,), {})
        with np.errstate(all="ignore"):
            want = np.asarray(case.row.reference(call, x)).astype(case.target.ml_numpy, copy=False)
        raw = f"u{want.dtype.itemsize}"
        wrong = np.ascontiguousarray(want).view(raw) != got.view(raw)
        found = Finding(x.size)
        if wrong.any():
            if want.dtype.kind not in "biu":  # a NaN has many payloads
                wrong &= ~((want != want) & (got.view(want.dtype) != got.view(want.dtype)))
            found.special = int(wrong.sum())
            if found.special:
                found.special_at = int(x[int(wrong.argmax())].view(np.uint32))
        return found

    return compared


def digest(*texts: str) -> str:
    """16 hex digits that differ when a text does."""
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=8).hexdigest()
