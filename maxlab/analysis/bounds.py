"""Bounds of kernels: memory, arithmetic, the cost of a start, or threads that wait.

The time that a kernel would take is computed four times, each time as if only one thing cost
anything, from counted bytes and operations and the measured ceilings of the machine. The largest is
what binds it (Williams, Waterman and Patterson, *Roofline*, 2009, with two more roofs):

* ``bandwidth``: its bytes, each from the level of memory where it was left (below),
* ``compute``: its operations, at the peak of multiply-adds for products, at the rate of generated
  loops for functions such as ``exp``,
* ``launch``: what starting a kernel of one element takes,
* ``imbalance``: what its threads waited for each other.

Where a buffer was left follows from its *reuse distance* (Mattson et al., 1970): the bytes of all
buffers touched since it was touched last, over the steps of one run after the other. The nearest
level that holds so many is taken to hold the buffer still.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from maxlab.analysis.machine.ceilings import Ceilings, Rate
from maxlab.engine.launching import host_launch
from maxlab.opset import OPSET

if TYPE_CHECKING:
    from maxlab.compiler.plan import Plan, Step

Bound = Literal["bandwidth", "compute", "launch", "imbalance"]
HEAVY = 8
"""Operations of one scalar evaluation from which a function counts as one of ``exp``'s kind."""
PRODUCTS = frozenset({"contract", "attention"})


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a step reads and writes of one slot.

    Attributes:
        slot: The slot's number.
        read: Bytes read.
        written: Bytes written.
        distance: Bytes of all slots touched since this one was touched last.
    """

    slot: int
    read: int
    written: int
    distance: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """Nanoseconds that a kernel would take if one thing alone cost anything.

    Attributes:
        memory_ns: Its bytes, each from where it was left.
        level: The level of memory that most of ``memory_ns`` is spent on.
        compute_ns: Its operations at the ceiling.
        expected_ns: Its operations as fast as maxlab's own kernels do them.
        rate: The ceiling of ``compute_ns``; None when it computes nothing or that was not measured.
        start_ns: Being started.
    """

    memory_ns: float
    level: str
    compute_ns: float
    expected_ns: float
    rate: Rate | None
    start_ns: float

    @property
    def ns(self) -> float:
        """The time that a kernel of maxlab is expected to take: its start, then the slower of
        memory and arithmetic, which overlap.
        """
        return max(self.memory_ns, self.expected_ns) + self.start_ns

    def of_turns(self, turns: int) -> Estimate:
        """That of ``turns`` launches."""
        if turns == 1:
            return self
        return replace(
            self,
            memory_ns=self.memory_ns * turns,
            compute_ns=self.compute_ns * turns,
            expected_ns=self.expected_ns * turns,
            start_ns=self.start_ns * turns,
        )


def traffic_of(plan: Plan, env: Mapping[str, int]) -> list[list[Traffic]]:
    """For each step of ``plan``, what it reads and writes of each slot, for sizes ``env``."""
    touched: list[dict[int, tuple[int, int]]] = []
    sizes: dict[int, int] = {}
    steps_of: dict[int, list[int]] = {}
    for number, step in enumerate(plan.steps):
        found = {
            slot: (read.evaluate(env), written.evaluate(env))
            for slot, (read, written) in step.traffic().items()
        }
        touched.append(found)
        for slot, (read, written) in found.items():
            sizes[slot] = max(sizes.get(slot, 0), read + written)
            steps_of.setdefault(slot, []).append(number)
    total = sum(sizes.values())

    def distance(step: int, slot: int) -> int:
        if len(steps_of[slot]) == 1:
            return total  # touched once a run: everything else comes in between
        seen: set[int] = set()
        found = 0
        for back in range(len(touched)):
            current = touched[(step - back) % len(touched)]
            for other in current:
                if other not in seen:
                    seen.add(other)
                    found += sizes[other]
            if back and slot in current:
                return found
        return total

    return [
        [
            Traffic(slot, read, written, distance(number, slot))
            for slot, (read, written) in found.items()
        ]
        for number, found in enumerate(touched)
    ]


def estimate(
    step: Step, traffic: Sequence[Traffic], flops: int, dtype: str, shared: bool, roof: Ceilings
) -> Estimate:
    """The time that ``step`` would take on a machine with the ceilings ``roof``.

    Args:
        step: The step.
        traffic: What it reads and writes, as ``traffic_of`` says.
        flops: Its arithmetic operations.
        dtype: Of what it computes, as ``dtype_of`` says.
        shared: Whether several threads run it.
        roof: The ceilings of so many threads as run it.
    """
    memory = 0.0
    by_level: dict[str, float] = {}
    for item in traffic:
        level = roof.level(item.distance)
        ns = level.ns(item.read, item.written)
        memory += ns
        by_level[level.name] = by_level.get(level.name, 0.0) + ns
    slowest = max(by_level, key=lambda name: by_level[name], default=roof.levels[0].name)
    ceiling, usual = rates_of(step, dtype, roof)
    return Estimate(
        memory,
        slowest,
        flops / ceiling.gflops if ceiling and flops else 0.0,
        flops / usual.gflops if usual and flops else 0.0,
        ceiling if flops else None,
        roof.shared_dispatch_ns if shared else roof.dispatch_ns,
    )


def rates_of(step: Step, dtype: str, roof: Ceilings) -> tuple[Rate | None, Rate | None]:
    """The ceiling of the arithmetic of ``step``, and the rate at which maxlab's kernels do it."""
    kind = dtype if dtype in ("float32", "float64", "bfloat16", "float16") else "float32"
    product = roof.rate("product", kind)
    peak = roof.rate("peak", kind) or product
    if step.kind in PRODUCTS:
        return peak, product or peak
    heavy = roof.rate("math", kind) or roof.rate("math", "float32")
    if any(_weight(name) >= HEAVY for name in step.ops) and heavy is not None:
        return heavy, heavy
    wide = roof.rate("peak", "float64" if kind == "float64" else "float32") or peak
    if wide is None:
        return None, None
    # An add alone does half of what a multiply-add does.
    simple = Rate(wide.name.replace("FMA", "add"), wide.gflops / 2, wide.kind, wide.dtype)
    return simple, simple


