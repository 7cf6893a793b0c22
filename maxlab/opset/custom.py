"""The op whose kernels a user has written: a declaration of a kernel library, bound to types.

The attributes carry the declaration as text, so that a graph with such ops is printed, saved, read
and compiled without the library that they came from.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    DTypeError,
    Location,
    ShapeError,
)
from maxlab.ir import DeviceRef, Dim, HandleType, Op, OpaqueType, TensorType, Type
from maxlab.ir.dims import from_poly
from maxlab.ir.poly import ONE, Poly
from maxlab.opset.core import Array, Attrs, Call, Cost, define, elements, index_fault
from maxlab.opset.custom_text import Translator, came_from
from maxlab.opset.declared import (
    DTYPES,
    Argument,
    Declaration,
    Parameter,
    ParameterRule,
    declaration,
    expression,
)
from maxlab.opset.kernel import Site

OP, INPLACE = "mo.custom", "mo.custom.inplace"
OPS = (OP, INPLACE)
"""The ops of users: of tensors alone, and with buffers that are changed in place."""

DECLARED: dict[str, Declaration] = {}
"""What the kernel libraries of this process declare, by its text. Nothing else is ever compiled: a
graph that is read from a file brings no code that runs."""
REFERENCES: dict[str, Callable[..., Any]] = {}
"""What computes the same as a declaration in NumPy, by its text; for checks of results only."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A declaration whose names stand for the dims, dtypes and values of one op."""

    declared: Declaration
    dims: Mapping[str, Poly]
    stars: Mapping[str, tuple[Dim, ...]]
    dtypes: Mapping[str, DType]
    parameters: Mapping[str, Parameter]
    members: Mapping[str, Poly]

    def poly(self, text: str) -> Poly:
        """The expression ``text``.

        Raises:
            ShapeError: ML766, it asks for a dim that a tensor does not have.
        """
        env = {**self.members, **self.dims}
        for name, value in self.parameters.items():
            if isinstance(value, int):
                env[name] = Poly.constant(int(value))
        poly = expression(text)
        for name in poly.symbols():
            if name not in env:
                raise ShapeError(
                    "ML766",
                    f"{self.declared.name}: {text!r} asks for {name.replace('__of_', '.')!r}, "
                    "which these tensors do not have",
                    why=[_declared(self.declared)],
                    fix="an axis counts from 0 to the rank - 1",
                )
        return poly.substitute(env)


def declaration_of(attrs: Attrs) -> Declaration:
    """The declaration that the attributes of an op carry."""
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
            close = difflib.get_close_matches(str(name), rules, 1)
            raise ArgumentError(
                "ML767",
                f"{what} has no parameter {name!r}",
                why=[_declared(declared)],
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
                why=[_declared(declared)],
                fix=f"pass parameters={{{name!r}: …}}",
            )
    return made


def _parameter(declared: Declaration, rule: ParameterRule, value: Any) -> Parameter:
    if isinstance(value, np.bool_):
        value = bool(value)
    elif isinstance(value, np.integer):
        value = int(value)
    kinds: dict[str, type] = {"bool": bool, "int": int, "str": str, "DType": DType}
    wrong = not isinstance(value, kinds[rule.kind])
    if wrong or (rule.kind == "int" and isinstance(value, bool)):
        raise ArgumentTypeError(
            "ML768",
            f"{declared.name}: the parameter {rule.name!r} must be of the type {rule.kind}, "
            f"got {value!r}",
            why=[_declared(declared)],
            fix="parameters are compiled into the kernel; a number that is computed, or a float, "
            "is an operand: ops.constant(value, dtype, device)",
        )
    if rule.choices and value not in rule.choices:
        raise ArgumentError(
            "ML767",
            f"{declared.name}: the parameter {rule.name!r} must be one of "
            f"{', '.join(_shown(c) for c in rule.choices)}, got {_shown(value)}",
            why=[_declared(declared)],
            fix="pass one of them",
        )
    if rule.kind == "DType" and value.name not in DTYPES:
        raise DTypeError(
            "ML765",
            f"{declared.name}: the parameter {rule.name!r} is {value.name}, which kernels do not "
            "read or write",
            why=[_declared(declared)],
            fix="cast to float16 or bfloat16 first",
        )
    if rule.kind == "int" and not -(2**63) <= value < 2**63:
        raise ArgumentError(
            "ML767",
            f"{declared.name}: the parameter {rule.name!r} does not fit 64 bits: {value}",
            fix="pass a smaller number",
        )
    made: Parameter = value
    return made


