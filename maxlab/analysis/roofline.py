"""The roofline of a profile: each kernel against the measured ceilings of the machine."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maxlab.analysis import machine as machines
from maxlab.analysis.bounds import Bound, Estimate, bound_of, estimates
from maxlab.analysis.machine import Ceilings, Machine
from maxlab.driver import Accelerator
from maxlab.engine.times import is_idle, plural, size_text, time_text
from maxlab.errors import ArgumentTypeError
from maxlab.habits import fitting
from maxlab.tabular import Field, Tabular, aligned, first_rows

if TYPE_CHECKING:
    from maxlab.engine.profile import Profile
    from maxlab.engine.times import KernelTime

_made: weakref.WeakKeyDictionary[Profile, Roofline] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Point:
    """One kernel against the ceilings.

    Attributes:
        kernel: Its id, ``"k4"``.
        name: What it computes.
        nodes: Ids of the ops that it computes.
        ns: Nanoseconds of one launch.
        flops: Arithmetic operations.
        nbytes: Bytes read and written, each element once.
        intensity: ``flops`` over ``nbytes``.
        bound: What holds it back; None without ceilings.
        fraction: How near it is to the nearer of its two roofs: what memory or arithmetic alone
            would take, over ``ns``. None without ceilings.
        level: The level of memory that its bytes mostly come from.
        estimate: The terms behind ``bound``.
        imbalance_ns: Nanoseconds that the busiest thread had to itself.
    """

    kernel: str
    name: str
    nodes: tuple[str, ...]
    ns: float
    flops: int
    nbytes: int
    intensity: float
    bound: Bound | None
    fraction: float | None
    level: str
    estimate: Estimate | None
    imbalance_ns: float

    @property
    def gflops(self) -> float:
        """GFLOP/s."""
        return self.flops / self.ns if self.ns else 0.0

    @property
    def gbs(self) -> float:
        """GB/s."""
        return self.nbytes / self.ns if self.ns else 0.0

    @property
    def why(self) -> str:
        """The bound of the kernel, in words."""
        found = self.estimate
        if found is None or self.bound is None:
            return "A simulated GPU has no ceilings: these are times of the CPU that plays it."
        roof = f"{self.fraction:.0%} of that roof" if self.fraction is not None else ""
        if self.bound == "bandwidth":
            took = time_text(found.memory_ns)
            return f"Its {size_text(self.nbytes)} take {took} from {self.level}; it runs at {roof}."
        if self.bound == "compute":
            rate = found.rate
            at = f"{rate.gflops:.0f} GFLOP/s ({rate.name})" if rate else "the ceiling"
            return f"Its operations take {time_text(found.compute_ns)} at {at}; it runs at {roof}."
        if self.bound == "launch":
            return (
                f"Being started takes {time_text(found.start_ns)}, more than its memory or its "
                "arithmetic."
            )
        return f"Its busiest thread works {time_text(self.imbalance_ns)} longer than on average."


class Roofline(Tabular):
    """The kernels of a profile against the ceilings of the machine. ``roofline`` makes it.

    Attributes:
        device: Where the profile was taken.
        simulated: Whether that was a simulated GPU, which has no ceilings.
        ceilings: The ceilings; None for a simulated GPU.
        machine: The machine that has them; None for a simulated GPU.
        points: A ``Point`` for each kernel, in the order in which they run; steps that only say
            where the run goes on have none.
    """

    def __init__(
        self, device: str, simulated: bool, machine: Machine | None, points: Sequence[Point]
    ) -> None:
        self.device = device
        self.simulated = simulated
        self.machine = machine
        self.points = list(points)
        self.ceilings: Ceilings | None = None

    def point(self, kernel: str) -> Point:
        """The kernel with this id.

        Raises:
            KeyError: There is no such kernel.
        """
        for found in self.points:
            if found.kernel == kernel:
                return found
        raise KeyError(kernel)

    def _heads(self) -> Sequence[str]:
        return (
            "kernel", "name", "ops", "time [ns]", "work [flop]", "moved [B]", "intensity [flop/B]",
            "GFLOP/s", "GB/s", "bound by", "level", "of roof",
        )  # fmt: skip

    def _records(self) -> Iterator[Sequence[Field]]:
        for p in self.points:
            yield (
                p.kernel, p.name, " ".join(p.nodes), p.ns, p.flops, p.nbytes, p.intensity,
                p.gflops, p.gbs, p.bound, p.level, p.fraction,
            )  # fmt: skip

    def table(self, rows: int | None = 20) -> str:
        """The kernels as text, the most expensive first: what binds each, and how near it is to its
        roof."""
        ordered = sorted(self.points, key=lambda p: -p.ns)
        shown = first_rows(ordered, rows)
        cells = [("kernel", "name", "time", "FLOP/B", "GFLOP/s", "GB/s", "bound by", "of roof")]
        cells += [
            (
                p.kernel,
                p.name if len(p.name) <= 32 else p.name[:31] + "…",
                time_text(p.ns),
                f"{p.intensity:.2f}",
                f"{p.gflops:.1f}",
                f"{p.gbs:.1f}",
                f"{p.bound} ({p.level})" if p.bound == "bandwidth" else p.bound or "",
                f"{p.fraction:.0%}" if p.fraction is not None else "",
            )
            for p in shown
        ]
        lines = aligned(cells, right=(2, 3, 4, 5, 7))
        return "\n".join([f"{self.device}: {self._about()}", "", *lines])

    def _about(self) -> str:
        if self.ceilings is None:
            return "simulated, no ceilings"
        last = self.ceilings.levels[-1]
        peak = max((r.gflops for r in self.ceilings.rates), default=0.0)
        threads = "" if self.device != "cpu" else f" with {plural(self.ceilings.threads, 'thread')}"
        return f"{last.name} {last.best:.1f} GB/s, {peak:.0f} GFLOP/s{threads}, measured"

    def __repr__(self) -> str:
        return f"Roofline({self.device!r}, {len(self.points)} kernels)"


@fitting("ML975", "maxlab.roofline(profile)")
def roofline(profile: Profile, *, measure: bool = True) -> Roofline:
    """The kernels of ``profile`` against the measured ceilings of the machine.

    Args:
        profile: What ``model.profile`` returned, in this process.
        measure: Measure the ceilings if that was not done yet, which takes about a second.

    Raises:
        ArgumentTypeError: ML671, not a profile of this process.
        LookupError: The ceilings are not known, and ``measure`` is False.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.analysis.roofline import roofline
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> model = engine.InferenceSession(num_threads=1).load(graph)
        >>> found = roofline(model.profile(np.ones(1 << 20, np.float32), runs=5))
        >>> found.points[0].bound, found.points[0].nbytes
        ('bandwidth', 8388608)
    """
    from maxlab.engine.profile import Profile as Known

    if not isinstance(profile, Known):
        raise ArgumentTypeError(
            "ML671",
            f"a roofline is made of a profile that was taken here, got {type(profile).__name__}",
            fix="profile the model: model.profile(...)",
        )
    device = _accelerator(profile)
    if any(one.simulated for one in profile.model.devices.values()):
        points = [_point(kernel, None) for kernel in profile.kernels if not is_idle(kernel)]
        return Roofline(profile.device, True, None, points)
    found = machines.known(profile.threads, device)
    known = _made.get(profile)
    if known is not None and known.machine is found:
        return known
    if found is None:
        if not measure:
            raise LookupError("the ceilings of this machine were not measured yet")
        found = machines.machine(profile.threads, device=device)
    roof = found.ceilings(1 if device is not None else profile.threads)
    terms = terms_of(profile, roof)
    points = [
        _point(k, e if k.turns else None)
        for k, e in zip(profile.kernels, terms, strict=True)
        if not is_idle(k)
    ]
    made = Roofline(profile.device, False, found, points)
    made.ceilings = roof
    _made[profile] = made
    return made


def terms_of(profile: Profile, roof: Ceilings) -> list[Estimate]:
    """An ``Estimate`` for each kernel of ``profile`` on the machine that it was taken on."""
    model = profile.model
    found = estimates(model.plan, profile.dims, profile.threads, model.runtime, roof)
    return [e.of_turns(k.turns) for e, k in zip(found, profile.kernels, strict=True)]


def _accelerator(profile: Profile) -> Accelerator | None:
    """The GPU that a profile was taken on; None for the CPU."""
    devices: dict[Any, Accelerator] = getattr(profile.model, "devices", {})
    return next(iter(devices.values()), None)


def _point(kernel: KernelTime, found: Estimate | None) -> Point:
    busiest = max(kernel.busy_ns, default=0.0)
    waited = kernel.imbalance * busiest
    bound: Bound | None = None
    fraction: float | None = None
    if found is not None:
        bound, _ = bound_of(found, waited)
        fraction = max(found.memory_ns, found.compute_ns) / kernel.ns if kernel.ns else 0.0
    return Point(
        kernel.id,
        kernel.name,
        kernel.nodes,
        kernel.ns,
        kernel.flops,
        kernel.nbytes,
        kernel.flops / kernel.nbytes if kernel.nbytes else 0.0,
        bound,
        fraction,
        found.level if found else "",
        found,
        waited,
    )
