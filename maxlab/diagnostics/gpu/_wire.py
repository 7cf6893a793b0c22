"""Samples as lines of text: what the recorder's process writes and the program reads.

A line is a JSON list ``[monotonic ns, {gpu id: [six numbers]}]``, with the problems as a third
entry when they changed. The last line of a complete recording is ``"end"``. A recorder that is
killed leaves whole lines, and at most one torn line at the end, which is not read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from maxlab.diagnostics.gpu.stats import GPUStats, MemoryStats, UtilizationStats

END = b'"end"\n'


@dataclass(frozen=True, slots=True)
class Recording:
    """The samples of a recorder's process; ``times_ns`` and ``stats`` are of equal length."""

    times_ns: list[int] = field(default_factory=list)
    stats: list[dict[str, GPUStats]] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


def encode(
    time_ns: int, stats: Mapping[str, GPUStats], problems: Mapping[str, str] | None
) -> bytes:
    """One sample as a line; ``problems`` is None when they are those of the sample before."""
    gpus = {
        gpu_id: (
            gpu.memory.total_bytes,
            gpu.memory.free_bytes,
            gpu.memory.used_bytes,
            gpu.memory.reserved_bytes,
            gpu.utilization.gpu_usage_percent,
            gpu.utilization.memory_activity_percent,
        )
        for gpu_id, gpu in stats.items()
    }
    sample = [time_ns, gpus] if problems is None else [time_ns, gpus, dict(problems)]
    return json.dumps(sample, separators=(",", ":")).encode() + b"\n"


def decode(raw: bytes) -> Recording:
    """The samples in ``raw``, oldest first; of each GPU's problems, the last."""
    recording = Recording()
    for line in _whole_lines(raw):
        sample = json.loads(line)
        recording.times_ns.append(sample[0])
        recording.stats.append(
            {
                gpu_id: GPUStats(MemoryStats(*numbers[:4]), UtilizationStats(*numbers[4:]))
                for gpu_id, numbers in sample[1].items()
            }
        )
        if len(sample) > 2:
            recording.problems.update(sample[2])
    return recording


def is_complete(raw: bytes) -> bool:
    """Whether the recorder ended because it was told to."""
    return raw.endswith(END)


def summary(raw: bytes) -> tuple[int, int | None]:
    """How many samples there are, and the time of the last one, without decoding them all."""
    lines = _whole_lines(raw)
    return len(lines), json.loads(lines[-1])[0] if lines else None


def _whole_lines(raw: bytes) -> list[bytes]:
    lines = raw.removesuffix(END).split(b"\n")
    return lines[:-1]  # what follows the last line break is torn, or nothing
