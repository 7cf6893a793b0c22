"""Flags of a kernel's compilation: `Flags`, and the arguments they become.

Input: the choices of a session (how exact functions are, extra macros). Output: compiler arguments
and a digest that is part of the name under which the artefact is kept.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal, get_args

from maxlab.digests import blake2b
from maxlab.toolchain.compiler import Compiler

# gcc at -O1 vectorises only loops that carry `#pragma omp simd`, which the generated ones
# do: half the compile time of -O3 at the same speed of the code. Strict IEEE is kept:
# -fno-math-errno and -fno-trapping-math change no value.
_BASE = ("-std=gnu11", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-fPIC")
# A call to a function nobody declared is a mistake of the code generator. Without this it
# would only be found when the library is opened.
_ERRORS = ("-Werror=implicit-function-declaration", "-Werror=int-conversion")
Accuracy = Literal["exact", "default", "fast"]
ACCURACIES: tuple[Accuracy, ...] = get_args(Accuracy)
# The prelude has other forms of some functions under the macros.
# exact: a product and a sum are one operation only where the text says so, on every machine.
# fast: not -ffinite-math-only, as masks are made of infinities; not -fassociative-math, as what a
# sum lost to rounding and a text adds again would be lost for good, and sums of reductions are free
# already.
ACCURACY_ARGUMENTS: dict[Accuracy, tuple[str, ...]] = {
    "exact": ("-ffp-contract=off", "-DMX_EXACT"),
    "default": (),
    "fast": ("-fno-signed-zeros", "-freciprocal-math", "-DMX_FAST"),
}


@dataclass(frozen=True, slots=True)
class Flags:
    """The options of one compilation; equal flags share artefacts.

    Attributes:
        optimize: 0 to 3, the compiler's -O level.
        accuracy: how exact functions are; see ``maxlab.compiler.Options``. ``"fast"`` also lets
            divisions be products with reciprocals, and zeros have no sign.
        brief: take `Compiler.brief_arguments`, for code that is compiled more than it is run.
        quick: take `Compiler.quick_arguments`, for code that runs until better code is there.
        debug: line tables for debuggers and profilers (-g).
        defines: macros, as ``(name, value)`` pairs.
        extra: further compiler arguments, in order.
    """

    optimize: int = 1
    accuracy: Accuracy = "default"
    debug: bool = False
    brief: bool = False
    quick: bool = False
    defines: tuple[tuple[str, str], ...] = ()
    extra: tuple[str, ...] = ()

    @property
    def portable_arguments(self) -> tuple[str, ...]:
        """The arguments that are the same for all compilers and machines."""
        return (f"-O{self.optimize}", *_BASE)

    def arguments(self, compiler: Compiler) -> list[str]:
        """The compiler arguments, without files, for code that runs on this machine."""
        args = [*self.portable_arguments, *compiler.machine_arguments, *_ERRORS]
        args += compiler.family_arguments
        args += ACCURACY_ARGUMENTS[self.accuracy]
        if self.brief:
            args += compiler.brief_arguments
        if self.quick:
            args += compiler.quick_arguments
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
