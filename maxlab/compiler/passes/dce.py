"""Dead code: ops whose results nobody reads."""

from __future__ import annotations

from maxlab.compiler.effects import has_effect
from maxlab.compiler.passes.manager import Rewrite
from maxlab.ir import Function
from maxlab.opset import OPSET


def eliminate_dead_code(function: Function, rewrites: list[Rewrite]) -> None:
    """Remove every op that does not lead to an output.

    A rebind stays, and what binds a dim: they assert something even when nobody reads them. What
    has an effect stays, but for the load of a buffer that nobody reads.
    """
    kept = []
    for op in reversed(function.ops):
        row = OPSET.get(op.name)
        stays = row is not None and (
            row.kind == "output"
            or row.asserts
            or row.effect not in ("", "read")
            or (row.kind == "program" and has_effect(op))
        )
        if stays or any(r.uses for r in op.results):
            kept.append(op)
        else:
            rewrites.append(Rewrite("dead", op.id))
            op.drop()
    kept.reverse()
    function.block.keep(kept)
