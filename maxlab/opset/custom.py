"""The op whose kernels a user has written: a declaration of a kernel library, bound to types.

The attributes carry the declaration as text, so that a graph with such ops is printed, saved, read
and compiled without the library that they came from. What reads the text is imported when a graph
has such an op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    Location,
)
from maxlab.ir import Function, Op, TensorType, Type
from maxlab.ir.poly import Poly
from maxlab.opset.attributes import DEVICE, INT, PAIRS, TEXT, TYPES, Schema
from maxlab.opset.core import Array, Attrs, Call, Cost, define
from maxlab.opset.faults import Fault
from maxlab.opset.kernel import Site

if TYPE_CHECKING:
    from maxlab.opset.custom_binding import Bound
    from maxlab.opset.declarations import Declaration, Parameter, ParameterRule

OP, INPLACE = "mo.custom", "mo.custom.inplace"
OPS = (OP, INPLACE)
"""The ops of users: of tensors alone, and with an effect, on buffers or what handles hold."""

DECLARED: dict[str, Declaration] = {}
"""The declarations of the kernel libraries of this process, by their text. Nothing else is ever
compiled: a graph that is read from a file brings no code that runs.
"""
REFERENCES: dict[str, Callable[..., Any]] = {}
"""References in NumPy for declarations, by their text; for checks of results only."""


def declaration_of(attrs: Attrs) -> Declaration:
    """The declaration that the attributes of an op carry."""
    from maxlab.opset.declared import declaration

    return declaration(attrs["source"], attrs["file"], attrs["line"])


# ---------------------------------------------------------------- parameters
def complete(declared: Declaration, given: Mapping[str, Any]) -> dict[str, Parameter]:
    """The value of every parameter of ``declared``: what is given, or its default.

    Raises:
        ArgumentError: ML767, one is not known, is missing, or is none of its choices.
        ArgumentTypeError: ML768, one is of another type.
    """
    rules, what = declared.parameters, declared.name
    for name in given:
        if name not in rules:
            import difflib

            close = difflib.get_close_matches(str(name), rules, 1)
            raise ArgumentError(
                "ML767",
                f"{what} has no parameter {name!r}",
                why=[declared.declared_at],
                fix=f"did you mean {close[0]!r}?"
                if close
                else f"its parameters are {', '.join(rules) or 'none'}",
            )
    made: dict[str, Parameter] = {}
    for name, rule in rules.items():
        if name in given:
            made[name] = _parameter(declared, rule, given[name])
        elif rule.default is not None:
            made[name] = rule.default
        else:
            raise ArgumentError(
                "ML767",
                f"{what} needs the parameter {name!r}, of the type {rule.kind}",
                why=[declared.declared_at],
                fix=f"pass parameters={{{name!r}: …}}",
            )
    return made


def _parameter(declared: Declaration, rule: ParameterRule, value: Any) -> Parameter:
    from maxlab.opset.declarations import DTYPES

    if isinstance(value, np.bool_):
        value = bool(value)
    elif isinstance(value, np.integer):
        value = int(value)
    elif isinstance(value, np.floating):
        value = float(value)
    elif rule.kind == "ints" and isinstance(value, list):
        value = tuple(value)
    if rule.kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    kinds: dict[str, type] = {
        "bool": bool, "int": int, "float": float, "ints": tuple, "str": str, "DType": DType,
    }  # fmt: skip
    wrong = not isinstance(value, kinds[rule.kind])
    if rule.kind == "ints" and not wrong:
        wrong = not all(isinstance(each, int) and not isinstance(each, bool) for each in value)
    if wrong or (rule.kind == "int" and isinstance(value, bool)):
        raise ArgumentTypeError(
            "ML768",
            f"{declared.name}: the parameter {rule.name!r} must be of the type {rule.kind}, "
            f"got {value!r}",
            why=[declared.declared_at],
            fix="parameters are compiled into the kernel; a number that is computed is an "
            "operand: ops.constant(value, dtype, device)",
        )
    if rule.choices and value not in rule.choices:
        raise ArgumentError(
            "ML767",
            f"{declared.name}: the parameter {rule.name!r} must be one of "
            f"{', '.join(_shown(c) for c in rule.choices)}, got {_shown(value)}",
            why=[declared.declared_at],
            fix="pass one of them",
        )
    if rule.kind == "DType" and value.name not in DTYPES:
        raise DTypeError(
            "ML765",
            f"{declared.name}: the parameter {rule.name!r} is {value.name}, which kernels do not "
            "read or write",
            why=[declared.declared_at],
            fix="cast to float16 or bfloat16 first",
        )
    whole = value if rule.kind == "ints" else (value,) if rule.kind == "int" else ()
    if not all(-(2**63) <= each < 2**63 for each in whole):
        raise ArgumentError(
            "ML767",
            f"{declared.name}: the parameter {rule.name!r} does not fit 64 bits: {value}",
            fix="pass a smaller number",
        )
    made: Parameter = value
    return made


def _shown(value: Parameter) -> str:
    return value.name if isinstance(value, DType) else repr(value)


def bound_of(types: Sequence[Type], attrs: Attrs) -> Bound:
    """The declaration that ``attrs`` carry, with the types of the op."""
    from maxlab.opset.custom_binding import bind

    results = list(attrs["types"])
    declared = declaration_of(attrs)
    parameters = complete(declared, dict(attrs["parameters"]))
    return bind(declared, types, results, parameters, attrs["device"])


def require_declared(attrs: Attrs, at: Location | None = None) -> Declaration:
    """The declaration with the text that ``attrs`` carry, as a kernel library of this process has
    it.

    Raises:
        ArgumentError: ML760, none has.
    """
    found = DECLARED.get(attrs["source"])
    if found is None:
        raise ArgumentError(
            "ML760",
            f"the graph has the custom op {attrs['name']!r}, and no kernel library that was loaded "
            "declares it",
            at=at,
            why=["a file of a graph has the text of its kernels, and is not trusted to run it"],
            fix="load the library: InferenceSession(custom_extensions=[path]); or, of a file that "
            "you trust as you do a program: maxlab.open(path, trusted=True)",
        )
    return found


def trust(function: Function) -> None:
    """Declares the kernels that ``function`` carries, as a library that was loaded does: from now
    on they are compiled and run."""
    for op in function.walk():
        if op.name in OPS:
            DECLARED.setdefault(op.attrs["source"], declaration_of(op.attrs))
    for subgraph in function.subgraphs.values():
        trust(subgraph)


def require_unchanging(declared: Declaration) -> None:
    """Raises if ``declared`` changes an operand.

    Raises:
        ArgumentTypeError: ML790.
    """
    changed = [operand.name for operand in declared.operands if operand.inout]
    if changed:
        names = ", ".join(changed)
        raise ArgumentTypeError(
            "ML790",
            f"{declared.name} changes {names} in place",
            why=[declared.declared_at],
            fix="call it with ops.inplace_custom, which takes buffers and handles",
        )


def is_effect(declared: Declaration) -> bool:
    """Whether a call of ``declared`` has a place in the order of effects: one that makes a handle
    makes another one each time, and what a handle holds is changed by others."""
    return declared.has_handles


def _infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    declared = declaration_of(attrs)
    require_unchanging(declared)
    if is_effect(declared):
        raise ArgumentTypeError(
            "ML790",
            f"{declared.name} has handles, and no place in the order of effects",
            why=[declared.declared_at],
            fix=f"a call of it is {INPLACE}, as ops.custom writes it",
        )
    bound_of(types, attrs)
    return list(attrs["types"])


# ---------------------------------------------------------------- the kernel
def _kernel(at: Site) -> None:
    from maxlab.opset.custom_parts import write_parts
    from maxlab.opset.custom_text import Translator

    require_declared(at.attrs)
    bound = bound_of([b.type for b in at.operands], at.attrs)
    write_parts(at, bound, Translator(at, bound))


# ---------------------------------------------------------------- the rest of the row
def has_reference(op: Op) -> bool:
    """Whether NumPy can compute ``op``: all ops but those of users who gave no function for it."""
    if not all(has_reference(inner) for region in op.regions for inner in region.ops):
        return False
    if op.name in OPS and declaration_of(op.attrs).has_handles:
        return False  # NumPy has none
    return op.name not in OPS or op.attrs["source"] in REFERENCES


def label_of(op: Op) -> str:
    """The name of ``op`` for readers: a user's op has the name of its declaration."""
    return str(op.attrs["name"]) if op.name in OPS else op.name.removeprefix("mo.")


