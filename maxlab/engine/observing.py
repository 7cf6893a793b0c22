"""What watches a run on devices, and what a model on devices lets be watched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from maxlab.compiler import Compiled
from maxlab.compiler.plan import Step
from maxlab.driver import Accelerator, Tensor
from maxlab.driver.backend import Context, Queue
from maxlab.ir import DeviceRef


class Observer(Protocol):
    """Sees every step of one run, in order, by the owner of its device."""

    def begin(self, step: Step, context: Context, queue: Queue, words: Sequence[int]) -> None:
        """``step`` is about to be given to ``queue``, a kernel with these words."""

    def end(self, step: Step, context: Context, queue: Queue) -> None:
        """``step`` has been given to ``queue``."""

    def host(self, step: Step, begin_ns: int, end_ns: int) -> None:
        """The host has done ``step``."""


class Observed(Protocol):
    """A model on devices.

    Attributes:
        compiled: What it runs.
        devices: The accelerators that it runs on, by the names that its graph has for them.
    """

    compiled: Compiled
    devices: dict[DeviceRef, Accelerator]

    @property
    def name(self) -> str:
        """The name of its graph."""

    def run_observed(self, args: Sequence[Any], observer: Observer | None) -> list[Tensor]:
        """The outputs; ``observer`` sees every step."""

    def wait(self) -> None:
        """Return when the devices have done all that they were given."""