def _shown(value: Parameter) -> str:
    return value.name if isinstance(value, DType) else repr(value)


def _declared(declared: Declaration) -> str:
    return f"it is declared at {declared.file}:{declared.line}: {declared}"


# ---------------------------------------------------------------- binding
def bind(
    declared: Declaration,
    operands: Sequence[Type],
    results: Sequence[Type],
    parameters: Mapping[str, Parameter],
    device: DeviceRef,
) -> Bound:
    """``declared`` with the types of one op.

    Raises:
        ArgumentError: ML764, another number of operands or results.
        ArgumentTypeError: ML784, a handle of another type, or where a tensor is declared.
        DTypeError: ML765, an element type that is not the declared one.
        ShapeError: ML766, a rank or a dim that is not the declared one.
        DeviceError: ML769, a tensor on another device, or no body for it.
    """
    return _Binder(declared, operands, results, parameters, device).bind()


class _Binder:
    """Finds what the names of a declaration stand for."""

    def __init__(
        self,
        declared: Declaration,
        operands: Sequence[Type],
        results: Sequence[Type],
        parameters: Mapping[str, Parameter],
        device: DeviceRef,
    ) -> None:
        self.declared = declared
        self.operands, self.results = operands, results
        self.parameters, self.device = parameters, device
        self.dims: dict[str, Dim] = {}
        self.stars: dict[str, tuple[Dim, ...]] = {}
        self.dtypes: dict[str, DType] = {}
        self.members: dict[str, Poly] = {}
        for name, value in parameters.items():
            if isinstance(value, DType):
                self.dtypes[name] = value

    def bind(self) -> Bound:
        declared = self.declared
        self._count("operand", declared.operands, self.operands, "values")
        self._count("result", declared.results, self.results, "out_types")
        self._target()
        for argument, type in zip(declared.operands, self.operands, strict=True):
            self._argument(argument, type, f"the operand {argument.name}")
        for argument, type in zip(declared.results, self.results, strict=True):
            self._argument(argument, type, f"the result {argument.name}")
        bound = self._bound()
        body = declared.bodies["cuda" if self.device.is_gpu() else "c"]
        options = (text for key, text in body.options.items() if key != "threads")
        for text in (*declared.expressions.values(), *options):
            bound.poly(text)
        return bound

    def _bound(self) -> Bound:
        dims = {name: dim.poly for name, dim in self.dims.items()}
        for name, star in self.stars.items():
            total = ONE
            for dim in star:
                total = total * dim.poly
            dims[name] = total
        return Bound(self.declared, dims, self.stars, self.dtypes, self.parameters, self.members)

    def _count(self, word: str, wanted: Sequence[Argument], got: Sequence[Type], name: str) -> None:
        if len(wanted) != len(got):
            many = f"{len(wanted)} {word}" + ("" if len(wanted) == 1 else "s")
            raise ArgumentError(
                "ML764",
                f"{self.declared.name} has {many}, got {len(got)}",
                why=[_declared(self.declared)],
                fix=f"pass {name}=[{', '.join(a.name for a in wanted)}]",
            )

    def _target(self) -> None:
        if self.declared.has_handles and self.device != DeviceRef.CPU():
            raise DeviceError(
                "ML769",
                f"{self.declared.name} makes or takes handles, and is on {self.device}",
                why=[_declared(self.declared)],
                fix="handles are memory of the host: call it on DeviceRef.CPU(), and move tensors "
                "with ops.transfer_to",
            )
        target = "cuda" if self.device.is_gpu() else "c"
        if target not in self.declared.bodies:
            raise DeviceError(
                "ML769",
                f"{self.declared.name} has no body for {self.device}",
                why=[_declared(self.declared)],
                fix=f"write one below // @{target}, or // @both when one serves both",
            )
        for word, types in (("operand", self.operands), ("result", self.results)):
            for number, type in enumerate(types):
                if isinstance(type, TensorType) and type.device != self.device:
                    fix = "move it: ops.transfer_to(x, device)"
                    if word == "result":
                        fix = f"write TensorType(dtype, shape, device={self.device!r})"
                    raise DeviceError(
                        "ML769",
                        f"{self.declared.name} is on {self.device}, and its {word} {number} is on "
                        f"{type.device}",
                        fix=fix,
                    )

    def _argument(self, argument: Argument, type: Type, what: str) -> None:
        is_handle = isinstance(type, (OpaqueType, HandleType))
        if argument.opaque:
            if not isinstance(type, (OpaqueType, HandleType)) or type.name != argument.element:
                raise self._handle(f"{what} must be a handle of {argument.element!r}, got {type}")
            return
        if is_handle or not isinstance(type, TensorType):
            raise self._handle(f"{what} must be a tensor, got {type}")
        self._element(argument, type, what)
        rank = len(type.shape)
        star = next((n for n, dim in enumerate(argument.dims) if dim.startswith("*")), None)
        least = len(argument.dims) - (star is not None)
        if rank < least or (star is None and rank != least):
            raise self._shape(
                f"{what} must have the rank {least}{' or more' if star is not None else ''}, "
                f"got {rank}: {_dims(type.shape)}"
            )
        self._known(argument, type)
        dims = list(type.shape)
        for position, word in enumerate(argument.dims):
            if not word.startswith("*"):
                dim = dims.pop(0)
                self._dim(argument, word, dim, what)
                continue
            taken = tuple(dims[: rank - least])
            del dims[: rank - least]
            name = word[1:].strip()
            known = self.stars.setdefault(name, taken)
            if known != taken:
                raise self._shape(
                    f"{what} must have the dims {_dims(known)} for *{name}, got {_dims(taken)}"
                )
            assert position == star

    def _known(self, argument: Argument, type: TensorType) -> None:
        """Let expressions ask for the sizes of this argument."""
        self.members[f"{argument.name}__of_rank"] = Poly.constant(len(type.shape))
        self.members[f"{argument.name}__of_size"] = elements(type)
        for axis, dim in enumerate(type.shape):
            self.members[f"{argument.name}__of_{axis}"] = dim.poly

    def _element(self, argument: Argument, type: TensorType, what: str) -> None:
        name, got = argument.element, type.dtype
        known = self.dtypes.get(name)
        if known is None:
            choices = self.declared.types.get(name)
            if choices is None:
                known = DType[name]
            elif got in choices:
                self.dtypes[name] = known = got
            else:
                raise DTypeError(
                    "ML765",
                    f"{self.declared.name}: {what} must be one of "
                    f"{', '.join(c.name for c in choices)}, got {got.name}",
                    why=[_declared(self.declared)],
                    fix="cast it: ops.cast(x, dtype)",
                )
        if known is not got:
            said = f" ({name})" if name != known.name else ""
            raise DTypeError(
                "ML765",
                f"{self.declared.name}: {what} must be {known.name}{said}, got {got.name}",
                why=[_declared(self.declared)],
                fix="cast it: ops.cast(x, dtype)"
                if what.startswith("the operand")
                else f"write {known.name} in out_types",
            )

    def _dim(self, argument: Argument, word: str, got: Dim, what: str) -> None:
        if word.isidentifier() and word not in self.stars and word not in self.parameters:
            wanted = self.dims.setdefault(word, got)
        else:
            wanted = from_poly(self._bound().poly(word))
        if wanted != got:
            said = f", which is {wanted}" if word != str(wanted) else ""
            raise self._shape(
                f"{what} must be [{', '.join(argument.dims)}], got {got} for {word}{said}"
            )

    def _handle(self, what: str) -> ArgumentTypeError:
        return ArgumentTypeError(
            "ML784",
            f"{self.declared.name}: {what}",
            why=[_declared(self.declared)],
            fix="pass what a kernel made with out_types=[OpaqueType(name)], or a graph input of "
            "this type"
            if "operand" in what.partition("must")[0]
            else "write OpaqueType(name) in out_types for a handle, TensorType for a tensor",
        )

    def _shape(self, what: str) -> ShapeError:
        return ShapeError(
            "ML766",
            f"{self.declared.name}: {what}",
            why=[_declared(self.declared)],
            fix="reshape the operand, or give a dim another name with ops.rebind"
            if "operand" in what.partition("must")[0]
            else "mend out_types",
        )