def _reference(call: Call, *arrays: Array) -> Any:
    function = REFERENCES.get(call.attrs["source"])
    if function is None:
        raise ArgumentError(
            "ML770",
            f"{call.attrs['name']} has no reference in Python",
            fix=f"library.reference({call.attrs['name']!r})(function)",
        )
    return function(*arrays, **dict(call.attrs["parameters"]))


def _cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
    from maxlab.opset.custom_parts import domain

    bound = bound_of(operands, attrs)
    total = Poly.constant(0)
    for part, _ in bound.parts():
        said = part.expressions
        items = bound.poly(said["items"]) if "items" in said else domain(bound)
        flops = said.get("flops")
        total = total + (bound.poly(flops) if flops else items * bound.poly(said.get("work", "1")))
    return Cost(total)


ATTRIBUTES: Schema = {
    "name": TEXT,
    "parameters": PAIRS,
    "types": TYPES,
    "device": DEVICE,
    "file": TEXT,
    "line": INT,
    "source": TEXT,
}


def _label(attrs: Attrs) -> str:
    return str(attrs["name"])


def _told(attrs: Attrs) -> dict[str, Any]:
    return {"kernel": f"{attrs['file']}:{attrs['line']}", **dict(attrs["parameters"])}


define(
    "custom",
    "kernel",
    "custom",
    "What the kernel of a user computes, as a kernel library declares it.",
    attrs=ATTRIBUTES,
    role="custom",
    label=_label,
    shown=_told,
    infer=_infer,
    reference=_reference,
    kernel=_kernel,
    fault=lambda op: Fault(label_of(op)),
    cost=_cost,
)

__all__ = [
    "INPLACE",
    "OPS",
    "REFERENCES",
    "bound_of",
    "complete",
    "declaration_of",
    "has_reference",
    "is_effect",
    "label_of",
    "require_declared",
    "require_unchanging",
    "trust",
]
