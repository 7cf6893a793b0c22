"""The compiler: passes, schedule, loops, C, plan. ``compile_function`` runs them all.

Running what is compiled already needs none of them: they are imported when a graph is compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxlab.compiler.compiled import Compiled
from maxlab.compiler.options import DEFAULT, Options

if TYPE_CHECKING:
    from maxlab.ir import Function


def compile_function(function: Function, options: Options = DEFAULT) -> Compiled:
    """The compiled ``function``, its kernels loaded; see ``compiler.compiling``."""
    from maxlab.compiler import compiling

    return compiling.compile_function(function, options)


__all__ = ["Compiled", "Options", "compile_function"]