def _dims(dims: Sequence[Dim]) -> str:
    return "[" + ", ".join(map(str, dims)) + "]"


def bound_of(types: Sequence[Type], attrs: Attrs) -> Bound:
    """The declaration that ``attrs`` carry, with the types of the op."""
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
            fix="load the library: InferenceSession(custom_extensions=[path])",
        )
    return found


def require_unchanging(declared: Declaration) -> None:
    """Nothing, when ``declared`` changes no operand.

    Raises:
        ArgumentTypeError: ML790.
    """
    changed = [operand.name for operand in declared.operands if operand.inout]
    if changed:
        names = ", ".join(changed)
        raise ArgumentTypeError(
            "ML790",
            f"{declared.name} changes {names} in place",
            why=[_declared(declared)],
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
            why=[_declared(declared)],
            fix=f"a call of it is {INPLACE}, as ops.custom writes it",
        )
    bound_of(types, attrs)
    return list(attrs["types"])


# ---------------------------------------------------------------- the kernel
def _kernel(at: Site) -> None:
    declared = require_declared(at.attrs)
    bound = bound_of([b.type for b in at.operands], at.attrs)
    body = declared.bodies[at.target]
    options, flags = body.options, body.flags
    writer = Translator(at, bound)
    text = writer.translate(body.text)
    items = options.get("items") or declared.expressions.get("items")
    work = options.get("work") or declared.expressions.get("work", "1")
    at.part(
        came_from(declared.file, body.line, text),
        bound.poly(items) if items else _domain(bound),
        work=bound.poly(work),
        block="block" in flags and at.target == "cuda",
        threads=int(options.get("threads", "256")),
        shared=bound.poly(options.get("shared", "0")),
        scratch=bound.poly(options.get("scratch", "0")),
        # Two threads would change one handle at the same time.
        serial="serial" in flags or any(a.opaque and a.inout for a in declared.operands),
        ahead=writer.ahead(),
        before=writer.before(),
        after=writer.after(),
    )


