"""The programs of a model by the shapes of its inputs: `Programs`."""

from __future__ import annotations

import threading
from typing import TypeAlias

from maxlab.engine.executable import Executable
from maxlab.engine.program import Program, bound

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
MOST = 64
"""Tuples of shapes whose programs a model keeps; the oldest goes first."""


class Programs(dict[Shapes, Program]):
    """The programs of ``executable`` by the shapes of the inputs, the newest last; of a plan in
    stages, the first stage of each. One that is not there is bound when it is asked for.

    Raises:
        InputError: ML602 or ML603, sizes that the graph does not take.
    """

    __slots__ = ("_executable", "_lock")

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
            return made


__all__ = ["MOST", "Programs", "Shapes"]
