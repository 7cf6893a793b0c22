"""The context of the rules of advice: a profile, its plan, and what the machine could do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.analysis import machine as machines
from maxlab.analysis.advice.action import Action, Kind, Recipe
from maxlab.analysis.advice.kernel import LEAST, MOST, Kernel
from maxlab.analysis.advice.pricing import (
    Array,
    Basis,
    Priced,
    Saving,
    Times,
    priced,
    why_withheld,
)
from maxlab.analysis.bounds import Estimate, Traffic, estimates, traffic_of
from maxlab.analysis.machine import Machine
from maxlab.compiler.marking import Marker
from maxlab.compiler.options import Options
from maxlab.compiler.passes import applied, whole_pipeline
from maxlab.compiler.plan import Plan, Step
from maxlab.compiler.planner import Planner
from maxlab.compiler.schedule import Schedule
from maxlab.config import config
from maxlab.ir import Function, Op

if TYPE_CHECKING:
    from maxlab.engine.profile import Profile


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
        self.withheld = why_withheld(profile)
        self._priced: dict[str, Priced] = {}
        self._ops = {op.id: op for op in self.function.walk()}

    @cached_property
    def kernels(self) -> list[Kernel]:
        """The kernels of the profile."""
        found = self.estimates(self.plan)
        return [
            Kernel(time, step, terms, np.asarray(samples, np.float64))
            for time, step, terms, samples in zip(
                self.profile.kernels,
                self.plan.steps,
                found,
                self.profile.kernel_samples_ns.T,
                strict=True,
            )
        ]

    @cached_property
    def traffic(self) -> list[list[Traffic]]:
        """Bytes that each kernel reads and writes of each slot."""
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
            self.model.runtime,
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
        for _, apply in whole_pipeline(options):  # not recorded: nothing is being compiled
            applied(work, apply)
        return Planner(Schedule(work, options, marker.taken_out().values())).build()

    def is_other(self, plan: Plan) -> bool:
        """Whether ``plan`` computes some op in another kernel, or with others, than now."""
        now, then = ([frozenset(step.nodes) for step in p.steps] for p in (self.plan, plan))
        return now != then

    def is_alike(self, plan: Plan) -> bool:
        """Whether ``plan`` has as many kernels as now, which move as many bytes: as far as anybody
        can count, nothing is different."""
        now, then = (
            (len(p.steps), sum(step.nbytes.evaluate(self.dims) for step in p.steps))
            for p in (self.plan, plan)
        )
        return now == then

    def replanned(self, plan: Plan) -> tuple[list[Kernel], Saving]:
        """The kernels that another plan of the same graph does not have, and what it would save.

        Those that it has too keep their time. Each of the others takes as much more or less than
        its estimate as the kernels did that compute its nodes now.
        """
        gone: dict[object, list[Kernel]] = {}
        for kernel in self.kernels:
            gone.setdefault(_key(kernel.step), []).append(kernel)
        new: list[tuple[Step, Estimate]] = []
        for step, terms in zip(plan.steps, self.estimates(plan), strict=True):
            same = gone.get(_key(step))
            if same:
                same.pop(0)
            else:
                new.append((step, terms))
        changed = [kernel for kernels in gone.values() for kernel in kernels]
        by_node: dict[str, list[Kernel]] = {}
        for kernel in changed:
            for node in kernel.step.nodes:
                by_node.setdefault(node, []).append(kernel)
        made: list[tuple[float, list[Kernel], float]] = []
        for step, terms in new:
            before = {k.id: k for node in step.nodes for k in by_node.get(node, [])}
            estimated = sum(k.estimate.ns for k in before.values())
            turns = max((k.time.turns for k in before.values()), default=1)
            made.append((terms.of_turns(turns).ns, list(before.values()), estimated))

        def saving(times: Times) -> Array:
            after = np.zeros(())
            for ns, before, estimated in made:
                ratio = sum_of(times, before) / estimated if estimated else np.ones(())
                after = after + ns * np.clip(ratio, LEAST, MOST)
            return np.asarray(sum_of(times, changed) - after)

        return changed, saving

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
        saving: Saving | None = None,
        basis: Basis = "estimated",
        how: str,
        recipe: Recipe | None = None,
        nodes: Iterable[str] | None = None,
        changes: Any = "nothing",
    ) -> Action:
        """An action that is about ``kernels``, and all their nodes unless ``nodes`` are given.
        Without ``saving`` it saves all the time that these kernels were measured to take."""
        about = list(kernels)
        if saving is None:
            saving, basis = lambda times: sum_of(times, about), "measured"
        found = self._priced[id] = priced(saving, basis, about, self.total_ns)
        is_told = not self.withheld
        chosen = nodes if nodes is not None else [n for k in about for n in k.step.nodes]
        return Action(
            id,
            kind,
            title,
            why,
            tuple(k.id for k in about),
            tuple(dict.fromkeys(chosen)),
            found.ns if is_told else None,
            found.ns / self.total_ns if is_told else None,
            found.low if is_told else None,
            found.high if is_told else None,
            how,
            recipe,
            changes,
            self.withheld,
        )

    def is_worth(self, action: Action, least: float) -> bool:
        """Whether ``action`` saves the fraction ``least`` of the time of all kernels, even where
        its interval begins; where nothing is predicted, whether it does in the fastest runs."""
        found = self._priced[action.id]
        if not self.withheld:
            return found.low >= least * self.total_ns
        return found.rank_ns >= least * sum(k.ns_min for k in self.profile.kernels)

    def rank_ns(self, action: Action) -> float:
        """The time that ``action`` is ranked by: its predicted saving or, where nothing is
        predicted, the saving in the fastest runs, which hardly depend on the rest of the machine.
        """
        found = self._priced[action.id]
        return found.rank_ns if self.withheld else found.ns


def _key(step: Step) -> object:
    """The key of a kernel: equal for the same kernel in two plans of one graph."""
    return step.kind, step.name, frozenset(step.nodes)


def sum_of(times: Times, kernels: Iterable[Kernel]) -> Array:
    """The time of ``kernels`` together."""
    total = np.zeros(())
    for kernel in kernels:
        total = total + times(kernel)
    return np.asarray(total)
