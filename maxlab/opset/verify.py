"""Verifies functions against the op table: every op is known and makes the types of its rule."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from maxlab.errors import GraphError, MaxlabError
from maxlab.ir import ChainType, Function, Op, Type
from maxlab.ir.poly import Poly
from maxlab.ir.verifier import verify as verify_structure
from maxlab.opset.attributes import wrong_attributes
from maxlab.opset.control import verify_regions
from maxlab.opset.core import OPSET, OpDef, ViewCall, lookup


def infer_types(op: Op, reads: Sequence[Type] | None = None) -> list[Type]:
    """The types that the op table gives the results of ``op``.

    Args:
        op: An op of the table.
        reads: The types of its operands, without chains, where they are to be others than now.

    Raises:
        GraphError: ML301, there is no such op; ML358, operands or attributes that it does not take.
    """
    row = lookup(op.name)
    if (op.attrs or row.attrs) and (wrong := wrong_attributes(row.attrs, op.attrs)) is not None:
        what, fix = wrong
        raise GraphError("ML358", f"{op.name} {op.id} {what}", at=op.loc, fix=fix)
    if row.role == "output":
        return []
    types: Sequence[Any] = (
        [v.type for v in op.operands if not isinstance(v.type, ChainType)]
        if reads is None
        else reads
    )
    try:
        _require_operands(row, len(types))
        made: Sequence[Type] = row.infer(types, op.attrs)
        _try_rules(row, types, made, op.attrs)
    except MaxlabError as error:
        raise GraphError(
            "ML358", f"{op.name} {op.id} is not well typed: {error.what}", at=op.loc, fix=error.fix
        ) from error
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        # The rule unpacks its operands and reads its attributes: other ones than it takes.
        raise GraphError(
            "ML358",
            f"{op.name} {op.id} does not take {len(op.operands)} operands with the attributes "
            f"{sorted(op.attrs)}: {error}",
            at=op.loc,
        ) from error
    if not row.effect and row.kind != "program":
        return list(made)
    chains = [v.type for v in op.operands if isinstance(v.type, ChainType)]
    return [*made, *chains]  # an op that takes a chain makes the next one


@functools.lru_cache(maxsize=256)
def _operand_counts(name: str) -> frozenset[int]:
    """How many operands the map ``name`` is tested with: it takes no other number of them."""
    samples = lookup(name).samples
    return frozenset(len(sample.arrays) for sample in samples()) if samples else frozenset()


def _require_operands(row: OpDef, count: int) -> None:
    counts = _operand_counts(row.name) if row.kind == "map" else ()
    if counts and count not in counts:
        raise ValueError(f"it takes {' or '.join(map(str, sorted(counts)))}")


@functools.cache
def _index(rank: int) -> tuple[Poly, ...]:
    return tuple(Poly.symbol(f"%{n}") for n in range(rank))


def _try_rules(
    row: OpDef, types: Sequence[Any], results: Sequence[Type], attrs: Mapping[str, Any]
) -> None:
    """Let what compiles the op read the attributes that its type rule may not have read."""
    if row.view is not None:
        source, target = types[0].sizes, results[0].sizes  # type: ignore[attr-defined]
        index = _index(len(target))
        if len(row.view(ViewCall(attrs, source, target), index)) != len(source):
            raise ValueError("its result has another rank than its attributes")
    if row.checks is not None:
        row.checks(types, results, attrs)


def verify(function: Function) -> None:
    """Raises unless ``function`` is well formed and every op makes the types the table says.

    Raises:
        GraphError: ML301, an op that the table does not have; ML356 to ML358, as the verifier of
            the IR says.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.ir import Function, TensorType
        >>> f = Function("f")
        >>> x = f.add_input(TensorType(DType.float32, ["n"]))
        >>> y = f.block.append(f.create("mo.relu", [x], [TensorType(DType.float32, ["n"])])).result
        >>> verify(f)
    """
    verify_structure(function, infer_types)
    for op in function.ops:
        if op.regions or OPSET[op.name].kind == "program":
            verify_regions(op)