def _domain(bound: Bound) -> Poly:
    """The elements of the first result, or of the first operand that is changed; one item for what
    makes a handle, or changes nothing but what one holds."""
    declared = bound.declared
    if any(result.opaque for result in declared.results):
        return ONE
    changed = [a for a in declared.operands if a.inout and not a.opaque]
    arguments = [*declared.results, *changed]
    return bound.members[f"{arguments[0].name}__of_size"] if arguments else ONE


# ---------------------------------------------------------------- the rest of the row
def has_reference(op: Op) -> bool:
    """Whether NumPy can compute ``op``: all ops but those of users who gave no function for it."""
    if not all(has_reference(inner) for region in op.regions for inner in region.ops):
        return False
    if op.name in OPS and declaration_of(op.attrs).has_handles:
        return False  # NumPy has none
    return op.name not in OPS or op.attrs["source"] in REFERENCES


def label_of(op: Op) -> str:
    """What a reader calls ``op``: a user's op has the name of its declaration."""
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
    bound = bound_of(operands, attrs)
    said = bound.declared.expressions
    if "flops" in said:
        return Cost(bound.poly(said["flops"]))
    items = bound.poly(said["items"]) if "items" in said else _domain(bound)
    return Cost(items * bound.poly(said.get("work", "1")))


define(
    "custom",
    "kernel",
    "custom",
    "What the kernel of a user computes, as a kernel library declares it.",
    infer=_infer,
    reference=_reference,
    kernel=_kernel,
    fault=lambda op, index, size: index_fault(label_of(op), op, index, size),
    cost=_cost,
)

__all__ = [
    "INPLACE",
    "OPS",
    "REFERENCES",
    "Bound",
    "bind",
    "bound_of",
    "complete",
    "declaration_of",
    "has_reference",
    "is_effect",
    "label_of",
    "require_declared",
    "require_unchanging",
]
