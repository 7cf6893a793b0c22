"""Recorded runs on GPUs that are kept: `GpuRun`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from maxlab import trace


@dataclass(frozen=True, slots=True)
class GpuStep:
    """One kernel or transfer of a run.

    Attributes:
        id: Of the step, such as ``"k3"``.
        name: What it computes.
        device: Where, such as ``"gpu:0"``.
        start_ns: ``time.monotonic_ns`` at which it began.
        dur_ns: Nanoseconds that it took, by the clock of the device.
    """

    id: str
    name: str
    device: str
    start_ns: int
    dur_ns: int


@dataclass(frozen=True, slots=True)
class GpuRun:
    """One run of a model.

    Attributes:
        model: Its name.
        start_ns: ``time.monotonic_ns`` at the call.
        dur_ns: Nanoseconds until all devices had come to its end, by the clock of the host.
        device_ns: Nanoseconds from the first to the last of its work on each device, by the clock
            of the device.
        steps: Every kernel and transfer, in ``DETAILED`` mode.
    """

    model: str
    start_ns: int
    dur_ns: int
    device_ns: dict[str, int]
    steps: tuple[GpuStep, ...] = ()

    def tell(self, mode: str) -> None:
        """Put the run, and each step of it, into the event stream, as recorded in ``mode``."""
        _tell(self.model, self, {"mode": mode, "device_ns": self.device_ns})
        for step in self.steps:
            about = {"model": self.model, "step": step.id, "device": step.device}
            _tell(step.name, step, about)


def _tell(name: str, what: GpuRun | GpuStep, about: Mapping[str, Any]) -> None:
    thread = threading.get_ident()
    event = trace.Event("gpu", name, what.start_ns, what.dur_ns, dict(about), thread)
    trace.recorder().add(event)


__all__ = ["GpuRun", "GpuStep"]
