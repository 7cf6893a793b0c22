"""What is kept of runs on GPUs that were recorded: `GpuRun`."""

from __future__ import annotations

from dataclasses import dataclass


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


__all__ = ["GpuRun", "GpuStep"]
