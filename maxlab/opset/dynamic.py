"""Which dims a run defines, and the op that binds such a dim.

``mo.bind_dim`` takes a number that was computed and makes it the size of a dim: a name that nobody
has bound before is *defined* by it, for every op that names it; a number, an expression or a name
that is bound already is *asserted*. A plan is cut behind such ops; the engine reads the numbers
there and goes on with the sizes that they give. The ops that compute such numbers are in
``dynamic_elements`` and ``dynamic_sizes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError
from maxlab.ir import Block, Dim, DimLike, Function, Op, SymbolicDim, TensorType, Type
from maxlab.ir.poly import ONE, Poly
from maxlab.ir.types import Typed
from maxlab.opset.attributes import DIM, TEXT
from maxlab.opset.core import OPSET, Attrs, Check, Cost, Sample, define
from maxlab.opset.kernel import Site

BIND = "mo.bind_dim"


# ---------------------------------------------------------------- which dims a run defines
def plain_symbol(check: Check) -> str | None:
    """The name that ``check`` says something is equal to; None when it is no name alone."""
    poly = check.right
    names = poly.symbols()
    if check.relation == "==" and len(names) == 1 and str(poly) == names[0]:
        return names[0]
    return None


def definitions(function: Function) -> dict[str, tuple[Op, Poly | None]]:
    """By the name of each dim that no input has: the op that defines it, a rebind of something of
    that size or, without a size, a ``bind_dim``. The first to name a dim defines it.
    """
    return _defined(function.block, ())


def _defined(block: Block, outside: Iterable[str]) -> dict[str, tuple[Op, Poly | None]]:
    known = set(outside)
    for value in block.args:
        if isinstance(value.type, Typed):
            known.update(d.name for d in value.type.shape if isinstance(d, SymbolicDim))
    found: dict[str, tuple[Op, Poly | None]] = {}
    for op in block.ops:
        if op.name == BIND:
            dim = op.attrs["dim"]
            if isinstance(dim, SymbolicDim) and dim.name not in known:
                known.add(dim.name)
                found[dim.name] = op, None
        elif op.name == "mo.rebind":
            checks = OPSET[op.name].checks
            assert checks is not None
            types = [v.type for v in op.operands if isinstance(v.type, TensorType)]
            for check in checks(types, [r.type for r in op.results], op.attrs):
                name = plain_symbol(check)
                if name is not None and name not in known:
                    known.add(name)
                    found[name] = op, check.left
    return found


def region_definitions(region: Block, outside: Iterable[str]) -> dict[str, Poly]:
    """The sizes of the dims that a region names for itself, by their names, where ``outside`` are
    the names that its graph has."""
    found: dict[str, Poly] = {}
    for name, (_, size) in _defined(region, outside).items():
        if size is not None:
            found[name] = size.substitute(found)
    return found


def late_dims(function: Function) -> dict[str, frozenset[Op]]:
    """By the name of each dim that only a run tells: the ``bind_dim`` ops that must have run."""
    if not any(op.name == BIND for op in function.ops):
        return {}
    found: dict[str, frozenset[Op]] = {}
    for name, (op, size) in definitions(function).items():
        if size is None:
            found[name] = frozenset((op,))
        else:
            behind = [found[s] for s in size.symbols() if s in found]
            if behind:
                found[name] = frozenset().union(*behind)
    return found


def named_dims(op: Op) -> set[str]:
    """The names of dims in the types and attributes of ``op``, without those of its operands; of an
    op with regions, also those that these name."""
    found: set[str] = set()
    for region in op.regions:
        for inner in region.ops:
            found.update(named_dims(inner))
    for result in op.results:
        if isinstance(result.type, Typed):
            found.update(name for size in result.type.sizes for name in size.symbols())
    for attr in op.attrs.values():
        found.update(_names(attr))
    return found


def _names(attr: object) -> list[str]:
    if isinstance(attr, Dim):
        return list(attr.poly.symbols())
    if isinstance(attr, (list, tuple)):
        return [name for one in attr for name in _names(one)]
    return []


def out_dim_of(dim: DimLike) -> Dim:
    """``dim`` as a dim; a static one is not negative.

    Raises:
        ArgumentError: ML728, it is negative.
    """
    made = Dim(dim)
    if made.poly.is_constant and made.poly.evaluate({}) < 0:
        raise ArgumentError(
            "ML728", f"out_dim is {made}, and no dim is negative", fix="pass a name, or 0 or more"
        )
    return made


# ---------------------------------------------------------------- binding
def require_count(what: str, type: TensorType) -> None:
    """``type`` is one int64, as a size is.

    Raises:
        DTypeError: ML109, it is not.
    """
    if type.dtype is not DType.int64 or type.rank:
        raise DTypeError(
            "ML109",
            f"{what} must be one int64, got {type}",
            fix="cast it: ops.cast(x, DType.int64)",
        )


def _bind_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (size,) = types
    require_count("bind_dim: the size", size)
    Dim(attrs["dim"])
    return [size]


def _bind_kernel(at: Site) -> None:
    x, y = at.operands[0], at.results[0]
    at.part(y.store("i", x.load("i")), ONE)


define(
    "bind_dim",
    "kernel",
    "index",
    "The operand, which becomes, or must be, the size of a dim.",
    attrs={"dim": DIM, "what": TEXT, "negative": TEXT},
    role="bind",
    infer=_bind_infer,
    reference=lambda call, x: x,
    kernel=_bind_kernel,
    asserts=True,
    cost=lambda operands, results, attrs: Cost(Poly.constant(0)),
    samples=lambda: [
        Sample((np.array(7, np.int64),), {"dim": Dim(7), "what": "test", "negative": ""})
    ],
)


__all__ = [
    "BIND",
    "definitions",
    "late_dims",
    "named_dims",
    "out_dim_of",
    "plain_symbol",
    "region_definitions",
    "require_count",
]
