"""The programs of a model by the shapes of its inputs: `Programs`."""

from __future__ import annotations

import threading
import weakref
from typing import TypeAlias

from maxlab.engine.executable import Executable
from maxlab.engine.program import Program, bound
from maxlab.engine.renewing import when_measured

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
MOST = 64
"""Tuples of shapes whose programs a model keeps; the oldest goes first."""


class Programs(dict[Shapes, Program]):
    """The programs of ``executable`` by the shapes of the inputs, the newest last; of a plan in
    stages, the first stage of each. One that is not there is bound when it is asked for.

    Raises:
        InputError: ML602 or ML603, sizes that the graph does not take.
    """

    __slots__ = ("__weakref__", "_executable", "_lock")

    def __init__(self, executable: Executable) -> None:
        super().__init__()
        self._executable = executable
        self._lock = threading.Lock()

    def __missing__(self, shapes: Shapes) -> Program:
        with self._lock:
            found = self.get(shapes)
            if found is not None:
                return found
            executable = self._executable
            with executable.lock:
                made = bound(executable, executable.rules.resolve(shapes), 0)
            if len(self) >= MOST:
                del self[next(iter(self))]
            self[shapes] = made
        mine, old = weakref.ref(self), weakref.ref(made)

        def renew() -> None:
            programs, program = mine(), old()
            if programs is not None and program is not None:
                programs.renew(shapes, program)

        when_measured(made.launches, renew)
        return made

    def renew(self, shapes: Shapes, old: Program) -> None:
        """Let runs that begin from now on take a new program in the place of ``old``, if that is
        still there. Those that are going on end as they began."""
        executable = self._executable
        with self._lock:
            if self.get(shapes) is not old:
                return
            with executable.lock:
                made = bound(executable, old.env, 0)
            self[shapes] = made
            old.direct = None  # so that the dispatch, which has kept it, asks again


__all__ = ["MOST", "Programs", "Shapes"]
