"""The meaning of the names of a declaration in one op: its dims, dtypes and values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, DeviceError, DTypeError, ShapeError
from maxlab.ir import DeviceRef, Dim, HandleType, OpaqueType, TensorType, Type
from maxlab.ir.dims import from_poly
from maxlab.ir.poly import ONE, Poly
from maxlab.opset.conditions import (
    UNKNOWN,
    Condition,
    ConditionError,
    UnknownSizeError,
    chosen_lines,
)
from maxlab.opset.core import elements
from maxlab.opset.declarations import Argument, Body, Declaration, Parameter, Part
from maxlab.opset.declared_checks import expression
from maxlab.opset.kernel import Target


@dataclass(frozen=True, slots=True)
class Bound:
    """A declaration whose names stand for the dims, dtypes and values of one op."""

    declared: Declaration
    dims: Mapping[str, Poly]
    stars: Mapping[str, tuple[Dim, ...]]
    dtypes: Mapping[str, DType]
    parameters: Mapping[str, Parameter]
    members: Mapping[str, Poly]
    sizes: Mapping[str, Poly] = field(default_factory=dict)
    target: Target = "c"

    def poly(self, text: str) -> Poly:
        """The expression ``text``.

        Raises:
            ShapeError: ML766, it asks for a dim that a tensor does not have.
        """
        env = {**self.members, **self.dims, **self.sizes}
        for name, value in self.parameters.items():
            if isinstance(value, int):
                env[name] = Poly.constant(int(value))
            elif isinstance(value, tuple):
                env[f"{name}__of_size"] = Poly.constant(len(value))
                env |= {f"{name}__of_{n}": Poly.constant(v) for n, v in enumerate(value)}
        poly = expression(text)
        for name in poly.symbols():
            if name not in env:
                raise ShapeError(
                    "ML766",
                    f"{self.declared.name}: {text!r} asks for {name.replace('__of_', '.')!r}, "
                    "which these tensors do not have",
                    why=[self.declared.declared_at],
                    fix="an axis counts from 0 to the rank - 1",
                )
        return poly.substitute(env)

    def with_parameters(self, values: Mapping[str, Parameter]) -> Bound:
        """The same with other values of some parameters."""
        return replace(self, parameters={**self.parameters, **values})

    def with_size(self, name: str, size: Poly) -> Bound:
        """The same with one more named size."""
        return replace(self, sizes={**self.sizes, name: size})

    @property
    def env(self) -> dict[str, Any]:
        """The values that names in conditions stand for."""
        sizes = {**self.dims, **self.sizes}
        known = {n: p.value if p.is_constant else UNKNOWN for n, p in sizes.items()}
        return {"gpu": self.target == "cuda", **known, **self.dtypes, **self.parameters}

    def holds(self, test: Condition | None) -> bool:
        """Whether ``test`` is true, or None.

        Raises:
            ShapeError: ML470, it needs a size that is not known.
            ArgumentError: ML471, it compares what cannot be compared.
        """
        with self.deciding():
            return test is None or test.holds(self.env)

    @contextlib.contextmanager
    def deciding(self) -> Iterator[None]:
        """Say which op it was that a condition could not be decided for."""
        try:
            yield
        except UnknownSizeError as error:
            raise ShapeError(
                "ML470",
                f"{self.declared.name}: a condition needs the size {error.name}, which is not "
                "known when the op is compiled",
                why=[self.declared.declared_at],
                fix=f"write: known({error.name}) and …, or give the dim a number",
            ) from None
        except ConditionError as error:
            raise ArgumentError(
                "ML471",
                f"{self.declared.name}: the condition {error.what}",
                why=[self.declared.declared_at],
                fix="compare numbers with numbers, and dtypes with dtypes",
            ) from None

    def parts(self) -> Iterator[tuple[Part, Body]]:
        """The parts that run for this op, each with its body.

        Raises:
            ShapeError: ML470, a condition needs a size that is not known.
            ArgumentError: ML471, one compares what cannot be compared.
        """
        for part, body in self.declared.bodies(self.target):
            if self.holds(part.condition):
                yield part, body


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
        for name, said in declared.sizes.items():
            bound = bound.with_size(name, bound.poly(said or ""))
        some = False
        for part, body in bound.parts():
            some = True
            options = (text for key, text in body.options.items() if key != "threads")
            for text in (*part.expressions.values(), *options):
                bound.poly(text)
            with bound.deciding():
                for _, text in (body.before, (0, body.text)):
                    chosen_lines(text, bound.env)
        if not some:
            raise ShapeError(
                "ML472",
                f"{declared.name} has no part for these operands and parameters",
                why=[declared.declared_at],
                fix="let the conditions of its parts leave one",
            )
        for memory in declared.temporaries:
            if bound.holds(memory.condition):
                bound.poly(memory.count)
        return bound

    def _bound(self) -> Bound:
        dims = {name: dim.poly for name, dim in self.dims.items()}
        for name, star in self.stars.items():
            total = ONE
            for dim in star:
                total = total * dim.poly
            dims[name] = total
        target: Target = "cuda" if self.device.is_gpu() else "c"
        return Bound(
            self.declared, dims, self.stars, self.dtypes, self.parameters, self.members, {}, target
        )

    def _count(self, word: str, wanted: Sequence[Argument], got: Sequence[Type], name: str) -> None:
        if len(wanted) != len(got):
            many = f"{len(wanted)} {word}" + ("" if len(wanted) == 1 else "s")
            raise ArgumentError(
                "ML764",
                f"{self.declared.name} has {many}, got {len(got)}",
                why=[self.declared.declared_at],
                fix=f"pass {name}=[{', '.join(a.name for a in wanted)}]",
            )

    def _target(self) -> None:
        if self.declared.has_handles and self.device != DeviceRef.CPU():
            raise DeviceError(
                "ML769",
                f"{self.declared.name} makes or takes handles, and is on {self.device}",
                why=[self.declared.declared_at],
                fix="handles are memory of the host: call it on DeviceRef.CPU(), and move tensors "
                "with ops.transfer_to",
            )
        target = "cuda" if self.device.is_gpu() else "c"
        if target not in self.declared.targets:
            raise DeviceError(
                "ML769",
                f"{self.declared.name} has no body for {self.device}",
                why=[self.declared.declared_at],
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
                    why=[self.declared.declared_at],
                    fix="cast it: ops.cast(x, dtype)",
                )
        if known is not got:
            said = f" ({name})" if name != known.name else ""
            raise DTypeError(
                "ML765",
                f"{self.declared.name}: {what} must be {known.name}{said}, got {got.name}",
                why=[self.declared.declared_at],
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
            why=[self.declared.declared_at],
            fix="pass what a kernel made with out_types=[OpaqueType(name)], or a graph input of "
            "this type"
            if "operand" in what.partition("must")[0]
            else "write OpaqueType(name) in out_types for a handle, TensorType for a tensor",
        )

    def _shape(self, what: str) -> ShapeError:
        return ShapeError(
            "ML766",
            f"{self.declared.name}: {what}",
            why=[self.declared.declared_at],
            fix="reshape the operand, or give a dim another name with ops.rebind"
            if "operand" in what.partition("must")[0]
            else "mend out_types",
        )


def _dims(dims: Sequence[Dim]) -> str:
    return "[" + ", ".join(map(str, dims)) + "]"


__all__ = ["Bound", "bind"]
