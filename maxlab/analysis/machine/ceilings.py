"""The ceilings of a machine, as numbers that were measured on it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from maxlab.errors import DocumentError, nearest
from maxlab.tabular import aligned

VERSION = 2
BUSY = (
    "The machine was busy while this was measured, and several threads were slowed: "
    "maxlab.machine(refresh=True) measures again."
)


@dataclass(frozen=True, slots=True)
class Level:
    """How fast one level of memory is.

    Rates are in GB/s and count what a loop names: a copy of ``n`` bytes is ``2 * n``, as STREAM
    counts it (McCalpin, 1995), although a store may first fetch the line that it writes to.

    Attributes:
        name: ``"L1"``, ``"L2"``, ``"L3"`` or ``"DRAM"``.
        nbytes: Bytes that all the threads have of it together; 0 for no limit.
        read: A sum over one array.
        copy: ``c[i] = a[i]``.
        triad: ``c[i] = a[i] + s * b[i]``.
    """

    name: str
    nbytes: int
    read: float
    copy: float
    triad: float

    @property
    def best(self) -> float:
        """The fastest of the three, in GB/s: no kernel was seen to do better."""
        return max(self.read, self.copy, self.triad)

    def ns(self, read: float, written: float) -> float:
        """Nanoseconds to read and write so many bytes here.

        A byte that is read costs what it costs in ``read``. What a written one costs besides is
        taken from ``copy``, half of whose bytes are written, so stores that fetch lines first are
        in it.
        """
        if not self.read or not self.copy:
            return 0.0
        each_read = 1 / self.read
        each_written = max(2 / self.copy - each_read, 0.0)
        return read * each_read + written * each_written


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast one kind of arithmetic is, in GFLOP/s.

    Attributes:
        name: ``"f32 FMA"``.
        gflops: ``1e9`` operations a second; a multiply-add is two.
        kind: ``"peak"`` in registers alone, ``"product"`` of matrices by maxlab's own kernels, or
            ``"math"``: generated loops, whose functions count as in ``KernelTime.flops``.
        dtype: Of the operands.
    """

    name: str
    gflops: float
    kind: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The most that some threads of a machine, or a GPU, can do.

    Attributes:
        device: ``"cpu"``, or a GPU's name.
        threads: Threads that worked at once; 1 for a GPU.
        levels: Levels of memory, the nearest first.
        rates: Kinds of arithmetic.
        dispatch_ns: Nanoseconds of a kernel that computes one element: what it costs to be started
            and timed.
        shared_dispatch_ns: The same for a kernel that all threads share.
        fast: How much longer a loop takes with ``Options(accuracy="fast")``, as a fraction of its
            time without: ``{"exp": 0.8}``.
    """

    device: str
    threads: int
    levels: tuple[Level, ...]
    rates: tuple[Rate, ...]
    dispatch_ns: float
    shared_dispatch_ns: float
    fast: Mapping[str, float] = field(default_factory=dict)

    def level(self, nbytes: float) -> Level:
        """The nearest level that holds ``nbytes``; the last one holds everything."""
        for found in self.levels:
            if found.nbytes and nbytes <= found.nbytes:
                return found
        return self.levels[-1]

    def rate(self, kind: str, dtype: str) -> Rate | None:
        """The rate of this kind and dtype; None where it was not measured."""
        return next((r for r in self.rates if (r.kind, r.dtype) == (kind, dtype)), None)


@dataclass(frozen=True, slots=True)
class Machine:
    """The measured ceilings of a machine. ``maxlab.machine()`` makes it.

    Attributes:
        name: The processor or GPU.
        measured_at: When, in seconds of the Unix epoch.
        took_s: Seconds that measuring took.
        at: ``Ceilings`` by number of threads: 1, and those asked for.
    """

    name: str
    measured_at: float
    took_s: float
    at: Mapping[int, Ceilings]

    @property
    def threads(self) -> int:
        """The most threads that were measured."""
        return max(self.at)

    def ceilings(self, threads: int | None = None) -> Ceilings:
        """The ceilings of so many threads, by default of the most.

        Raises:
            KeyError: They were not measured.
        """
        return self.at[self.threads if threads is None else threads]

    @property
    def was_busy(self) -> bool:
        """Whether several threads were hardly faster than one in registers, where they share
        nothing: something else used the cores meanwhile, and the ceilings are too low."""
        one, all_ = (self.at[n].rate("peak", "float32") for n in (min(self.at), self.threads))
        if one is None or all_ is None or self.threads == min(self.at):
            return False
        return all_.gflops < 1.3 * one.gflops

    def table(self) -> str:
        """The ceilings as text, a column for each number of threads."""
        counts = sorted(self.at)
        rows = [["", *(f"{n} thread" + ("s" if n > 1 else "") for n in counts)]]
        first = self.at[counts[0]]
        for n, level in enumerate(first.levels):
            rows.append([f"{level.name} (GB/s)", *("" for _ in counts)])
            for pattern in ("read", "copy", "triad"):
                found = [getattr(self.at[c].levels[n], pattern) for c in counts]
                rows.append([f"  {pattern}", *(f"{value:.1f}" for value in found)])
        rows.append(["arithmetic (GFLOP/s)", *("" for _ in counts)])
        for rate in first.rates:
            found_rates = [self.at[c].rate(rate.kind, rate.dtype) for c in counts]
            rows.append([f"  {rate.name}", *(f"{r.gflops:.1f}" if r else "" for r in found_rates)])
        rows.append(["start of a kernel (ns)", *(f"{self.at[c].dispatch_ns:.0f}" for c in counts)])
        rows.append(["  shared", *(f"{self.at[c].shared_dispatch_ns:.0f}" for c in counts)])
        lines = aligned(rows, right=range(1, len(rows[0])))
        notes = ["", BUSY] if self.was_busy else []
        return "\n".join([self.name, "", *lines, *notes])

    def to_json(self) -> dict[str, Any]:
        """The machine as plain JSON."""
        return {
            "version": VERSION,
            "name": self.name,
            "measured_at": self.measured_at,
            "took_s": self.took_s,
            "at": {str(threads): asdict(found) for threads, found in self.at.items()},
        }

    @staticmethod
    def from_json(data: Any) -> Machine:
        """The machine that ``to_json`` wrote.

        Raises:
            DocumentError: ML811, it is something else.
        """
        try:
            if data["version"] != VERSION:
                raise ValueError(f"version {data['version']}")
            made = Machine(
                str(data["name"]),
                float(data["measured_at"]),
                float(data["took_s"]),
                {int(threads): _ceilings(found) for threads, found in data["at"].items()},
            )
            if not made.at:
                raise ValueError("of no number of threads")
            return made
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DocumentError(
                "ML811",
                f"these are no measured ceilings: {type(error).__name__} {error}",
                fix="measure them again: maxlab.machine(refresh=True)",
            ) from error

    def __repr__(self) -> str:
        top = self.ceilings()
        memory = f"{top.levels[-1].name} {top.levels[-1].best:.0f} GB/s"
        peak = max((r.gflops for r in top.rates), default=0.0)
        return f"Machine({self.name!r}, {top.threads} threads: {memory}, {peak:.0f} GFLOP/s)"


def at_least(found: Ceilings, alone: Ceilings) -> Ceilings:
    """``found``, of several threads, with nothing below what ``alone``, of one, reached: the others
    can be idle. Less is measured where something else has the cores meanwhile.

    Args:
        found: The ceilings of several threads.
        alone: Those of one.
    """
    ones = {level.name: level for level in alone.levels}
    levels = tuple(
        replace(
            level,
            read=max(level.read, one.read),
            copy=max(level.copy, one.copy),
            triad=max(level.triad, one.triad),
        )
        for level in found.levels
        for one in [ones.get(level.name, level)]
    )
    known = {(rate.kind, rate.dtype): rate.gflops for rate in alone.rates}
    rates = tuple(
        replace(rate, gflops=max(rate.gflops, known.get((rate.kind, rate.dtype), 0.0)))
        for rate in found.rates
    )
    return replace(found, levels=levels, rates=rates)


def _ceilings(data: Mapping[str, Any]) -> Ceilings:
    levels = tuple(Level(**level) for level in data["levels"])
    rates = tuple(Rate(**rate) for rate in data["rates"])
    if not levels:
        raise ValueError("of no level of memory")
    rows: list[tuple[Any, ...]] = [(n.nbytes, n.read, n.copy, n.triad) for n in levels]
    rows += [(rate.gflops,) for rate in rates]
    if not all(isinstance(x, int | float) and math.isfinite(x) for row in rows for x in row):
        raise TypeError("a rate is no number")
    names = [*(level.name for level in levels), *(rate.name for rate in rates)]
    if not all(isinstance(name, str) for name in names):
        raise TypeError("a name is no text")
    return Ceilings(
        str(data["device"]),
        int(data["threads"]),
        levels,
        rates,
        float(data["dispatch_ns"]),
        float(data["shared_dispatch_ns"]),
        {str(name): float(value) for name, value in data["fast"].items()},
    )


nearest(Machine, "machine")
