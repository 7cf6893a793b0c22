"""Flags of a kernel's compilation: `Flags`, and the arguments they become.

Input: the choices of a session (fast math, extra macros). Output: compiler arguments and
a digest that is part of the name under which the artefact is kept.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from maxlab.digests import blake2b
from maxlab.toolchain.compiler import Compiler

# gcc at -O1 vectorises only loops that carry `#pragma omp simd`, which the generated ones
# do: half the compile time of -O3 at the same speed of the code. Strict IEEE is kept:
# -fno-math-errno and -fno-trapping-math change no value.
_BASE = ("-std=gnu11", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-fPIC")
# A call to a function nobody declared is a mistake of the code generator. Without this it
# would only be found when the library is opened.
_ERRORS = ("-Werror=implicit-function-declaration", "-Werror=int-conversion")
# Not -ffinite-math-only: masks are made of infinities. Not -fassociative-math: what a sum lost to
# rounding, as log1p adds it again, would be lost for good, and sums of reductions are free already.
FAST_MATH = ("-fno-signed-zeros", "-freciprocal-math")


@dataclass(frozen=True, slots=True)
class Flags:
    """The options of one compilation; equal flags share artefacts.

    Attributes:
        optimize: 0 to 3, the compiler's -O level.
        fast_math: let divisions be products with reciprocals, and zeros have no sign. NaN and
            infinities keep their meaning.
        brief: take `Compiler.brief_arguments`, for code that is compiled more than it is run.
        debug: line tables for debuggers and profilers (-g).
        defines: macros, as ``(name, value)`` pairs.
        extra: further compiler arguments, in order.
    """

    optimize: int = 1
    fast_math: bool = False
    debug: bool = False
    brief: bool = False
    defines: tuple[tuple[str, str], ...] = ()
    extra: tuple[str, ...] = ()

    def arguments(self, compiler: Compiler) -> list[str]:
        """The compiler arguments, without files, for code that runs on this machine."""
        args = [f"-O{self.optimize}", *_BASE, *compiler.machine_arguments, *_ERRORS]
        args += compiler.family_arguments
        if self.fast_math:
            args += FAST_MATH
        if self.brief:
            args += compiler.brief_arguments
        if self.debug:
            args.append("-g")
        args += [f"-D{name}={value}" for name, value in self.defines]
        return [*args, *self.extra]

    def digest(self, compiler: Compiler) -> str:
        """8 hex digits that differ when the arguments do."""
        return _digest(self, compiler)


@functools.lru_cache(maxsize=256)
def _digest(flags: Flags, compiler: Compiler) -> str:
    text = "\0".join(flags.arguments(compiler))
    return blake2b(text.encode(), digest_size=4).hexdigest()