def _weight(name: str) -> int:
    row = OPSET.get(f"mo.{name}")
    return row.weight if row is not None and row.kind == "map" else 0


def dtype_of(plan: Plan, step: Step) -> str:
    """The dtype that ``step`` computes in: the widest float that it writes, or reads where it
    writes none."""
    found = {plan.slots[slot].dtype for slot in step.pointers}
    for name in ("float64", "float32", "bfloat16", "float16"):
        if any(dtype.name == name for dtype in found):
            if name == "float32" and step.kind in PRODUCTS and len(step.pointers) > 2:
                return _operands(plan, step)
            return name
    return next(iter(found)).name if found else "float32"


def _operands(plan: Plan, step: Step) -> str:
    """The dtype of a product's operands, which are its last pointers."""
    return plan.slots[step.pointers[-1]].dtype.name


def estimates(
    plan: Plan,
    env: Mapping[str, int],
    threads: int,
    runtime: object,
    roof: Ceilings,
    alone: Ceilings | None = None,
    traffic: Sequence[Sequence[Traffic]] | None = None,
) -> list[Estimate]:
    """An ``Estimate`` for each step of ``plan`` on ``threads`` threads.

    Args:
        plan: The plan.
        env: The size of every symbol.
        threads: Threads that the model may use.
        runtime: The runtime library, which says how steps are cut into chunks.
        roof: The ceilings of so many threads.
        alone: The ceilings for steps that one thread runs; ``roof`` when left out, which says how
            far a step is from what all threads could do.
        traffic: What ``traffic_of`` says, where it is known already.
    """
    found = []
    items = traffic if traffic is not None else traffic_of(plan, env)
    for step, touched in zip(plan.steps, items, strict=True):
        flops = step.flops.evaluate(env)
        shared = threads > 1 and is_shared(step, env, threads, runtime)
        top = roof if shared or alone is None else alone
        found.append(estimate(step, touched, flops, dtype_of(plan, step), shared, top))
    return found


def is_shared(step: Step, env: Mapping[str, int], threads: int, runtime: object) -> bool:
    """Whether several threads run ``step``: its parallel axis is cut into chunks."""
    if step.gpu is not None:
        return False
    launch = host_launch(step.launch, env, threads, runtime)
    return launch.extent > launch.grain


def bound_of(found: Estimate, imbalance_ns: float) -> tuple[Bound, float]:
    """The bound of a kernel, and the nanoseconds that the bound alone would take."""
    terms: list[tuple[Bound, float]] = [
        ("bandwidth", found.memory_ns),
        ("compute", found.compute_ns),
        ("launch", found.start_ns),
        ("imbalance", imbalance_ns),
    ]
    return max(terms, key=lambda term: term[1])
