"""What a model is called with: its inputs as tensors, and what is said of those that are wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from maxlab.compiler import Compiled
from maxlab.driver import CPU, Tensor
from maxlab.dtype import check_scalar
from maxlab.engine.ownership import is_copy
from maxlab.engine.times import plural
from maxlab.errors import InputError, InputTypeError

HOST = CPU().default_stream


class Arguments:
    """The part of a model that looks at its inputs.

    Attributes:
        name: The name of the graph.
        compiled: The graph, its kernels and its plan.
    """

    _inputs_on_host: ClassVar[bool] = True

    def __init__(self, compiled: Compiled) -> None:
        facts = compiled.plan.facts
        self.name = facts.name
        self.compiled = compiled
        self._inputs = [(x.dtype, len(x.shape)) for x in facts.inputs]
        self._fast_dtypes = tuple(d for d, _ in self._inputs)
        self._ranks = tuple(r for _, r in self._inputs)
        self._unaligned = tuple(d.size_in_bytes - 1 for d, _ in self._inputs)
        self._count = len(self._inputs)
        self._written = facts.written
        self._apart = facts.apart

    def bind_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        names = [v.name for v in self.compiled.plan.facts.inputs]
        bound = dict(zip(names, args, strict=False))
        if len(args) > len(names):
            raise InputTypeError(
                "ML604",
                f"{self.name!r} takes {plural(len(names), 'input')}, got {len(args)} by position",
                fix=f"its inputs are {', '.join(names)}" if names else "it has no inputs",
            )
        for name, value in kwargs.items():
            if name not in names:
                raise InputTypeError(
                    "ML604",
                    f"{self.name!r} has no input {name!r}",
                    fix=f"its inputs are {', '.join(names)}",
                )
            if name in bound:
                raise InputTypeError(
                    "ML604",
                    f"the input {name!r} of {self.name} is given twice",
                    fix="give it by position or by name",
                )
            bound[name] = value
        missing = [n for n in names if n not in bound]
        if missing:
            raise InputTypeError(
                "ML604",
                f"{self.name!r} misses the input {missing[0]!r}",
                fix=f"its inputs are {', '.join(names)}",
            )
        return [bound[n] for n in names]

    def _accepted(self, args: Sequence[Any]) -> list[Tensor]:
        """The inputs as tensors, everything about them checked but their sizes."""
        if len(args) != self._count:
            self._refuse_count(args)
        tensors = []
        for position, given in enumerate(args):
            x = given if given.__class__ is Tensor else self._convert(position, given)
            if (
                x._dtype is not self._fast_dtypes[position]
                or len(x._shape) != self._ranks[position]
                or x._strides is not None
                or x._stream is not HOST
                or x.address & self._unaligned[position]
            ):
                self._refuse(position, x)
            tensors.append(x)
        if self._written:
            self._require_own(args, tensors)
        return tensors

    def _require_own(self, args: Sequence[Any], tensors: Sequence[Tensor]) -> None:
        """Nothing, when the inputs that the model changes are memory of the caller that it may
        change, and that it does not read as another input.

        Raises:
            InputError: ML780, memory that is only read, or a copy; ML781, two inputs share memory.
        """
        for position in self._written:
            x = tensors[position]
            why = ""
            if x.read_only:
                why = "its memory is read-only"
            elif is_copy(args[position], x):
                why = "the model would change a copy of it, which nobody sees"
            if why:
                raise InputError(
                    "ML780",
                    f"the model stores into input {position} ({self._name(position)}), and {why}",
                    fix="pass a contiguous, aligned array that may be written, or a driver.Tensor",
                )
            first, end = x.address, x.address + x._nbytes()
            for other, y in enumerate(tensors):
                if other == position or y.address >= end or y.address + y._nbytes() <= first:
                    continue
                if not x._nbytes() or not y._nbytes():
                    continue
                is_buffer = self.compiled.plan.facts.inputs[other].is_buffer
                if is_buffer and (position, other) not in self._apart:
                    continue  # loads and stores are in order, whatever they are called
                raise InputError(
                    "ML781",
                    f"the model stores into input {position} ({self._name(position)}), which "
                    f"shares memory with input {other} ({self._name(other)}), "
                    f"{'which the same kernel takes' if is_buffer else 'a tensor'}",
                    fix="pass a copy of one of them, or give the graph one input of BufferType",
                )

    def _copies(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """``tensors``, the inputs, with copies of those that the model stores into."""
        return [x.copy() if n in self._written else x for n, x in enumerate(tensors)]

    def _name(self, position: int) -> str:
        return self.compiled.plan.facts.inputs[position].name

    def _convert(self, position: int, x: Any) -> Tensor:
        """Input ``position`` as a tensor, without copying what has memory of its own."""
        dtype, rank = self._inputs[position]
        name = self.compiled.plan.facts.inputs[position].name
        if isinstance(x, np.ndarray):
            if not x.flags.c_contiguous:
                raise InputError(
                    "ML606",
                    f"input {position} ({name}) is not contiguous (strides {x.strides})",
                    fix="pass numpy.ascontiguousarray(x)",
                )
            return Tensor.from_numpy(x)
        if isinstance(x, (bool, int, float, np.generic)):
            if rank:
                raise InputError(
                    "ML610",
                    f"input {position} ({name}) is a number, expected {self._type(position)}",
                    fix="pass an array of that rank",
                )
            return Tensor.from_numpy(np.asarray(check_scalar(x, dtype), dtype.ml_numpy))
        if isinstance(x, Tensor):
            return x
        if hasattr(x, "__dlpack__"):
            return Tensor.from_dlpack(x)  # whose layout is looked at next
        if hasattr(x, "__cuda_array_interface__"):
            return Tensor.from_dlpack(x)
        raise InputTypeError(
            "ML607",
            f"input {position} ({name}) is {type(x).__name__}, expected a tensor",
            fix="pass a NumPy array, a driver.Tensor, or anything with __dlpack__",
        )

    def _type(self, position: int) -> str:
        return self.compiled.plan.facts.inputs[position].type

    def _refuse_count(self, args: Sequence[Any]) -> NoReturn:
        names = ", ".join(v.name for v in self.compiled.plan.facts.inputs)
        raise InputError(
            "ML605",
            f"{self.name!r} takes {plural(self._count, 'input')}, got {len(args)}",
            fix=f"its inputs are {names}" if names else "it has no inputs",
        )

    def _refuse(self, position: int, x: Tensor) -> None:
        """Say what is wrong with input ``position``, or wait until it has been written."""
        dtype, rank = self._inputs[position]
        name = self.compiled.plan.facts.inputs[position].name
        what = f"input {position} ({name})"
        if x.device is not HOST.device and self._inputs_on_host:
            raise InputError(
                "ML608",
                f"{what} lives on {x.device}, the graph runs on the CPU",
                fix="pass x.to(driver.CPU())",
            )
        if x._dtype is not dtype:
            raise InputError(
                "ML609",
                f"{what} has the dtype {x._dtype.name}, expected {dtype.name}",
                fix=f"convert it: x.astype({dtype.name!r})",
            )
        if len(x._shape) != rank:
            raise InputError(
                "ML610",
                f"{what} has rank {len(x._shape)} (shape {list(x._shape)}), "
                f"expected {self._type(position)}",
                fix=f"reshape it, or declare an input of rank {len(x._shape)}",
            )
        if not x.is_contiguous:
            raise InputError("ML606", f"{what} is not contiguous", fix="pass x.contiguous()")
        if x.address & self._unaligned[position]:
            raise InputError(
                "ML606",
                f"{what} is not aligned: its elements of {dtype.size_in_bytes} bytes begin at "
                f"{x.address:#x}",
                fix="pass x.copy()",
            )
        if x._stream is not HOST and self._inputs_on_host:
            x._stream.synchronize()  # whatever still writes it comes first
