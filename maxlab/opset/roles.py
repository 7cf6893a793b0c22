"""The role of an op, asked without its name.

Code that reads a graph asks ``is_weight(op)``, or tells roles apart by ``role_of(op)``; code that
has to make an op of a role gets its name from ``named``.
"""

from __future__ import annotations

from typing import TypeGuard

from maxlab.ir import Function, Op
from maxlab.opset.core import OPSET
from maxlab.opset.facts import Role
from maxlab.opset.places import NAMED


def role_of(op: Op | None) -> Role | None:
    """The role that the op table gives ``op``; None without an op, or for one it does not have.

    Example:
        >>> role_of(Op("n0", "mo.output", [], [])), role_of(None)
        ('output', None)
    """
    row = OPSET.get(op.name) if op is not None else None
    return row.role if row is not None else None


def named(role: Role) -> str:
    """The name of the op whose role is ``role``.

    Raises:
        ValueError: Several ops have this role, or none.

    Example:
        >>> named("weight")
        'mo.constant.external'
    """
    name = NAMED.get(role)
    if name is None:
        raise ValueError(f"no op has the role {role!r} alone")
    return name


def is_constant(op: Op | None) -> TypeGuard[Op]:
    """Whether ``op`` is data that stands in the graph: its attribute ``value``."""
    return role_of(op) == "data"


def is_weight(op: Op | None) -> TypeGuard[Op]:
    """Whether ``op`` is data of the weights registry: what has its attribute ``name`` there."""
    return role_of(op) == "weight"


def is_dim(op: Op | None) -> TypeGuard[Op]:
    """Whether ``op`` is the size of a dim: its attribute ``dim``."""
    return role_of(op) == "dim"


def is_cast(op: Op | None) -> TypeGuard[Op]:
    """Whether ``op`` changes the dtype alone."""
    return role_of(op) == "cast"


def is_transfer(op: Op | None) -> TypeGuard[Op]:
    """Whether ``op`` is its operand on another device."""
    return role_of(op) == "transfer"


def is_call(op: Op | None) -> TypeGuard[Op]:
    """Whether ``op`` runs a subgraph: the body of its attribute ``call``."""
    return role_of(op) == "call"


def is_chain(op: Op | None) -> TypeGuard[Op]:
    """Whether ``op`` begins an order of effects."""
    return role_of(op) == "chain"


def is_output(op: Op | None) -> TypeGuard[Op]:
    """Whether ``op`` ends a graph or a region: its operands are the results."""
    return role_of(op) == "output"


__all__ = [
    "is_call",
    "is_cast",
    "is_chain",
    "is_constant",
    "is_dim",
    "is_output",
    "is_transfer",
    "is_weight",
    "named",
    "role_of",
]


def is_operation(op: Op) -> bool:
    """Whether ``op`` counts as an operation: all do but data and weights, which are there before a
    run, and what ends a graph or a region. Whoever says how many operations there are counts these.

    Example:
        >>> is_operation(Op("n0", "mo.output", [], [])), is_operation(Op("n1", "mo.add", [], []))
        (False, True)
    """
    return role_of(op) not in ("data", "weight", "output")


def operations(function: Function) -> int:
    """How many operations ``function`` has, with those in the bodies of loops and branches.

    Example:
        >>> from maxlab.ir import Function
        >>> operations(Function("empty"))
        0
    """
    return sum(map(is_operation, function.walk()))
