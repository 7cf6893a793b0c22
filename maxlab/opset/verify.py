"""Verifies functions against the op table: every op is known and makes the types of its rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxlab.errors import GraphError, MaxlabError
from maxlab.ir import ChainType, Function, Op, Type
from maxlab.ir.types import _Typed
from maxlab.ir.verifier import verify as verify_structure
from maxlab.opset.control import verify_regions
from maxlab.opset.core import lookup


def infer_types(op: Op) -> list[Type]:
    """The types that the op table gives the results of ``op``.

    Raises:
        GraphError: ML301, there is no such op; ML358, operands or attributes that it does not take.
    """
    row = lookup(op.name)
    if row.name == "mo.output":
        return []
    types: list[Any] = [value.type for value in op.operands if isinstance(value.type, _Typed)]
    try:
        made: Sequence[Type] = row.infer(types, op.attrs)
    except KeyError as error:
        raise GraphError(
            "ML358", f"{op.name} {op.id} lacks the attribute {error}", at=op.loc
        ) from error
    except MaxlabError as error:
        raise GraphError(
            "ML358", f"{op.name} {op.id} is not well typed: {error.what}", at=op.loc, fix=error.fix
        ) from error
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        # The rule unpacks its operands and reads its attributes: other ones than it takes.
        raise GraphError(
            "ML358",
            f"{op.name} {op.id} does not take {len(op.operands)} operands with the attributes "
            f"{sorted(op.attrs)}: {error}",
            at=op.loc,
        ) from error
    ordered = row.effect or row.kind == "program"
    chains = [v.type for v in op.operands if ordered and isinstance(v.type, ChainType)]
    return [*made, *chains]  # an op that takes a chain makes the next one


def verify(function: Function) -> None:
    """Nothing, when ``function`` is well formed and every op makes the types the table says.

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
        verify_regions(op)
