"""Dead code: ops whose results nobody reads."""

from __future__ import annotations

from maxlab.compiler.effects import has_effect
from maxlab.ir import Rewriting
from maxlab.opset import OPSET


def eliminate_dead_code(rewriting: Rewriting) -> None:
    """Remove every op that does not lead to an output.

    A rebind stays, and what binds a dim: they assert something even when nobody reads them. What
    has an effect stays, but for the load of a buffer that nobody reads.
    """
    for op in reversed(rewriting.function.ops):
        row = OPSET.get(op.name)
        stays = row is not None and (
            row.kind == "output"
            or row.asserts
            or row.effect not in ("", "read")
            or (row.kind == "program" and has_effect(op))
        )
        if not stays and not any(r.uses for r in op.results):
            rewriting.rule("dead", op)
            rewriting.remove(op)
