"""Constant folding: what does not depend on the inputs is computed once, by the op's NumPy
reference.
"""

from __future__ import annotations

from maxlab import opset
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.ir import Constant, Op, Rewriting, Shape, TensorType

MAX_ELEMENTS = 4096
"""Larger results are computed by generated code, once per call; the graph would only grow by
storing them.
"""

_KINDS = {"map", "view", "transfer", "reduce", "gather", "concat", "pad", "composite", "contract"}


def _foldable(op: Op) -> bool:
    row = opset.OPSET.get(op.name)
    if row is None or row.kind not in _KINDS or not op.operands or row.asserts:
        return False
    for value in op.operands:
        source = value.op
        if source is None or source.operands or not opset.is_constant(source):
            return False
    total = 1
    for result in op.results:
        typed = result.type
        if not isinstance(typed, TensorType) or not Shape.is_static(typed.shape):
            return False
        # Stored in NumPy's own types only: others are rounded by generated code in one place.
        if typed.dtype is DType.bfloat16 or typed.dtype.is_float8():
            return False
        total *= typed.num_elements()
    inputs = max((v.op.attrs["value"].array.size for v in op.operands if v.op), default=0)
    return total <= MAX_ELEMENTS and inputs <= MAX_ELEMENTS


def fold_constants(rewriting: Rewriting) -> None:
    """Replace ops on small constants by their value."""
    for op in rewriting.function.ops:
        if not _foldable(op):
            continue
        arrays = [v.op.attrs["value"].array for v in op.operands if v.op is not None]
        try:
            (made,) = opset.evaluate(op, arrays, {})
        except (MaxlabError, ValueError):
            continue  # found again, with its place, when the model runs
        constant = rewriting.function.create(
            opset.named("data"),
            [],
            [op.result.type],
            {"value": Constant(made), "device": op.result.tensor_type.device},
            loc=op.loc,
            scope=op.scope,
            origins=op.origins,
        )
        rewriting.rule("fold", op)
        rewriting.insert(constant, op)
        rewriting.replace(op, constant.results)
