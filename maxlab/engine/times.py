"""The common part of the times of a run, whether they were just measured or read from a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.errors import elsewhere
from maxlab.habits import fitting
from maxlab.tabular import Field, Tabular


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The cost of one kernel, over all timed runs.

    Attributes:
        id: The kernel, ``"k4"``.
        name: What it computes, ``"matmul_add_gelu"``.
        kind: The kind of kernel, ``"contract"``.
        nodes: Ids of the ops of the graph that it computes; its time is all theirs together.
        ns: Nanoseconds in one run, the median over the runs; of a kernel in a loop all turns
            together.
        ns_min: Nanoseconds in the fastest run.
        ns_iqr: Nanoseconds between the first and the third quartile.
        flops: Arithmetic operations in one run.
        nbytes: Bytes that its buffers hold, each read or written once in each turn.
        gflops: ``flops`` over ``ns``, in GFLOP/s.
        gbs: ``nbytes`` over ``ns``, in GB/s.
        share: ``ns`` as a fraction of the sum over all kernels.
        busy_ns: Nanoseconds of one run that each thread was busy, the medians over the runs; the
            rest of ``ns`` it waited for the others. Empty on a GPU, and for what torch runs.
        imbalance: How much shorter the launch could be if all threads had equal shares of it, as a
            fraction of the busiest thread's time: 0.5 where one of two threads does it all.
        turns: How often it was launched in one run, the median over the runs: more than once in a
            loop, and not at all in a branch that was not taken.
    """

    id: str
    name: str
    kind: str
    nodes: tuple[str, ...]
    ns: float
    ns_min: int
    ns_iqr: float
    flops: int
    nbytes: int
    gflops: float
    gbs: float
    share: float
    busy_ns: tuple[float, ...] = ()
    imbalance: float = 0.0
    turns: int = 1


