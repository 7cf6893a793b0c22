"""Opaque handles as numbers: what a graph calls a handle is, to all passes, the address of an
object, a number on the host that is planned, carried and copied like any other.

Who keeps the object is no matter of the plan: what a run makes lives to its end, and what it is
given is its caller's (``engine.handles``).
"""

from __future__ import annotations

from typing import Any

from maxlab.errors import GraphError
from maxlab.ir import Call, Function, HandleType, Op, OpaqueType, Type, Value
from maxlab.opset.custom import OPS, declaration_of


def numbered(function: Function) -> Function:
    """``function``, or, when it has opaque values, a copy in which they are ``HandleType``.

    Raises:
        GraphError: ML784, two kernels declare one type otherwise.
    """
    values = [*function.inputs, *(v for op in function.walk() for v in op.results)]
    if not any(isinstance(value.type, OpaqueType) for value in values):
        return function
    definitions(function)
    work = function.clone()
    _number(work)
    bodies = {call.body: numbered(call.body) for call in work.calls}
    work.calls = [Call(bodies[c.body], c.ids, c.weights, c.operands, c.results) for c in work.calls]
    return work


def _number(function: Function) -> None:
    for value in _values(function):
        value.retype(_lowered(value.type))
    for op in function.walk():
        if "types" in op.attrs:
            types: Any = op.attrs["types"]
            op.set_attr("types", tuple(map(_lowered, types)))


def _values(function: Function) -> list[Value]:
    found = list(function.inputs)
    for op in function.walk():
        found += op.results
        for region in op.regions:
            found += region.args
    return found


def _lowered(type: Type) -> Type:
    return HandleType(type.name) if isinstance(type, OpaqueType) else type


def definitions(function: Function) -> dict[str, str]:
    """The text by which each opaque type that a kernel of ``function`` makes or takes differs from
    others of its name.

    Raises:
        GraphError: ML784, two kernels declare one type otherwise.
    """
    from maxlab.opset.opaques import definition

    found: dict[str, tuple[str, Op]] = {}
    for op in function.walk():
        if op.name not in OPS:
            continue
        declared = declaration_of(op.attrs)
        if not declared.has_handles:
            continue
        for argument in (*declared.operands, *declared.results):
            if not argument.opaque:
                continue
            text = definition(declared.opaques, argument.element)
            known, first = found.setdefault(argument.element, (text, op))
            if known != text:
                other = declaration_of(first.attrs)
                raise GraphError(
                    "ML784",
                    f"{declared.name} and {other.name} declare the opaque type "
                    f"{argument.element!r} with different texts",
                    at=op.loc,
                    why=[
                        f"{each.name} is declared at {each.file}:{each.line}"
                        for each in (declared, other)
                    ],
                    fix="declare it once: a kernel would take the other's memory for its own",
                )
    return {name: text for name, (text, _) in found.items()}


__all__ = ["definitions", "numbered"]
