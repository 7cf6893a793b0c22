"""The plan of a compiled graph.

``planner`` makes plans; ``engine`` binds a plan to sizes and hands it to the C executor. Everything
in a plan is symbolic in the dims and a plain value: plans are printed, parsed back, compared and
kept in files.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from maxlab.compiler.facts import Facts
from maxlab.compiler.plan_parts import (
    PACK_KERNELS,
    PACK_TAPS_KERNELS,
    Binds,
    Env,
    Exchange,
    GpuKernels,
    GpuLaunch,
    KernelArgument,
    Launch,
    LibraryCall,
    Packing,
    Slot,
    SlotKind,
    Step,
    panels,
    panels_nbytes,
)
from maxlab.errors import ArgumentTypeError, elsewhere, shown, unlisted

if TYPE_CHECKING:
    import numpy as np

    from maxlab.compiler.plan_changes import PlanDiff


@dataclass(slots=True, repr=False)
class Plan:
    """All slots and steps, in the order in which they run.

    ``cuts`` are the numbers of the steps before which dims are bound that earlier steps computed:
    the stages of the plan begin there. Most plans have one stage. ``aliases`` has, by its number,
    the slot of each output that is a buffer which the caller, or another output, has already.
    ``loops`` are the steps of loops, inner ones before those that they are in, and ``programs``
    those of each op of the graph that has regions; the last of them does nothing. ``facts`` are
    what running it and reporting errors needs to know of the graph.
    """

    slots: list[Slot] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    aliases: dict[int, int] = field(default_factory=dict)
    loops: list[range] = field(default_factory=list)
    programs: list[range] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)

    @property
    def stages(self) -> list[range]:
        """The numbers of the steps of each stage; the last one may have none."""
        ends = [0, *self.cuts, len(self.steps)]
        return [range(first, last) for first, last in itertools.pairwise(ends)]

    def table(self, rows: int | None = 20) -> str:
        """The steps in their order, then the buffers, as text.

        Args:
            rows: How many steps, and how many buffers, to list; None lists all.

        Example:
            >>> from maxlab import engine
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
            >>> print(engine.InferenceSession().load(graph).plan.table())
            1 step, 2 buffers
            <BLANKLINE>
            step  name  kind  writes  reads  items  launch                   ops
            k0    mul   map   b1      b0     n      Items(extent=n, cost=3)  n1
            <BLANKLINE>
            buffer  kind    holds            dtype    shape  bytes
            b0      input   input 0, input0  float32  [n]    n * 4
            b1      output  output 0         float32  [n]    n * 4
            <BLANKLINE>
            k0, k1 …: steps in the order in which they run; most are one kernel
            b0, b1 …: buffers of memory; bytes and shapes are formulas of the dims of the
                inputs
            items: the parts of a step that threads can share
            launch: how threads share the items: a formula, evaluated when the sizes are
                known
            n0, n1 …: operations of the graph, as its listing numbers them
            map: each element by itself
            input: memory of the caller, read where it lies
            output: memory that a run makes and gives to the caller
            Items: threads take chunks of items; extent: how many there are; cost: scalar
                operations of one, or of a unit
        """
        from maxlab.compiler.plan_text import plan_text

        return plan_text(self, rows)

    def text(self) -> str:
        """The whole plan as text that `parse` reads back; see ``compiler.plan_file`` for the form.

        Raises:
            GraphError: ML331, a step calls a function of Python.

        Example:
            >>> from maxlab import engine
            >>> from maxlab.compiler.plan import Plan
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
            >>> plan = engine.InferenceSession().load(graph).plan
            >>> Plan.parse(plan.text(), plan.arrays()) == plan
            True
        """
        from maxlab.compiler import plan_file

        return plan_file.written(self, explain=True)[0]

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The constants that are too large for the text, by the digest that it names them by.

        Raises:
            GraphError: ML331, a step calls a function of Python.
        """
        from maxlab.compiler import plan_file

        return plan_file.written(self)[1]

    @staticmethod
    def parse(text: str, arrays: Mapping[str, np.ndarray[Any, Any]] | None = None) -> Plan:
        """The plan that `text` has written, with what `arrays` gave.

        Raises:
            ParseError: ML349, it is no plan of this version, or a part of it is missing.
        """
        from maxlab.compiler import plan_reader

        return Plan(**plan_reader.read(text, arrays))

    def diff(self, other: Plan, /) -> PlanDiff:
        """The differences in ``other``, in words: empty, and false, when the plans are equal.

        Steps are matched by what they compute, buffers by what they hold; numbers that are others
        only because something else is there too are no difference. ``maxlab.diff(plan, other)`` is
        the same call; ``maxlab.diff`` of two models compares their graphs instead.

        Args:
            other: A plan, such as that of another graph or of ``model.reload(options=...)``.

        Raises:
            ArgumentTypeError: ML642, it is no plan.

        Example:
            >>> from maxlab import engine
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> types = [TensorType(DType.float32, ["n"])]
            >>> session = engine.InferenceSession()
            >>> before = session.load(Graph("f", lambda x: x * 2, types)).plan
            >>> after = session.load(Graph("f", lambda x: x + 2, types)).plan
            >>> for change in before.diff(after).steps:
            ...     print(change.kind, change.ids, change.title)
            changed k0 mul (map) → add (map)
        """
        from maxlab.compiler.plan_diff import diff

        if not isinstance(other, Plan):
            raise ArgumentTypeError(
                "ML642",
                f"a plan is compared with a plan, got {shown(other)}",
                fix="pass the plan of a model: before.plan.diff(after.plan)",
            )
        return diff(self, other)

    def __str__(self) -> str:
        return self.table(None)

    def __repr__(self) -> str:
        steps, slots = len(self.steps), len(self.slots)
        return f"Plan({steps} step{'s' * (steps != 1)}, {slots} buffer{'s' * (slots != 1)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.table())

    def _repr_html_(self) -> str:
        from maxlab.compiler.plan_html import plan_page

        return plan_page(self)


unlisted(Plan, "plan", "model.plan.steps[0] is a step, model.plan.slots[0] a buffer")
elsewhere(
    Plan,
    "plan",
    {
        "kernels": 'model.kernels["k0"]',
        "buffers": "model.plan.slots",
        "nodes": "model.plan.steps",
        "memory": "maxlab.memory(model)",
    },
)


__all__ = [
    "Plan",
    "Binds",
    "Env",
    "Exchange",
    "GpuKernels",
    "GpuLaunch",
    "KernelArgument",
    "Launch",
    "LibraryCall",
    "PACK_KERNELS",
    "PACK_TAPS_KERNELS",
    "Packing",
    "Slot",
    "SlotKind",
    "Step",
    "panels",
    "panels_nbytes",
]