class Times(Tabular):
    """The times of a run, kernel by kernel: the base of ``Profile``, which names the attributes."""

    name: str
    kernels: list[KernelTime]
    dims: dict[str, int]
    device: str
    threads: int
    runs: int
    wall_ns: float
    wall_ns_min: int
    timed_ns: float
    timed_samples_ns: np.ndarray[Any, Any]
    wall_samples_ns: np.ndarray[Any, Any]

    @property
    def kernel_ns(self) -> float:
        """Nanoseconds of all kernels together; shares are fractions of it."""
        return sum(k.ns for k in self.kernels)

    @property
    def overhead(self) -> float | None:
        """How much longer an execution takes while its kernels are timed, as a fraction; noise can
        make it negative. None where every execution was timed, so that nobody knows."""
        if np.array_equal(self.wall_samples_ns, self.timed_samples_ns):
            return None
        return self.timed_ns / self.wall_ns - 1 if self.wall_ns else 0.0

    @property
    def hottest(self) -> KernelTime | None:
        """The kernel that costs most; None when the model has no kernels."""
        return max(self.kernels, key=lambda k: k.ns, default=None)

    def kernel(self, id: str) -> KernelTime:
        """The times of the kernel ``id``, such as ``"k4"``.

        Raises:
            KeyError: There is no such kernel.
        """
        for kernel in self.kernels:
            if kernel.id == id:
                return kernel
        raise KeyError(id)

    def _heads(self) -> Sequence[str]:
        return (
            "kernel", "name", "kind", "ops", "turns", "time [ns]", "fastest [ns]", "iqr [ns]",
            "share", "work [flop]", "moved [B]",
        )  # fmt: skip

    def _records(self) -> Iterator[Sequence[Field]]:
        for k in self.kernels:
            yield (
                k.id, k.name, k.kind, " ".join(k.nodes), k.turns, k.ns, k.ns_min, k.ns_iqr,
                k.share, k.flops, k.nbytes,
            )  # fmt: skip

    @fitting("ML975", "print(profile.table()), whose rows are sorted by time")
    def table(self, rows: int | None = 20) -> str:
        """The kernels as text, the most expensive first, below a line about the whole run.

        Args:
            rows: How many kernels to list; None lists all.
        """
        sizes = ", ".join(f"{name} = {size}" for name, size in self.dims.items())
        where = f"{self.name} on {self.device}, {plural(self.threads, 'thread')}"
        walls = (
            f"a run {time_text(self.wall_ns)}, the median of {self.runs} "
            f"(fastest {time_text(self.wall_ns_min)}); its kernels {time_text(self.kernel_ns)}"
        )
        if self.overhead is not None:
            added = f"{self.overhead:.1%}" if self.overhead >= 0.001 else "no time that shows"
            walls += f"; timing them adds {added}"
        # A step that says where the run goes on takes no time, unless a device must be asked.
        ordered = sorted((k for k in self.kernels if not is_idle(k)), key=lambda k: -k.ns)
        shown = ordered if rows is None else ordered[: max(rows, 0)]
        in_loops = any(k.turns != 1 for k in shown)
        head = ("kernel", "name", "kind", *(["turns"] if in_loops else []), "time")
        cells = [(*head, "± iqr", "share", "GFLOP/s", "GB/s")]
        cells += [
            (
                k.id,
                k.name if len(k.name) <= 40 else k.name[:39] + "…",
                k.kind,
                *([f"{k.turns}"] if in_loops else []),
                time_text(k.ns),
                time_text(k.ns_iqr),
                f"{k.share:.1%}",
                f"{k.gflops:.1f}" if k.flops else "",
                f"{k.gbs:.1f}" if k.nbytes else "",
            )
            for k in shown
        ]
        widths = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
        lines = [
            "  ".join(
                text.ljust(width) if n < 3 else text.rjust(width)
                for n, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        left = len(ordered) - len(shown)
        if left:
            rest = time_text(sum(k.ns for k in ordered[len(shown) :]))
            lines.append(f"… {left} more, {rest} together")
        if any(k.turns > 1 for k in shown):
            lines.append("times are sums of all turns")
        return "\n".join([f"{where}, {sizes}" if sizes else where, walls, "", *lines])


CONTROL_KINDS = ("branch", "jump", "refuse", "exchange")
"""Kinds of steps that compute nothing, and say where a run goes on and with which memory."""


def is_idle(kernel: KernelTime) -> bool:
    """Whether ``kernel`` only says where the run goes on, and took no time."""
    return kernel.kind in CONTROL_KINDS and not kernel.ns


def time_text(ns: float) -> str:
    """``ns`` nanoseconds with three digits and a unit.

    Example:
        >>> time_text(1234567)
        '1.23 ms'
    """
    for limit, unit in ((1e3, "ns"), (1e6, "µs"), (1e9, "ms")):
        value = ns / limit * 1e3
        if value < 999.5:
            digits = 0 if unit == "ns" or value >= 99.95 else 1 if value >= 9.995 else 2
            return f"{value:.{digits}f} {unit}"
    return f"{ns / 1e9:.2f} s"


def size_text(nbytes: float) -> str:
    """``nbytes`` with three digits and a unit of powers of 1000, as views show it.

    Example:
        >>> size_text(999), size_text(1536), size_text(5_000_000)
        ('999 B', '1.54 kB', '5.00 MB')
    """
    value = float(nbytes)
    if value < 1000:
        return f"{value:.0f} B"
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.5 or unit == "TB":
            break
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def plural(count: int, word: str) -> str:
    """``count`` and ``word`` in the plural that it takes."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


elsewhere(
    KernelTime,
    "kernel time",
    {
        **dict.fromkeys(("source", "code", "text"), 'profile.model.kernels["k0"].source'),
        **dict.fromkeys(
            ("time", "duration", "ms", "us", "seconds", "elapsed", "median"),
            "profile.kernels[0].ns, in nanoseconds",
        ),
    },
)
