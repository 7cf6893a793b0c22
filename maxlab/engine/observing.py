"""What watches a run on devices: the protocol that timers and recorders implement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from maxlab.compiler.plan import Step
from maxlab.driver.backend import Context, Queue


class Observer(Protocol):
    """Sees every step of one run, in order, by the owner of its device."""

    def begin(self, step: Step, context: Context, queue: Queue, words: Sequence[int]) -> None:
        """``step`` is about to be given to ``queue``, a kernel with these words."""

    def end(self, step: Step, context: Context, queue: Queue) -> None:
        """``step`` has been given to ``queue``."""

    def host(self, step: Step, begin_ns: int, end_ns: int) -> None:
        """The host has done ``step``."""
