"""Maps behind an op in its own kernel, part by part of its result, while that is in the cache."""

from __future__ import annotations

from dataclasses import dataclass

from maxlab.compiler.groups import Group
from maxlab.compiler.loops import Kernel
from maxlab.compiler.lower import Lowering
from maxlab.compiler.plan_sink import PlanSink
from maxlab.compiler.products import tile_target
from maxlab.ir import Value
from maxlab.ir.poly import Poly


@dataclass(frozen=True, slots=True)
class Finish:
    """The maps behind the result of an op in its own kernel, for each part of it.

    Attributes:
        kernel: The loops over a part.
        values: What their pointers are.
        result: Which of them the op writes to.
        columns: The size of the last axis.
    """

    kernel: Kernel
    values: list[Value]
    result: int
    columns: Poly


def finish_of(sink: PlanSink, group: Group) -> Finish:
    """The maps that follow the op of ``group``."""
    op = group.main
    assert op is not None
    lowering = Lowering(sink.schedule, group)
    result = lowering.buffer(tile_target(sink.schedule, group, op.result), True)
    columns = op.result.tensor_type.sizes[-1]
    tests = sink.schedule.options.assert_level in ("warn", "all")
    lowered = lowering.epilogue(op.result, columns, False, tests)
    return Finish(lowered.kernel, list(lowered.values), result, columns)


__all__ = ["Finish", "finish_of"]
