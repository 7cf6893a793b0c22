"""What the rules of advice look at: a profile, its plan, and what the machine could do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from maxlab.analysis import machine as machines
from maxlab.analysis.advice.action import Action, Kind, Recipe
from maxlab.analysis.bounds import Estimate, Traffic, estimates, traffic_of
from maxlab.analysis.machine import Machine
from maxlab.compiler.options import Marker, Options
from maxlab.compiler.passes import applied, pipeline
from maxlab.compiler.plan import Plan, Step
from maxlab.compiler.planner import Planner
from maxlab.compiler.schedule import Schedule
from maxlab.config import config
from maxlab.ir import Function, Op

if TYPE_CHECKING:
    from maxlab.engine.profile import Profile
    from maxlab.engine.times import KernelTime

LEAST, MOST = 0.25, 4.0
"""How far a kernel may be from its estimate for that to be carried over to another one: beyond it,
something is going on that the estimate knows nothing of."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the profile: its times, its step of the plan and its estimate."""

    time: KernelTime
    step: Step
    estimate: Estimate

    @property
    def id(self) -> str:
        """Its id."""
        return self.time.id

    @property
    def ns(self) -> float:
        """Its measured nanoseconds."""
        return self.time.ns

    @property
    def ratio(self) -> float:
        """Measured over estimated time, within limits."""
        return min(max(self.ns / max(self.estimate.ns, 1.0), LEAST), MOST)


class Context:
    """A profile on the CPU, and what its model would take if something were different."""

    def __init__(self, profile: Profile, machine: Machine) -> None:
        self.profile = profile
        self.model = profile.model
        self.machine = machine
        self.plan: Plan = profile.model.plan
        self.dims: Mapping[str, int] = profile.dims
        self.function: Function = profile.model.compiled.source
        self.total_ns = max(profile.kernel_ns, 1.0)
        self._ops = {op.id: op for op in self.function.walk()}

    @cached_property
    def kernels(self) -> list[Kernel]:
        """The kernels of the profile."""
        found = self.estimates(self.plan)
        return [
            Kernel(time, step, terms)
            for time, step, terms in zip(self.profile.kernels, self.plan.steps, found, strict=True)
        ]

    @cached_property
    def traffic(self) -> list[list[Traffic]]:
        """What each kernel reads and writes of each slot."""
        return traffic_of(self.plan, self.dims)

    def estimates(
        self,
        plan: Plan,
        dims: Mapping[str, int] | None = None,
        machine: Machine | None = None,
        threads: int | None = None,
    ) -> list[Estimate]:
        """An estimate for each step of ``plan``, by default as the profile was taken; of its own
        plan for as many turns as it saw."""
        chosen = machine or self.machine
        count = self.profile.threads if threads is None else threads
        found = estimates(
            plan,
            self.dims if dims is None else dims,
            count,
            self.model._runtime,
            chosen.ceilings(count),
            chosen.ceilings(1),
            self.traffic if plan is self.plan and dims is None else None,
        )
        if plan is not self.plan:
            return found
        return [e.of_turns(k.turns) for e, k in zip(found, self.profile.kernels, strict=True)]

    def op(self, node: str) -> Op | None:
        """The op of the graph with this id."""
        return self._ops.get(node)

    def place(self, nodes: Iterable[str]) -> str:
        """Where the first of ``nodes`` was written, as ``" (file.py:3)"``; empty if not known."""
        for node in nodes:
            op = self._ops.get(node)
            if op is not None and op.loc is not None:
                return f" ({op.loc})"
        return ""

    def planned(self, function: Function, options: Options) -> Plan:
        """The plan of ``function``, of which nothing is compiled."""
        work = function.clone()
        marker = Marker(work, options.keep)
        for _, apply in pipeline(options.split_k):  # not recorded: nothing is being compiled
            applied(work, apply)
        return Planner(Schedule(work, options, marker.taken_out().values())).build()

    def is_other(self, plan: Plan) -> bool:
        """Whether ``plan`` computes some op in another kernel, or with others, than now."""
        now, then = ([frozenset(step.nodes) for step in p.steps] for p in (self.plan, plan))
        return now != then

    def replanned_ns(self, plan: Plan) -> float:
        """Nanoseconds that another plan of the same graph would take: each of its kernels as far
        from its estimate as the kernels were that compute its nodes now."""
        by_node: dict[str, list[Kernel]] = {}
        for kernel in self.kernels:
            for node in kernel.step.nodes:
                by_node.setdefault(node, []).append(kernel)
        total = 0.0
        for step, terms in zip(plan.steps, self.estimates(plan), strict=True):
            before = {k.id: k for node in step.nodes for k in by_node.get(node, [])}
            measured = sum(k.ns for k in before.values())
            estimated = sum(k.estimate.ns for k in before.values())
            ratio = measured / estimated if estimated else 1.0
            turns = max((k.time.turns for k in before.values()), default=1)
            total += terms.of_turns(turns).ns * min(max(ratio, LEAST), MOST)
        return total

    def other_threads(self) -> list[tuple[int, Machine]]:
        """Other numbers of threads that are worth a thought and were measured, with their
        ceilings."""
        found = []
        for count in sorted({1, config().num_threads}):
            if count != self.profile.threads:
                known = self.machine if count == 1 else machines.known(count)
                if known is not None and not (count > 1 and known.was_busy):
                    found.append((count, known))
        return found

    def action(
        self,
        id: str,
        kind: Kind,
        title: str,
        *,
        why: str,
        kernels: Iterable[Kernel],
        saved: float,
        how: str,
        recipe: Recipe | None = None,
        nodes: Iterable[str] | None = None,
        changes: Any = "nothing",
    ) -> Action:
        """An action that is about ``kernels``, and all their nodes unless ``nodes`` are given."""
        about = list(kernels)
        chosen = nodes if nodes is not None else [n for k in about for n in k.step.nodes]
        return Action(
            id,
            kind,
            title,
            why,
            tuple(k.id for k in about),
            tuple(dict.fromkeys(chosen)),
            saved,
            saved / self.total_ns,
            how,
            recipe,
            changes,
        )
